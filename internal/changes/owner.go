package changes

import (
	"path"
	"slices"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// OriginOf is where a source reads from, in one spelling: two that differ in a trailing slash or .git are the same.
func OriginOf(spec *v1alpha1.GitSourceSpec) v1alpha1.SourceOrigin {
	o := v1alpha1.SourceOrigin{URL: spec.URL, Paths: slices.Clone(spec.Paths)}
	if spec.Path != "" {
		o.Paths = append(o.Paths, spec.Path)
	}
	return oneSpelling(o)
}

func oneSpelling(o v1alpha1.SourceOrigin) v1alpha1.SourceOrigin {
	out := v1alpha1.SourceOrigin{URL: strings.TrimSuffix(strings.TrimRight(o.URL, "/"), ".git")}
	for _, p := range o.Paths {
		if p = strings.TrimPrefix(path.Clean("/"+p), "/"); p != "" {
			out.Paths = append(out.Paths, p)
		}
	}
	if len(out.Paths) < len(o.Paths) {
		out.Paths = nil // one of them is the whole repository
	}
	slices.Sort(out.Paths)
	out.Paths = slices.Compact(out.Paths)
	return out
}

// HasMoved says whether a source names another repository, or another path of it, than what is on the hub comes from.
func HasMoved(source *v1alpha1.GitSource) bool {
	was := source.Status.Origin
	if was == nil {
		return false // nothing was applied yet, or before it was noted
	}
	before, now := oneSpelling(*was), OriginOf(&source.Spec)
	return was.Moving || before.URL != now.URL || !slices.Equal(before.Paths, now.Paths)
}

// appliedByAnother says whether an object with the label of a source was last applied by another one, or by none: a
// person has given it the label, or there was a source of this name before. Objects from before the UID was noted
// are its own if they have a digest, and the source was there first.
func appliedByAnother(source *v1alpha1.GitSource, obj Object) bool {
	annotations := obj.GetAnnotations()
	if uid := annotations[v1alpha1.AnnotationSourceUID]; uid != "" {
		return uid != string(source.UID)
	}
	made, since := obj.GetCreationTimestamp(), source.GetCreationTimestamp()
	return annotations[v1alpha1.AnnotationSourceDigest] == "" || made.Before(&since)
}

// pruneDisabledBy says what keeps an object of the hub when Git no longer declares it; empty where nothing does.
func pruneDisabledBy(obj Object) string {
	annotations := obj.GetAnnotations()
	for _, key := range []string{v1alpha1.AnnotationPrune, v1alpha1.AnnotationSourcePrune} {
		if annotations[key] == v1alpha1.PruneDisabled {
			return "its annotation " + key + " is " + v1alpha1.PruneDisabled
		}
	}
	if obj.GetLabels()[v1alpha1.AnnotationPrune] == v1alpha1.PruneDisabled {
		return "its label " + v1alpha1.AnnotationPrune + " is " + v1alpha1.PruneDisabled
	}
	return ""
}
