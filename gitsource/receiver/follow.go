package receiver

import (
	"slices"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// concerns says whether what has happened may be of interest to a source that follows a ref. It says no only where that is
// certain.
func concerns(e event, ref v1alpha1.GitRef) bool {
	switch e.kind {
	case push:
		return e.refs == nil || slices.ContainsFunc(e.refs, func(changed string) bool { return mayMove(changed, ref, e.branch) })
	case review:
		return ref.Name != "" && !ordinary(ref.Name)
	default:
		return false
	}
}

// mayMove says whether the change of a ref, by its full name, may move a source that follows another. The default branch is
// empty where it is not known.
func mayMove(changed string, ref v1alpha1.GitRef, branch string) bool {
	switch {
	case ref.Commit != "":
		return true // it comes with whatever ref
	case ref.Name != "":
		return ref.Name == changed || !ordinary(ref.Name) // a merge of a pull request moves with its target
	case ref.SemVer != "":
		return !strings.HasPrefix(changed, heads)
	case ref.Tag != "":
		return changed == tags+strings.TrimPrefix(ref.Tag, tags)
	case ref.Branch != "":
		return changed == heads+strings.TrimPrefix(ref.Branch, heads)
	case branch != "":
		return changed == heads+branch
	default:
		return !strings.HasPrefix(changed, tags)
	}
}

// ordinary says whether a ref is a branch or a tag, which only a push to it moves.
func ordinary(name string) bool {
	return strings.HasPrefix(name, heads) || strings.HasPrefix(name, tags)
}
