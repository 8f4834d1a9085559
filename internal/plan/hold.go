package plan

import (
	"fmt"
	"slices"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// chosen says whether a member is in the placement.
func (d *Decision) chosen(member string) bool {
	return d.Placement != nil && slices.Contains(d.Placement.Clusters, member) && !slices.Contains(d.superseded, member)
}

// hold is why no new run may begin anywhere: one may be live that the ledger does not know of, or is on a member that is
// no longer in the placement, and the run that moves must not be there twice. It is empty where one may.
func (d *Decision) hold() string {
	if d.unknownRun != "" {
		return d.unknownRun
	}
	if d.Placement != nil && d.Placement.Open {
		return "" // nothing moves from one member to another
	}
	for _, name := range d.Ledger.Live() {
		if d.chosen(name) {
			continue
		}
		last := d.Ledger.Last(name)
		if e, evicted := d.Evictions[name]; evicted {
			return fmt.Sprintf("waiting until nothing is left of run %s on %s, which is %s", last.ID, name, e.Message)
		}
		if last.State == v1alpha1.RunStopping {
			return fmt.Sprintf("waiting until nothing is left of run %s on %s, which is being stopped (%s)", last.ID, name, last.Stop)
		}
		return "waiting for the run on " + name + " to end, which is no longer in the placement"
	}
	return ""
}

// vacating says that no new run may begin only because another one is on its way out: room is kept for it.
func (d *Decision) vacating() bool {
	if d.unknownRun != "" {
		return false
	}
	for _, name := range d.Ledger.Live() {
		if d.chosen(name) {
			continue
		}
		if _, evicted := d.Evictions[name]; !evicted && d.Ledger.Last(name).State != v1alpha1.RunStopping {
			return false
		}
	}
	return true
}

// starting says that a run is to begin on a member as soon as another one has ended elsewhere.
func (d *Decision) starting(member string) bool {
	return d.Problem == nil && !d.Wanted.Suspend && d.chosen(member) && d.hold() != "" && d.vacating()
}

// holdReason is the reason for a hold; empty for the usual one.
func (d *Decision) holdReason() string {
	if d.unknownRun != "" {
		return v1alpha1.ReasonMemberNotAsked
	}
	return ""
}
