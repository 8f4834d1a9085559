package fetch

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// target is the commit that a Ref stands for at this moment.
type target struct {
	commit plumbing.Hash
	// object is what the ref itself names: an annotated tag, or the commit.
	object plumbing.Hash
	// refName is the full name of the ref, "" for a Ref that names a commit.
	refName string
	// short is the name for people.
	short string
	// advertised says that the server listed the commit, so that it can be asked for by its hash.
	advertised bool
}

// known says whether a request has this commit already, and, where it wants the tags, reached it in the same way.
func (t target) known(req Request) bool {
	tag := ""
	if t.object != t.commit {
		tag = t.object.String()
	}
	return t.commit.String() == req.Known && (!req.WithTags || tag == req.KnownTag)
}

const (
	refsPrefix   = "refs/"
	branchPrefix = "refs/heads/"
	tagPrefix    = "refs/tags/"
	headName     = "HEAD"
	shortSHA     = 7
)

func (t target) revision() string {
	sha := t.commit.String()[:shortSHA]
	if t.short == "" {
		return sha
	}
	return shownName(t.short) + "@" + sha
}

// maxNameRunes is how much of a name is shown.
const maxNameRunes = 100

// shownName is a name of the repository, of which the server may say anything, as it is safe to show.
func shownName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) || unicode.IsSpace(r) {
			return '\uFFFD'
		}
		return r
	}, name)
	if runes := []rune(name); len(runes) > maxNameRunes {
		return string(runes[:maxNameRunes]) + "…"
	}
	return name
}

// checkRef refuses what no server needs to be asked for.
func checkRef(ref Ref) error {
	set := 0
	for _, field := range []string{ref.Branch, ref.Tag, ref.SemVer, ref.Name, ref.Commit} {
		if field != "" {
			set++
		}
	}
	if set > 1 {
		return fail(ReasonInvalidRequest, "more than one of branch, tag, semver, name and commit is set; keep one")
	}
	if ref.Commit != "" && (!plumbing.IsHash(ref.Commit) || len(ref.Commit) != 40) {
		return fail(ReasonInvalidRequest, "commit must be a full SHA-1 of 40 hexadecimal digits")
	}
	if ref.SemVer != "" {
		if _, err := semver.NewConstraint(ref.SemVer); err != nil {
			return fail(ReasonInvalidRequest, "semver "+strconv.Quote(clip(ref.SemVer, 60))+
				" is not a version range; write for example \">=1.0.0 <2.0.0\"")
		}
	}
	return nil
}

// resolve finds the commit of ref among what the server advertises.
func resolve(ref Ref, adv *packp.AdvRefs) (target, error) {
	switch {
	case ref.Commit != "":
		return resolveCommit(plumbing.NewHash(ref.Commit), adv), nil
	case ref.Branch != "":
		name := branchPrefix + strings.TrimPrefix(ref.Branch, branchPrefix)
		return named(adv, name, "the repository has no branch "+strconv.Quote(clip(ref.Branch, 100)))
	case ref.Tag != "":
		name := tagPrefix + strings.TrimPrefix(ref.Tag, tagPrefix)
		return named(adv, name, "the repository has no tag "+strconv.Quote(clip(ref.Tag, 100)))
	case ref.SemVer != "":
		return resolveSemVer(ref.SemVer, adv)
	case ref.Name != "":
		return named(adv, ref.Name, "the repository has no reference "+strconv.Quote(clip(ref.Name, 100)))
	default:
		return resolveHead(adv)
	}
}

func named(adv *packp.AdvRefs, name, missing string) (target, error) {
	hash, ok := adv.References[name]
	if !ok {
		return target{}, fail(ReasonRefNotFound, missing)
	}
	object := hash
	if peeled, ok := adv.Peeled[name]; ok {
		hash = peeled
	}
	short := strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(name, branchPrefix), tagPrefix), refsPrefix)
	return target{commit: hash, object: object, refName: name, short: short, advertised: true}, nil
}

func resolveCommit(hash plumbing.Hash, adv *packp.AdvRefs) target {
	t := target{commit: hash, object: hash}
	for _, refs := range []map[string]plumbing.Hash{adv.References, adv.Peeled} {
		for _, h := range refs {
			t.advertised = t.advertised || h == hash
		}
	}
	return t
}

// resolveHead prefers the branch that HEAD points to, which gives the revision its name.
func resolveHead(adv *packp.AdvRefs) (target, error) {
	for _, symref := range adv.Capabilities.Get(capability.SymRef) {
		if name, ok := strings.CutPrefix(symref, headName+":"); ok && strings.HasPrefix(name, branchPrefix) {
			return named(adv, name, "the default branch of the repository is missing; name a branch")
		}
	}
	if adv.Head == nil {
		return target{}, fail(ReasonRefNotFound, "the repository has no default branch; name a branch")
	}
	return target{commit: *adv.Head, object: *adv.Head, refName: headName, short: headName, advertised: true}, nil
}

// resolveSemVer picks the highest version in the range. Of tags that are the same version ("1.2" and
// "v1.2.0", build metadata) the last by name wins, so that the choice does not depend on map order.
func resolveSemVer(constraint string, adv *packp.AdvRefs) (target, error) {
	within, err := semver.NewConstraint(constraint)
	if err != nil {
		return target{}, fail(ReasonInvalidRequest, "semver is not a version range")
	}
	var (
		best     *semver.Version
		bestName string
	)
	for name := range adv.References {
		tag, ok := strings.CutPrefix(name, tagPrefix)
		if !ok {
			continue
		}
		version, err := semver.NewVersion(tag)
		if err != nil || !within.Check(version) {
			continue
		}
		if best == nil || version.GreaterThan(best) || (version.Equal(best) && name > bestName) {
			best, bestName = version, name
		}
	}
	missing := "no tag of the repository is in the version range " + strconv.Quote(clip(constraint, 60))
	if best == nil {
		return target{}, fail(ReasonRefNotFound, missing)
	}
	return named(adv, bestName, missing)
}
