package actions

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxNames is how many runs, members or objects an effect names.
const maxNames = 5

const untilAsked = "until the MiniCluster changes or somebody asks to run it again"

// EffectRerun says what Rerun does: one sentence without a capital letter and a full stop, as all effects are. The error
// is that which the action would have.
func EffectRerun(f *v1alpha1.FleetMiniCluster) (string, error) {
	if err := named(f, notDeleting(f)); err != nil {
		return "", err
	}
	text := "runs it once more " + whereNext(f)
	if live, _ := liveRuns(f, nil); len(live) > 0 {
		if f.Spec.OnChange == v1alpha1.Replace {
			text = fmt.Sprintf("stops %s, and then %s (onChange: Replace)", listRuns(f, live), text)
		} else {
			text += fmt.Sprintf(", after the end of %s", listRuns(f, live))
		}
	}
	if f.Suspended() {
		text += ", once it is resumed: it is suspended now"
	}
	return text + "; what has succeeded before is run again as well", nil
}

// whereNext says on which members the next run will be, as far as that is known.
func whereNext(f *v1alpha1.FleetMiniCluster) string {
	p := f.Status.Placement
	switch {
	case p == nil || len(p.Clusters) == 0:
		return "where its placement chooses"
	case p.Open:
		return "on each member that its placement selects (now " + sanitize.Names(p.Clusters, maxNames) + ")"
	}
	return "where its placement chooses (last " + sanitize.Names(p.Clusters, maxNames) + ")"
}

// EffectCancel says what Cancel does.
func EffectCancel(f *v1alpha1.FleetMiniCluster, runIDs []string) (string, error) {
	runs, err := liveRuns(f, runIDs)
	if err := named(f, err); err != nil {
		return "", err
	}
	if allListed(f, v1alpha1.AnnotationCancel, runs) {
		return "nothing: it is asked for already", nil
	}
	var text string
	if len(runs) == 1 {
		text = fmt.Sprintf("cancels run %s on %s: %s stopped and it is not started again %s", runs[0].ID, runs[0].Cluster, itsPods(f, runs[0]), untilAsked)
	} else {
		text = fmt.Sprintf("cancels %s: their pods are stopped and they are not started again %s", listRuns(f, runs), untilAsked)
	}
	if silent := silentMembers(f, runs); len(silent) > 0 {
		text += fmt.Sprintf("; %s cannot be reached: what runs there is stopped when it returns", sanitize.Names(silent, maxNames))
	}
	return text, nil
}

// itsPods is the subject of "stopped".
func itsPods(f *v1alpha1.FleetMiniCluster, run *v1alpha1.Run) string {
	switch n := activePods(f, run); n {
	case 0:
		return "it is"
	case 1:
		return "its 1 pod is"
	default:
		return fmt.Sprintf("its %d pods are", n)
	}
}

// activePods of a run, as far as is known.
func activePods(f *v1alpha1.FleetMiniCluster, run *v1alpha1.Run) int32 {
	if line := clusterOf(f, run.Cluster); line != nil && line.Run == run.ID {
		return line.Pods.Active
	}
	return 0
}

func silentMembers(f *v1alpha1.FleetMiniCluster, runs []*v1alpha1.Run) []string {
	var out []string
	for _, run := range runs {
		if line := clusterOf(f, run.Cluster); line != nil && line.Sync == v1alpha1.SyncUnknown {
			out = append(out, run.Cluster)
		}
	}
	return out
}

// listRuns names runs: "run A on alpine (4 pods)", or "3 runs (A on alpine, 4 pods; …)".
func listRuns(f *v1alpha1.FleetMiniCluster, runs []*v1alpha1.Run) string {
	pods := func(run *v1alpha1.Run, form string) string {
		switch n := activePods(f, run); n {
		case 0:
			return ""
		case 1:
			return fmt.Sprintf(form, "1 pod")
		default:
			return fmt.Sprintf(form, fmt.Sprintf("%d pods", n))
		}
	}
	if len(runs) == 1 {
		return fmt.Sprintf("run %s on %s%s", runs[0].ID, runs[0].Cluster, pods(runs[0], " (%s)"))
	}
	var items []string
	for i, run := range runs {
		if i == maxNames {
			items = append(items, fmt.Sprintf("and %d more", len(runs)-maxNames))
			break
		}
		items = append(items, fmt.Sprintf("%s on %s%s", run.ID, run.Cluster, pods(run, ", %s")))
	}
	return fmt.Sprintf("%d runs (%s)", len(runs), strings.Join(items, "; "))
}

