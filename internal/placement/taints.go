package placement

import (
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// untolerated are the taints of a member that count: those that the placement does not tolerate, less those
// that let a member be which was chosen before.
func (in Input) untolerated(c Candidate) []v1alpha1.Taint {
	var out []v1alpha1.Taint
	for _, t := range c.Taints {
		if !tolerated(in.Spec.Tolerations, t) && (t.Effect != v1alpha1.NoSelectIfNew || !slices.Contains(in.Prefer, c.Name)) {
			out = append(out, t)
		}
	}
	return out
}

func tolerated(tolerations []v1alpha1.Toleration, taint v1alpha1.Taint) bool {
	for _, t := range tolerations {
		if tolerates(t, taint) {
			return true
		}
	}
	return false
}

func tolerates(t v1alpha1.Toleration, taint v1alpha1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect {
		return false
	}
	if t.Operator == v1alpha1.TolerateExists {
		return t.Key == "" || t.Key == taint.Key
	}
	return t.Key != "" && t.Key == taint.Key && t.Value == taint.Value
}

// describe writes a taint as kubectl does: KEY=VALUE:EFFECT.
func describe(t v1alpha1.Taint) string {
	if t.Value == "" {
		return t.Key + ":" + string(t.Effect)
	}
	return t.Key + "=" + t.Value + ":" + string(t.Effect)
}
