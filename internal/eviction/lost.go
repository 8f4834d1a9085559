package eviction

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Lost is a live run on a member that cannot be reached.
type Lost struct {
	Run      *v1alpha1.Run
	Failover *v1alpha1.Failover
	// LastHeard is when the member was last heard from.
	LastHeard time.Time
	// Declare is the command with which a person declares the run gone.
	Declare string
}

// LostVerdict is what a run's loss comes to.
type LostVerdict struct {
	// After is when the run will have been lost for longer than failover allows; 0 once it has.
	After time.Duration
	// Message is what the member's line in the status begins with then.
	Message string
	// LostTime is to be written into the ledger, nil if it is not: with it, the run may start elsewhere as soon as its
	// member has returned without it.
	LostTime *metav1.Time
}

// Judge says whether a run has been lost for longer than failover allows. Nothing is started elsewhere for that alone:
// time proves nothing.
func (l Lost) Judge(now time.Time) LostVerdict {
	allowed := time.Duration(l.Failover.AfterSeconds) * time.Second
	if left := l.LastHeard.Add(allowed).Sub(now); left > 0 {
		return LostVerdict{After: left}
	}
	if l.Failover.Fencing == v1alpha1.FenceManual {
		return LostVerdict{Message: fmt.Sprintf("run %s is lost for longer than %s, and may go on there (failover, fencing: Manual); %s", l.Run.ID, allowed, l.Declare)}
	}
	out := LostVerdict{Message: fmt.Sprintf(
		"run %s is lost for longer than %s, and starts elsewhere once it is proven gone: the member has to answer that it has no pod of it; or, %s", l.Run.ID, allowed, l.Declare)}
	if l.Run.LostTime == nil {
		t := metav1.NewTime(l.LastHeard).Rfc3339Copy()
		out.LostTime = &t
	}
	return out
}
