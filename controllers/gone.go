package controllers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// declareGone gives up live runs of which a person says that they are gone, on members that cannot be asked.
// It comes before the placement, which would keep them where they are. A member that returns with such a run
// still live is told to stop it (runs.Next).
func (p *pass) declareGone() {
	declared := runIDs(p.fmc.Annotations[v1alpha1.AnnotationRunGone])
	if len(declared) == 0 {
		return
	}
	for i := range p.ledger {
		run := &p.ledger[i]
		if run.State.Ended() || !slices.Contains(declared, run.ID) {
			continue
		}
		if _, err := p.r.Provider.Member(run.Cluster); err == nil {
			continue // it can be asked, and knows better
		}
		run.State, run.Stop, run.CompletionTime = v1alpha1.RunReplaced, v1alpha1.StopDeclaredGone, p.now()
		run.Message = "declared gone (annotation " + v1alpha1.AnnotationRunGone + ") while its member could not be asked"
		p.note("Warning", v1alpha1.ReasonRunReplaced, "Finish", run.Cluster, run.ID, fmt.Sprintf("%s: run %s %s", run.Cluster, run.ID, run.Message))
	}
}

// runIDs are the ids in an annotation.
func runIDs(list string) []string { return strings.FieldsFunc(list, isSeparator) }
