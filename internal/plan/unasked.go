package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/eviction"
)

// mayBegin says whether anything may begin: a member may be chosen, or one that is chosen has no run for what is wanted. A
// run that is said to have ended without success may be said so by mistake.
func (d *Decision) mayBegin(s *Snapshot) bool {
	p := d.Placement
	if p == nil || p.Digest != d.Wanted.Digest || p.RerunAt != d.Wanted.RerunAt || wantsMore(p, s.Placement) || len(s.Object.Status.Unasked) > 0 {
		return true
	}
	for _, name := range p.Clusters {
		if last := d.Ledger.Last(name); !d.Wanted.IsCurrent(last) || last.State.Ended() && last.State != v1alpha1.RunSucceeded {
			return true
		}
	}
	return p.Open && slices.ContainsFunc(s.Members, func(m Member) bool { return m.Connection.Connected && !slices.Contains(p.Clusters, m.Cluster.Name) })
}

// wantsMore says that fewer members are chosen than are wanted, or were wanted last.
func wantsMore(p *v1alpha1.PlacementDecision, spec *v1alpha1.PlacementSpec) bool {
	wanted := p.Wanted
	if n := spec.NumberOfClusters; n != nil {
		wanted = max(wanted, *n)
	}
	return len(p.Clusters) < int(wanted) || spec.NumberOfClusters == nil && !p.Open
}

// askWhetherLost asks the hub whether a ledger without runs was lost, where that is not known.
func askWhetherLost(s *Snapshot, reads *Reads) bool {
	reads.HadRuns = s.HadRuns == nil && KnowsNoRun(s.Object)
	return reads.HadRuns
}

// askAll has all members asked for what they have on record and, if the ledger was lost, for the Job itself.
func (d *Decision) askAll(s *Snapshot, reads *Reads) {
	if askWhetherLost(s, reads) {
		return
	}
	d.Unasked = unasked(s)
	for i := range s.Members {
		name := s.Members[i].Cluster.Name
		if !s.Members[i].Connection.Connected {
			continue
		}
		if s.Facts[name].Record == nil {
			reads.add(name, ReadRecord)
		}
		if slices.Contains(d.Unasked, name) && s.Facts[name].Proof == nil {
			reads.add(name, ReadProof)
		}
	}
	if !reads.Any() {
		d.Unasked = stillUnasked(s, d.Unasked)
	}
}

// unasked are the members that are to be asked since the ledger was lost: all of them, to begin with.
func unasked(s *Snapshot) []string {
	if !KnowsNoRun(s.Object) || !*s.HadRuns {
		return s.Object.Status.Unasked
	}
	names := make([]string, 0, len(s.Members))
	for i := range s.Members {
		names = append(names, s.Members[i].Cluster.Name)
	}
	slices.Sort(names)
	return names
}

// KnowsNoRun says that the status of a FleetMiniCluster has no run, nor remembers one.
func KnowsNoRun(f *v1alpha1.FleetMiniCluster) bool {
	return len(f.Status.Runs) == 0 && len(f.Status.Succeeded) == 0
}

// stillUnasked are those of some members that have not answered yet, less those of which a person says that nothing is
// left there, or that are no longer registered.
func stillUnasked(s *Snapshot, names []string) []string {
	var out []string
	for _, name := range names {
		m := s.Member(name)
		if m == nil || eviction.GoneSince(s.Object.CreationTimestamp.Time, m.Cluster, s.Now) {
			continue
		}
		if proof := s.Facts[name].Proof; proof == nil || proof.Failed {
			out = append(out, name)
		}
	}
	return out
}

// mayRunUnknown says why a run may be live that the ledger does not know of; empty if none can be. Where every member runs
// its own, a member that cannot be asked gets none, and keeps no other from it.
func (d *Decision) mayRunUnknown(s *Snapshot) string {
	if s.Placement.NumberOfClusters == nil {
		return ""
	}
	var left []string
	for i := range s.Members {
		if leftLive(s, s.Members[i].Cluster) {
			left = append(left, s.Members[i].Cluster.Name)
		}
	}
	if len(left) > 0 {
		return fmt.Sprintf("a run of the FleetMiniCluster of this name that was deleted may still be live on %s; waiting until it is removed there%s",
			s.named(left), declareMembers(s, left))
	}
	if names := s.heldWhenLost(); len(names) > 0 {
		return fmt.Sprintf("%s had a live run of this name that no FleetMiniCluster owned, or more of these than were noted, when it was cut off; waiting until it answers%s",
			s.named(names), declareMembers(s, names))
	}
	names := slices.Concat(d.Unasked, s.Unasked)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > 0 {
		return fmt.Sprintf("the hub may not know all that has run under this name, and %s, which may hold a run of this MiniCluster, could not be asked yet; waiting until it answers%s",
			s.named(names), declareMembers(s, names))
	}
	return ""
}

