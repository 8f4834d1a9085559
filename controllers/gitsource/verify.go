package gitsource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/verify"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// trust is what the commits of a source are verified with. Nil is for a source that does not ask for that.
type trust struct {
	mode   v1alpha1.VerifyMode
	secret types.NamespacedName
	keys   *verify.Keys
}

// unverified is an error for which a source's commit is not verified.
type unverified struct{ *sourceError }

// Unwrap returns the sourceError, whose reason Ready has as well.
func (e *unverified) Unwrap() error { return e.sourceError }

func notVerified(reason, format string, args ...any) error {
	return &unverified{&sourceError{reason, "spec.verify: " + fmt.Sprintf(format, args...)}}
}

// trust reads the keys that a source trusts. It does so each time, so that a key which was taken away is not trusted any
// more, for the commit that is applied neither.
func (r *Reconciler) trust(ctx context.Context, source *v1alpha1.GitSource) (*trust, error) {
	spec := source.Spec.Verify
	if spec == nil {
		return nil, nil
	}
	if err := checkMode(spec.Mode, source.Spec.Ref); err != nil {
		return nil, err
	}
	key := types.NamespacedName{Namespace: source.Namespace, Name: spec.SecretRef.Name}
	data, err := r.secret(ctx, key.Namespace, "spec.verify", key.Name, fmt.Sprintf(
		"create it with the public keys of those who sign: kubectl -n %s create secret generic %s --from-file=author.asc", key.Namespace, key.Name))
	if own := (*sourceError)(nil); errors.As(err, &own) {
		return nil, &unverified{own}
	}
	if err != nil {
		return nil, err
	}
	keys, err := verify.ReadKeys(data)
	if err != nil {
		return nil, notVerified(v1alpha1.ReasonSecretInvalid, "Secret %s: %s", key, err)
	}
	return &trust{mode: spec.Mode, secret: key, keys: keys}, nil
}

const tagPrefix = "refs/tags/"

// checkMode refuses to verify a tag where the ref names none.
func checkMode(mode v1alpha1.VerifyMode, ref *v1alpha1.GitRef) error {
	if !verify.WantsTag(mode) || ref != nil && (ref.Tag != "" || ref.SemVer != "" || strings.HasPrefix(ref.Name, tagPrefix)) {
		return nil
	}
	return notVerified(v1alpha1.ReasonInvalidSpec, "mode %s verifies a signed tag, and spec.ref names none: set spec.ref.tag, spec.ref.semver, or a spec.ref.name that begins with %s, or use mode %s",
		mode, tagPrefix, v1alpha1.VerifyHead)
}

// check verifies what was fetched. Without trust, nothing has to be.
func (t *trust) check(revision, refName string, signed fetch.Signed, now time.Time) (*verify.Result, error) {
	if t == nil {
		return nil, nil
	}
	result, err := verify.Check(verify.Input{Mode: t.mode, RefName: refName, Commit: signed.Commit, Tags: signed.Tags, Now: now}, t.keys)
	if err != nil {
		return nil, notVerified(v1alpha1.ReasonVerificationFailed, "revision %s is not verified: %s; sign it with a key of Secret %s, or add the signer's public key there",
			revision, err, t.secret)
	}
	return &result, nil
}

// wantTags asks for the tags that lead to the commit, where they have to be verified.
func wantTags(req *fetch.Request, spec *v1alpha1.GitSourceSpec, before *tree) {
	req.WithTags = spec.Verify != nil && verify.WantsTag(spec.Verify.Mode)
	if req.Known != "" {
		req.KnownTag = before.signed.TagHash()
	}
}

// rejected is what is known of a commit that is not verified, of which nothing is parsed.
func rejected(fetched *fetch.Result, before *tree) *tree {
	t := &tree{commit: fetched.Commit, revision: fetched.Revision, about: fetched.About}
	if fetched.Unchanged {
		t.about = before.about
	}
	return t
}

// verificationOf is what a status says of a verification.
func verificationOf(r *verify.Result) *v1alpha1.Verification {
	if r == nil {
		return nil
	}
	out := &v1alpha1.Verification{Mode: r.Mode}
	if r.Commit != nil {
		out.Commit = r.Commit.String()
	}
	var tags []string
	for _, signer := range r.Tags {
		tags = append(tags, signer.String())
	}
	out.Tag = strings.Join(slices.Compact(tags), ", ")
	return out
}

// setVerified sets the condition of the last commit of which the signatures were checked. It stays where the repository
// could not be read, since it says which commit that was, unless it speaks of a Secret or a mode that have been corrected.
func setVerified(source *v1alpha1.GitSource, done progress, err error, now time.Time) {
	const kind = v1alpha1.ConditionSourceVerified
	var refused *unverified
	switch {
	case source.Spec.Verify == nil: // forgetUnasked removes it
	case errors.As(err, &refused):
		condition.Set(source, now, conditions.FalseCondition(kind, refused.reason, "%s", refused.message))
	case done.tree != nil && done.tree.verified != nil:
		condition.Set(source, now, conditions.TrueCondition(kind, v1alpha1.ReasonSucceeded, "%s", verifiedMessage(done.tree)))
	case conditions.IsFalse(source, kind) && conditions.GetReason(source, kind) != v1alpha1.ReasonVerificationFailed:
		condition.Set(source, now, conditions.UnknownCondition(kind, reasonOf(err), "%s", "no commit could be read whose signatures would be checked"))
	}
}

func verifiedMessage(t *tree) string {
	var parts []string
	add := func(what string, s verify.Signer) {
		by := s.String()
		if user := characters(s.User, sanitize.MaxAuthor); user != "" {
			by += " (" + user + ")"
		}
		parts = append(parts, what+" is signed by "+by)
	}
	for _, signer := range t.verified.Tags {
		add("the tag", signer)
	}
	if t.verified.Commit != nil {
		add("the commit", *t.verified.Commit)
	}
	return fmt.Sprintf("revision %s: %s", t.revision, strings.Join(parts, "; "))
}
