package changes

import (
	"maps"
	"slices"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// missing are the objects of a source that Git does not declare, by KIND/NAME, FleetMiniClusters first.
type missing struct {
	undeclared []string
	kept       []string // what a file with a problem may declare
	pending    []string // what is being deleted
	declared   int      // how many Git does declare, or may, that were there before the commit
}

// addMissing adds what becomes of what Git no longer declares. Of that, Placements are kept that something refers to
// which stays as it is.
func (p *Plan) addMissing(in *Input) {
	m := missingOf(in)
	p.Pending = m.pending
	used := in.Hub.placementsOf(slices.Concat(p.Runs.Keys, p.refusedOnHub(in)))
	approved := in.Source.Approved(v1alpha1.AnnotationApprovePrune, in.Commit.Hash)
	var out []Change
	for _, key := range slices.Sorted(slices.Values(slices.Concat(m.undeclared, m.kept))) { // FleetMiniClusters first
		c := missingChange(in, &m, used, key)
		if c.Action == v1alpha1.ChangeKeep || !approved && appliedByAnother(in.Source, c.Have) {
			maps.Copy(used, in.Hub.placementsOf([]string{key}))
		}
		out = append(out, c)
	}
	askForPrune(in, p, out, m.declared)
	p.Changes = append(p.Changes, out...)
	p.Through = !p.Waiting() && len(m.kept) == 0 && len(p.refusedOnHub(in)) == 0
}

// whyUsed is why a Placement stays.
const whyUsed = "what stays as it is refers to it"

// missingChange is what becomes of one object that Git no longer declares.
func missingChange(in *Input, m *missing, used map[string]bool, key string) Change {
	obj := in.Hub[key]
	c := Change{Key: key, Action: v1alpha1.ChangeKeep, Path: FileOf(obj), Have: obj}
	switch {
	case slices.Contains(m.kept, key):
		c.Message = "it may be in a file that has a problem"
	case in.Source.Spec.Prune != nil && !*in.Source.Spec.Prune:
		c.Message = "spec.prune of the GitSource is false"
	case pruneDisabledBy(obj) != "":
		c.Message = pruneDisabledBy(obj)
	case used[key]:
		c.Message = whyUsed
	default:
		c.Action, c.Message = v1alpha1.ChangeDelete, "Git no longer declares it"
	}
	return c
}

// refusedOnHub are the objects of the source that are refused as Git declares them, and stay as they are.
func (p *Plan) refusedOnHub(in *Input) []string {
	var out []string
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action == v1alpha1.ChangeRefuse && c.Have != nil && BelongsTo(c.Have, in.Source.Name) {
			out = append(out, c.Key)
		}
	}
	return out
}

// missingOf finds the objects of a source that Git no longer declares.
func missingOf(in *Input) missing {
	inGit := make(map[string]bool, len(in.Parsed.Objects))
	for i := range in.Parsed.Objects {
		o := &in.Parsed.Objects[i]
		inGit[Key(o.Kind, o.Name)] = true
	}
	bad, wrong := badFiles(in), wrongObjects(in.Parsed.Problems)
	var m missing
	for key, obj := range in.Hub {
		if !BelongsTo(obj, in.Source.Name) {
			continue
		}
		deleting, mayBeInGit := !obj.GetDeletionTimestamp().IsZero(), len(bad) > 0 && (bad[FileOf(obj)] || bad[anyFile]) || wrong[key]
		switch {
		case deleting && !inGit[key] && !mayBeInGit:
			m.pending = append(m.pending, key)
		case deleting:
		case inGit[key] && createdBy(obj, in.Commit.Hash): // it does not make a prune of this commit smaller
		case inGit[key]:
			m.declared++
		case mayBeInGit:
			m.declared++
			m.kept = append(m.kept, key)
		default:
			m.undeclared = append(m.undeclared, key)
		}
	}
	slices.Sort(m.undeclared)
	slices.Sort(m.kept)
	slices.Sort(m.pending)
	return m
}

// anyFile stands for a file that cannot be read, and for an overlay that cannot be built: what is no longer in its own file
// may have moved there.
const anyFile = ""

// badFiles are the files with a problem. What they declare is not known, so that nothing may be missed.
func badFiles(in *Input) map[string]bool {
	problems := slices.DeleteFunc(slices.Clone(in.Parsed.Problems), func(p parse.Problem) bool { return p.Warning })
	if len(problems) == 0 {
		return nil
	}
	known := map[string]bool{} // those that objects of the hub come from
	for _, file := range in.Hub.FilesOf(in.Source.Name) {
		known[file] = true
	}
	bad := map[string]bool{}
	for _, p := range problems {
		bad[p.Path] = true
		if !known[p.Path] || p.Object == "" {
			bad[anyFile] = true
		}
	}
	return bad
}

// wrongObjects are the objects, by KIND/NAME, that Git declares with a mistake, in whichever file.
func wrongObjects(problems []parse.Problem) map[string]bool {
	wrong := map[string]bool{}
	for _, p := range problems {
		if kind, name, ok := strings.Cut(p.Object, "/"); ok && !p.Warning {
			wrong[Key(kind, name)] = true
		}
	}
	return wrong
}