// heldWhenLost are the members that cannot be asked now and that, when they last could be, had a live Job of this name
// which no FleetMiniCluster owned, or so many of these that not all were noted.
func (s *Snapshot) heldWhenLost() []string {
	var out []string
	owner := s.Object.Namespace + "/" + s.Object.Name
	for i := range s.Members {
		m := &s.Members[i]
		jobs := m.Cluster.Status.UnownedJobs
		full := len(jobs) >= v1alpha1.MaxUnownedJobs && KnowsNoRun(s.Object)
		if !m.Connection.Connected && slices.ContainsFunc(jobs, func(j v1alpha1.UnownedJob) bool {
			return (full || j.Owner == owner) && !eviction.GoneSince(j.Since.Time, m.Cluster, s.Now)
		}) {
			out = append(out, m.Cluster.Name)
		}
	}
	return out
}

// neverHeard says that no answer of a member has ever come, so that a declaration has no time to be compared with.
func neverHeard(m *Member) bool {
	c := &m.Connection
	return !c.Connected && c.Attempted && c.Reason != v1alpha1.ReasonConnecting && m.Cluster.Status.LastHeardTime == nil &&
		!meta.IsStatusConditionTrue(m.Cluster.Status.Conditions, v1alpha1.ConditionReady)
}

// declareMembers says what a person can do about members that do not answer.
func declareMembers(s *Snapshot, names []string) string {
	var away, never []string
	for _, name := range names {
		switch m := s.Member(name); {
		case m != nil && !s.mayUse(m):
			continue // an administrator of the hub knows which
		case m != nil && neverHeard(m):
			never = append(never, name)
		case m == nil:
			return "; register " + name + " again, or take it out of ConfigMap " + v1alpha1.FleetConfigMap + " when you have made sure that nothing runs there any more"
		case !m.Connection.Connected:
			away = append(away, name)
		}
	}
	var advice strings.Builder
	if len(away) > 0 {
		fmt.Fprintf(&advice, "; when you have made sure that nothing runs there any more: kubectl annotate --overwrite mcl %s %s=%s",
			someNames(away), v1alpha1.AnnotationMemberGone, "$(date -u +%Y-%m-%dT%H:%M:%SZ)")
	}
	if len(never) > 0 {
		fmt.Fprintf(&advice, "; no answer of %s has ever come: kubectl describe mcl %s says why; where nothing can run there: kubectl delete mcl %s",
			s.named(never), someNames(never), someNames(never))
	}
	return advice.String()
}

// someNames are the first of some names, as arguments of a command.
func someNames(names []string) string { return strings.Join(names[:min(len(names), maxNamed)], " ") }

// orphaned says whether a FleetMiniCluster of this name that was deleted may have left something on a member, which is
// about to be removed there. It is not if a person says that nothing is left.
func orphaned(s *Snapshot, m *v1alpha1.MemberCluster) bool {
	return slices.ContainsFunc(m.Status.Orphans, func(o v1alpha1.Orphan) bool { return isPredecessor(s, m, &o) })
}

// leftLive says whether it may have left something there that is live.
func leftLive(s *Snapshot, m *v1alpha1.MemberCluster) bool {
	return slices.ContainsFunc(m.Status.Orphans, func(o v1alpha1.Orphan) bool { return !o.RecordOnly && isPredecessor(s, m, &o) })
}

func isPredecessor(s *Snapshot, m *v1alpha1.MemberCluster, o *v1alpha1.Orphan) bool {
	return o.Owner == s.Object.Namespace+"/"+s.Object.Name && o.UID != s.Object.UID && !eviction.GoneSince(o.Since.Time, m, s.Now)
}