// EffectSuspend says what Suspend does.
func EffectSuspend(f *v1alpha1.FleetMiniCluster) (string, error) {
	if err := named(f, notDeleting(f)); err != nil {
		return "", err
	}
	if f.Held() {
		return "nothing: it is held back already", nil
	}
	text := "starts nothing new"
	if live, _ := liveRuns(f, nil); len(live) > 0 {
		text += " and suspends " + listRuns(f, live) + ": the pods end, what they have not saved is lost, and the same run begins anew"
		return text + " when it is resumed and has room", nil
	}
	return text + " until it is resumed; Git leaves that alone", nil
}

// EffectResume says what Resume does.
func EffectResume(f *v1alpha1.FleetMiniCluster) (string, error) {
	if err := named(f, notDeleting(f)); err != nil {
		return "", err
	}
	if err := named(f, checkResume(f)); err != nil {
		return "", err
	}
	if !f.Suspended() {
		return "nothing: it is not suspended", nil
	}
	if live, _ := liveRuns(f, nil); len(live) > 0 {
		return "has " + listRuns(f, live) + " begin anew as soon as there is room", nil
	}
	return "starts what has not run yet as soon as there is room", nil
}

// EffectResize says what Scale does with any size.
func EffectResize(f *v1alpha1.FleetMiniCluster) (string, error) {
	if err := named(f, notDeleting(f)); err != nil {
		return "", err
	}
	spec := &f.Spec.MiniCluster
	least := max(spec.MinSize, 1)
	if err := named(f, checkSize(f, max(spec.Size, least))); err != nil {
		return "", err
	}
	if least == spec.MaxSize {
		return "nothing: minSize and maxSize are the same", nil
	}
	text := fmt.Sprintf("changes the number of pods on each member in place, from %d to %d; now it is %d", least, spec.MaxSize, max(spec.Size, 1))
	return text + backFromGit(f), nil
}

// backFromGit says what becomes of a size that Git does not have.
func backFromGit(f *v1alpha1.FleetMiniCluster) string {
	if f.Labels[v1alpha1.LabelSource] == "" {
		return ""
	}
	return "; the size in Git (" + declaredAt(f) + ") comes back when this MiniCluster is changed there"
}

// EffectScale says what Scale does.
func EffectScale(f *v1alpha1.FleetMiniCluster, size int32) (string, error) {
	if err := named(f, notDeleting(f)); err != nil {
		return "", err
	}
	if err := named(f, checkSize(f, size)); err != nil {
		return "", err
	}
	now := max(f.Spec.MiniCluster.Size, 1)
	var text string
	switch {
	case size == now:
		return fmt.Sprintf("nothing: the size is %d already", size), nil
	case len(LiveRuns(f)) == 0:
		text = fmt.Sprintf("gives the next run %d pods on each member, not %d; none is live now, and none begins because of this", size, now)
	case size == now+1:
		text = fmt.Sprintf("adds 1 pod on each member (%d, not %d) as soon as it has room; what runs goes on", size, now)
	case size > now:
		text = fmt.Sprintf("adds %d pods on each member (%d, not %d) as soon as they have room; what runs goes on", size-now, size, now)
	case size == now-1:
		text = fmt.Sprintf("stops the last pod on each member (%d, not %d), with whatever runs on it", size, now)
	default:
		text = fmt.Sprintf("stops the last %d pods on each member (%d, not %d), with whatever runs on them", now-size, size, now)
	}
	return text + backFromGit(f), nil
}

