package plan

import (
	"fmt"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// suspension says what suspends a FleetMiniCluster and how to go on; empty if nothing does.
func suspension(f *v1alpha1.FleetMiniCluster) string {
	fromGit := f.Labels[v1alpha1.LabelSource] != ""
	var parts []string
	if f.Held() {
		by := "held by hand (annotation " + v1alpha1.AnnotationHold + ")"
		if fromGit {
			by += ", which Git leaves alone"
		}
		parts = append(parts, fmt.Sprintf("%s; to go on: kubectl -n %s annotate fmc %s %s-", by, f.Namespace, f.Name, v1alpha1.AnnotationHold))
	}
	if f.Spec.Suspend {
		parts = append(parts, suspendedByField(f, fromGit))
	}
	return strings.Join(parts, "; and ")
}

func suspendedByField(f *v1alpha1.FleetMiniCluster, fromGit bool) string {
	by := "spec.suspend is true"
	switch {
	case fromGit && f.Annotations[v1alpha1.AnnotationSourceSuspend] == "true":
		return by + " in Git; to go on, change it there"
	case fromGit:
		by = "spec.suspend was set by hand, which Git leaves alone"
	}
	return fmt.Sprintf(`%s; to go on: kubectl -n %s patch fmc %s --type merge -p '{"spec":{"suspend":false}}'`, by, f.Namespace, f.Name)
}
