// Package override changes a MiniCluster for one member, as a Placement says. It is pure: the spec, the overrides and the
// member's labels come in; out goes the spec for that member, and its digest where it differs.
package override

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// mostCopied bounds by how many bytes "copy" may make a spec larger: some of them double it.
const mostCopied = 1 << 20

// Result is a MiniCluster for a member.
type Result struct {
	Spec fluxv1alpha2.MiniClusterSpec
	// Names of the overrides that were applied, in order, and a hash of what they say. Both are empty if none
	// was.
	Names  []string
	Digest string
}

// Error says which override cannot be applied, and why.
type Error struct {
	Override string
	Err      error
}

func (e *Error) Error() string { return fmt.Sprintf("override %s: %s", e.Override, e.Err) }

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// Apply applies those overrides that select a member with these labels to a copy of a spec, in order. What
// results is a valid MiniCluster of this name, of the same size. The error is an *Error.
func Apply(name string, spec *fluxv1alpha2.MiniClusterSpec, overrides []v1alpha1.ClusterOverride, member map[string]string) (Result, error) {
	out := Result{Spec: *spec.DeepCopy()}
	said := sha256.New()
	for i := range overrides {
		o := &overrides[i]
		selector, err := metav1.LabelSelectorAsSelector(&o.ClusterSelector)
		if err != nil {
			return Result{}, &Error{o.Name, fmt.Errorf("clusterSelector: %w", err)}
		}
		if !selector.Matches(labels.Set(member)) {
			continue
		}
		patches, err := json.Marshal(o.Patches)
		if err != nil {
			return Result{}, &Error{o.Name, err}
		}
		next, err := patch(&out.Spec, o.Patches, patches)
		if err == nil {
			err = check(name, spec, next)
		}
		if err != nil {
			return Result{}, &Error{o.Name, err}
		}
		out.Spec = *next
		out.Names = append(out.Names, o.Name)
		said.Write(patches)
		said.Write([]byte{0})
	}
	if len(out.Names) > 0 {
		out.Digest = hex.EncodeToString(said.Sum(nil)[:4])
	}
	return out, nil
}

func patch(spec *fluxv1alpha2.MiniClusterSpec, patches []v1alpha1.JSONPatch, encoded []byte) (*fluxv1alpha2.MiniClusterSpec, error) {
	for i, p := range patches {
		needs := p.Op == v1alpha1.PatchAdd || p.Op == v1alpha1.PatchReplace || p.Op == v1alpha1.PatchTest
		if needs != (p.Value != nil) {
			return nil, fmt.Errorf("patches[%d] (%s %s): set value with add, replace and test, and with no other op", i, p.Op, p.Path)
		}
	}
	body, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	var doc any
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, err
	}
	for i := range patches {
		if patches[i].Op == v1alpha1.PatchAdd {
			makeParents(doc, patches[i].Path)
		}
	}
	if body, err = json.Marshal(doc); err != nil {
		return nil, err
	}
	p, err := jsonpatch.DecodePatch(encoded)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices, options.AccumulatedCopySizeLimit = false, mostCopied
	if body, err = p.ApplyWithOptions(body, options); err != nil {
		return nil, err
	}
	var out fluxv1alpha2.MiniClusterSpec
	strict, err := kjson.UnmarshalStrict(body, &out)
	if err == nil && len(strict) > 0 {
		err = strict[0]
	}
	if err != nil {
		return nil, fmt.Errorf("what it makes is no MiniCluster: %w", err)
	}
	return &out, nil
}

// makeParents makes the objects that a path to add leads through, since fields that are unset are not there.
// Elements of lists are not made.
func makeParents(doc any, path string) {
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts)-1; i++ {
		key := strings.NewReplacer("~1", "/", "~0", "~").Replace(parts[i])
		switch at := doc.(type) {
		case map[string]any:
			if _, ok := at[key]; !ok {
				at[key] = map[string]any{}
			}
			doc = at[key]
		case []any:
			var n int
			if _, err := fmt.Sscanf(key, "%d", &n); err != nil || n < 0 || n >= len(at) {
				return
			}
			doc = at[n]
		default:
			return
		}
	}
}

// check refuses what is not valid, and what concerns all members: the hub has one size for all of them, and
// one answer to what becomes of a run that has ended.
func check(name string, spec, next *fluxv1alpha2.MiniClusterSpec) error {
	was, is := spec.DeepCopy(), next.DeepCopy()
	was.Default()
	is.Default()
	what := ""
	switch {
	case was.Size != is.Size:
		what = "size"
	case was.MaxSize != is.MaxSize:
		what = "maxSize"
	case was.Cleanup != is.Cleanup:
		what = "cleanup"
	}
	if what != "" {
		return fmt.Errorf("it changes %s, which is the same on all members: remove that patch", what)
	}
	if errs := fluxv1alpha2.Validate(name, is, field.NewPath("miniCluster")); len(errs) > 0 {
		return errs.ToAggregate()
	}
	return nil
}