// EffectRunGone says what RunGone does and means, and how old the last news of the members is.
func EffectRunGone(f *v1alpha1.FleetMiniCluster, runIDs []string, now time.Time) (string, error) {
	runs, err := silentRuns(f, runIDs)
	if err := named(f, err); err != nil {
		return "", err
	}
	if allListed(f, v1alpha1.AnnotationRunGone, runs) {
		return "nothing: it is declared already", nil
	}
	var items []string
	for _, run := range runs {
		items = append(items, fmt.Sprintf("run %s on %s (%s)", run.ID, run.Cluster, lastNews(f, run, now)))
	}
	return fmt.Sprintf("gives up %s, and what that was for starts on another member: if its pods still run, it runs twice at once until the member returns, "+
		"so make sure first that they do not, by switching off their nodes for example; this cannot be taken back", strings.Join(items, ", ")), nil
}

func lastNews(f *v1alpha1.FleetMiniCluster, run *v1alpha1.Run, now time.Time) string {
	line := clusterOf(f, run.Cluster)
	if line == nil || line.LastHeardTime == nil {
		return "when it was last heard of is not known"
	}
	text := "last heard of " + duration.HumanDuration(now.Sub(line.LastHeardTime.Time)) + " ago"
	if n := activePods(f, run); n > 0 {
		text += fmt.Sprintf(", with %d pods", n)
	}
	return text
}

// EffectSyncSource says what SyncSource does.
func EffectSyncSource(s *v1alpha1.GitSource) string {
	switch {
	case s.Spec.Suspend:
		return "nothing: the source is suspended (spec.suspend)"
	case !s.DeletionTimestamp.IsZero():
		return "nothing: the source is being deleted"
	}
	return fmt.Sprintf("reads the repository now instead of within %s, and applies what is new since %s", s.Spec.Interval.Duration, orNothing(s.Status.Revision))
}

func orNothing(revision string) string {
	if revision == "" {
		return "nothing"
	}
	return revision
}

// EffectApprovePrune says what ApprovePrune does, with what would be deleted.
func EffectApprovePrune(s *v1alpha1.GitSource, commit string) (string, error) {
	if err := named(s, approvable(s, commit, v1alpha1.ConditionPruneBlocked)); err != nil {
		return "", err
	}
	if s.Approved(v1alpha1.AnnotationApprovePrune, commit) {
		return approvedAlready, nil
	}
	return "deletes from the hub, and with their runs from all members, what Git does not declare any more: " + question(s, v1alpha1.ConditionPruneBlocked), nil
}

// EffectApproveRuns says what ApproveRuns does, with what would run anew.
func EffectApproveRuns(s *v1alpha1.GitSource, commit string) (string, error) {
	if err := named(s, approvable(s, commit, v1alpha1.ConditionRunsBlocked)); err != nil {
		return "", err
	}
	if s.Approved(v1alpha1.AnnotationApproveRuns, commit) {
		return approvedAlready, nil
	}
	return "applies what has run before and runs it anew: " + question(s, v1alpha1.ConditionRunsBlocked), nil
}

const approvedAlready = "nothing: it is approved already"

func approvable(s *v1alpha1.GitSource, commit, condition string) error {
	if err := notDeleting(s); err != nil {
		return err
	}
	return checkApproval(s, commit, condition)
}

// question is what the hub says waits for approval, without how to approve it by hand.
func question(s *v1alpha1.GitSource, condition string) string {
	c := meta.FindStatusCondition(s.Status.Conditions, condition)
	text, _, _ := strings.Cut(sanitize.Text(c.Message, sanitize.MaxMessage), ". If that is meant:")
	text, _, _ = strings.Cut(text, "; nothing was deleted")
	text, _, _ = strings.Cut(text, "; these were not updated")
	return text
}

// LiveOn are the live runs on a member, as NAMESPACE/NAME (run ID).
func LiveOn(list []v1alpha1.FleetMiniCluster, member string) []string {
	var out []string
	for i := range list {
		for _, run := range list[i].Status.Runs {
			if run.Cluster == member && !run.State.Ended() {
				out = append(out, fmt.Sprintf("%s/%s (run %s)", list[i].Namespace, list[i].Name, run.ID))
			}
		}
	}
	return out
}

// EffectDrain says what Drain does to the live runs on a member.
func EffectDrain(m *v1alpha1.MemberCluster, live []string) string {
	if why, _ := m.Draining(); why != "" {
		return "nothing: the member " + why + " already"
	}
	if len(live) == 0 {
		return "starts nothing new on " + m.Name + "; nothing runs there"
	}
	return fmt.Sprintf("stops what runs on %s (%s), which starts from the beginning on another member where its placement allows that, and starts nothing new there",
		m.Name, sanitize.Names(live, maxNames))
}

// EffectCordon says what Cordon does to the live runs on a member.
func EffectCordon(m *v1alpha1.MemberCluster, live []string) string {
	switch {
	case m.Spec.Suspend:
		return "nothing: the member is cordoned already"
	case len(live) == 0:
		return "starts nothing new on " + m.Name + "; nothing runs there"
	}
	return fmt.Sprintf("starts nothing new on %s; what runs there (%s) goes on", m.Name, sanitize.Names(live, maxNames))
}

// EffectUncordon says what Uncordon does.
func EffectUncordon(m *v1alpha1.MemberCluster) (string, error) {
	if err := named(m, notDeleting(m)); err != nil {
		return "", err
	}
	if m.Closed() == "" {
		return "nothing: the member is neither drained nor cordoned", nil
	}
	return "starts new runs on " + m.Name + " again; what was moved away stays where it is", nil
}

// EffectMemberGone says what MemberGone does and means to the live runs on a member, and how old the last news of it is.
func EffectMemberGone(m *v1alpha1.MemberCluster, live []string, at, now time.Time) (string, error) {
	at = at.UTC().Truncate(time.Second)
	if err := named(m, checkMemberGone(m, at, now)); err != nil {
		return "", err
	}
	what := "whatever runs on " + m.Name
	if len(live) > 0 {
		what = fmt.Sprintf("what runs on %s (%s)", m.Name, sanitize.Names(live, maxNames))
	}
	return fmt.Sprintf("gives up %s and began before %s, and it starts on other members: the last answer of %s came %s ago, and if anything still runs there, "+
		"it runs twice at once until the member returns, so make sure first that nothing does; this cannot be taken back",
		what, at.Format(time.RFC3339), m.Name, duration.HumanDuration(now.Sub(m.Status.LastHeardTime.Time))), nil
}

// EffectStart says what Start does.
func EffectStart(f *v1alpha1.FleetMiniCluster) (string, error) {
	if err := checkStart(f); err != nil {
		return "", err
	}
	spec := f.Spec.MiniCluster.DeepCopy()
	spec.Default()
	pods := "1 pod"
	if spec.Size > 1 {
		pods = fmt.Sprintf("%d pods", spec.Size)
	}
	object := "FleetMiniCluster " + f.Namespace + "/" + f.Name
	if f.Name == "" {
		object += f.GenerateName + "…"
	}
	return fmt.Sprintf("creates %s and runs it once with %s on %s", object, pods, whereFirst(f)), nil
}

// whereFirst says which members a new FleetMiniCluster runs on.
func whereFirst(f *v1alpha1.FleetMiniCluster) string {
	if f.Spec.PlacementRef != nil {
		return "each member that Placement " + sanitize.Text(f.Spec.PlacementRef.Name, sanitize.MaxNote) + " chooses"
	}
	of := ""
	p := f.Spec.Placement
	if p != nil && len(p.ClusterNames) > 0 {
		of = " of " + sanitize.Text(sanitize.Names(p.ClusterNames, maxNames), sanitize.MaxNote)
	}
	switch {
	case p == nil || p.NumberOfClusters == nil:
		return "each member" + of + " that its placement selects"
	case *p.NumberOfClusters == 1:
		return "one member" + of + " that its placement selects"
	}
	return fmt.Sprintf("%d members%s that its placement selects", *p.NumberOfClusters, of)
}

// named adds to an Error which object it is about.
func named(object client.Object, err error) error {
	if own := AsError(err); own != nil && own.Object == "" {
		own.Object = Describe(object, client.ObjectKeyFromObject(object))
	}
	return err
}
