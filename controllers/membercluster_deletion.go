package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/clusters/copies"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

const (
	// quietInterval is how often it is looked whether the passes have ended that may still begin a run.
	quietInterval = 500 * time.Millisecond
	// cleaners is how many FleetMiniClusters are removed from a member at once.
	cleaners = 8
	// mostNamed is how many of many are named in a message.
	mostNamed = 5

	orphanMend = "set spec.deletionPolicy: Orphan to leave"
)

// departure is what is known of a member that is drained or being deleted.
type departure struct {
	// invalid is what is wrong with the annotation that would have it drained.
	invalid  error
	deleting bool
	// live are the runs there that have not ended. Where there are none, certain says that none is about to
	// begin, either.
	live    []liveRun
	certain bool
	// users are the FleetMiniClusters that have something there, known all that there are. They are filled for
	// a member that is being deleted, once its end is certain.
	users []*v1alpha1.FleetMiniCluster
	known map[types.UID]bool
	// cleared are those of users that have nothing there any more.
	cleared map[types.UID]struct{}
	// left says what is to be removed from the member yet, and what that waits for; clean that nothing is but
	// orphans.
	left  string
	clean bool
	// again is when to look again although nothing happens; 0: not.
	again time.Duration
}

// liveRun is a run in the ledger of a FleetMiniCluster, NAMESPACE/NAME.
type liveRun struct{ owner, id string }

func (l liveRun) String() string { return fmt.Sprintf("%s (run %s)", l.owner, l.id) }

// quieting is how far a member has got on its way out, in this process.
type quieting struct {
	mark    uint64                 // passes that began later know that nothing begins there
	cleared map[types.UID]struct{} // FleetMiniClusters that have nothing there any more
}

// departure finds out how a member is doing that is drained or being deleted. It is nil for all others.
//
// What is certain rests on this order: a pass that begins after the mark sees in the hub's cache that nothing
// begins on this member any more, and that no run is live there for which anything would be put back. When all
// earlier passes have ended, what they have begun is in the ledgers, which are then read from the hub itself.
func (r *MemberClusterReconciler) departure(ctx context.Context, member *v1alpha1.MemberCluster) (*departure, error) {
	d := &departure{deleting: !member.DeletionTimestamp.IsZero()}
	why, invalid := member.Draining()
	if !d.deleting && why == "" {
		r.quieting.Delete(member.UID)
		if d.invalid = invalid; invalid == nil {
			return nil, nil
		}
		return d, nil
	}
	var list v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	if d.live = liveOn(list.Items, member.Name); len(d.live) > 0 {
		r.quieting.Delete(member.UID) // their end is news
		return d, nil
	}
	if !d.deleting && meta.IsStatusConditionTrue(member.Status.Conditions, v1alpha1.ConditionDrained) {
		d.certain = true // as it was
		return d, nil
	}
	q := r.quiet(member.UID)
	if !r.inflight.DoneBefore(q.mark) {
		d.again = quietInterval
		return d, nil
	}
	list = v1alpha1.FleetMiniClusterList{}
	if err := r.APIReader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters on the hub: %w", err)
	}
	if d.live = liveOn(list.Items, member.Name); len(d.live) > 0 {
		r.quieting.Delete(member.UID)
		d.again = quietInterval // until the cache shows it
		return d, nil
	}
	d.certain = true
	if d.deleting {
		d.survey(list.Items, member.Name)
		d.cleared = q.cleared
	}
	return d, nil
}

// quiet is how far a member has got. The first time sets the mark.
func (r *MemberClusterReconciler) quiet(member types.UID) *quieting {
	v, _ := r.quieting.LoadOrStore(member, &quieting{mark: r.inflight.Mark(), cleared: map[types.UID]struct{}{}})
	return v.(*quieting) //nolint:forcetypeassert // nothing else is stored
}

// liveOn are the live runs on a member, sorted.
func liveOn(all []v1alpha1.FleetMiniCluster, member string) []liveRun {
	var out []liveRun
	for i := range all {
		for j := range all[i].Status.Runs {
			if run := &all[i].Status.Runs[j]; run.Cluster == member && !run.State.Ended() {
				out = append(out, liveRun{all[i].Namespace + "/" + all[i].Name, run.ID})
			}
		}
	}
	slices.SortFunc(out, func(a, b liveRun) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// survey finds those that may have something on a member. Whatever is there was once written into the ledger,
// which keeps the latest run of each member.
func (d *departure) survey(all []v1alpha1.FleetMiniCluster, member string) {
	d.known = map[types.UID]bool{}
	for i := range all {
		f := &all[i]
		d.known[f.UID] = true
		if slices.ContainsFunc(f.Status.Clusters, func(c v1alpha1.ClusterStatus) bool { return c.Name == member }) ||
			slices.ContainsFunc(f.Status.Runs, func(run v1alpha1.Run) bool { return run.Cluster == member }) {
			d.users = append(d.users, f)
		}
	}
}

// clear removes what MiniFleet has on a member that is being deleted and has no live run any more.
func (r *MemberClusterReconciler) clear(ctx context.Context, member *v1alpha1.MemberCluster, d *departure, state clusters.State) error {
	if d == nil || !d.deleting || !d.certain {
		return nil
	}
	owners := ownersOf(d.users)
	for _, o := range member.Status.Orphans {
		owners = append(owners, o.Owner)
	}
	m, engaged := r.Provider.Member(member.Name)
	if engaged != nil {
		if d.clean = len(owners) == 0; !d.clean {
			d.left = fmt.Sprintf("the member cannot be reached (%s), and the deletion waits for it to remove what is left there of %s: %s it there",
				state.Reason, sanitize.Names(owners, mostNamed), orphanMend)
		}
		return nil // its return is news
	}
	left, err := r.removeFrom(ctx, m, d)
	switch {
	case clusters.Unanswered(err):
		d.left, d.again = "the member does not answer; what is left there of "+sanitize.Names(owners, mostNamed)+" is removed when it does", awayInterval
		return nil
	case err != nil:
		d.left = "removing what is left there of " + sanitize.Names(owners, mostNamed) + ": " + sanitize.Text(err.Error(), sanitize.MaxNote) + ": mend that, or " + orphanMend + " it there"
		return fmt.Errorf("removing what is on member %s: %w", member.Name, err)
	case len(left) > 0:
		d.left, d.again = "being deleted there is what is left of "+sanitize.Names(left, mostNamed), goneInterval
		return nil
	}
	d.clean = true
	return nil
}

// removeFrom removes everything of the users from a member, the copies that they use last. It returns those of
// which something is still there.
func (r *MemberClusterReconciler) removeFrom(ctx context.Context, m *clusters.Member, d *departure) (left []string, err error) {
	left, err = r.removeRuns(ctx, m, d)
	if err != nil || len(left) > 0 {
		return left, err
	}
	leaving := map[types.UID]bool{}
	for _, f := range d.users {
		leaving[f.UID] = true
	}
	leaves := func(user fleet.Origin) bool {
		uid := types.UID(user.OwnerUID)
		return leaving[uid] || !d.known[uid]
	}
	for range 2 { // the second time makes sure that they are gone
		existing, err := copies.Live(ctx, m, m.Spec.Namespace, r.HubUID)
		if err != nil {
			return nil, err
		}
		left = nil
		var errs []error
		for _, have := range existing {
			if slices.ContainsFunc(copies.Users(have), leaves) {
				left = append(left, fmt.Sprintf("%s %s/%s", copies.Kind(have), have.GetNamespace(), have.GetName()))
				errs = append(errs, copies.Release(ctx, m, have, r.HubUID, leaves))
			}
		}
		if err := errors.Join(errs...); err != nil || len(left) == 0 {
			return nil, err
		}
	}
	return left, nil
}

// removeRuns removes all but copies, of several users at once. It ends early when the member does not answer.
func (r *MemberClusterReconciler) removeRuns(ctx context.Context, m *clusters.Member, d *departure) (left []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var errs []error
	turns := make(chan struct{}, cleaners)
	rest := slices.DeleteFunc(slices.Clone(d.users), func(f *v1alpha1.FleetMiniCluster) bool {
		_, is := d.cleared[f.UID]
		return is
	})
	for _, f := range rest {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() != nil {
				return
			}
			gone, err := m.Cleanup(ctx, m.TargetNamespace(f.Namespace), f.Name, fleet.Origin{
				HubUID: r.HubUID, Owner: f.Namespace + "/" + f.Name, OwnerUID: string(f.UID),
			}, runs.Ledger(f.Status.Runs).Ended)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ctx.Err() != nil: // another's error was first
			case err != nil:
				errs = append(errs, err)
				if clusters.Unanswered(err) {
					errs = []error{err}
					cancel()
				}
			case gone:
				d.cleared[f.UID] = struct{}{}
			default:
				left = append(left, f.Namespace+"/"+f.Name)
			}
		})
	}
	wg.Wait()
	slices.Sort(left)
	return left, errors.Join(errs...)
}

// letGo lets the MemberCluster go when its policy is carried out. The write fails if something was written of
// it since it was read, such as an orphan.
func (r *MemberClusterReconciler) letGo(ctx context.Context, member *v1alpha1.MemberCluster, kind, reason, message string) (reconcile.Result, error) {
	controllerutil.RemoveFinalizer(member, v1alpha1.Finalizer)
	if err := r.Client.Update(ctx, member); err != nil {
		return retry.OnConflict(err)
	}
	r.Provider.Remove(member.Name)
	r.quieting.Delete(member.UID)
	r.Recorder.Eventf(member, nil, kind, reason, "Delete", "%s", sanitize.Text(message, sanitize.MaxNote))
	return reconcile.Result{}, nil
}

// abandon lets a MemberCluster go with everything left on the member as it is.
func (r *MemberClusterReconciler) abandon(ctx context.Context, member *v1alpha1.MemberCluster) (reconcile.Result, error) {
	var list v1alpha1.FleetMiniClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	var d departure
	d.survey(list.Items, member.Name)
	live := liveOn(list.Items, member.Name)
	message := "left on the member as it is (deletionPolicy: Orphan): "
	switch {
	case len(live) > 0:
		message += fmt.Sprintf("%s, whose end is not known any more, and what there is of %d FleetMiniClusters", told(live), len(d.users))
	case len(d.users)+len(member.Status.Orphans) > 0:
		message += fmt.Sprintf("no live run, and what there is of %d FleetMiniClusters", len(d.users)+len(member.Status.Orphans))
	default:
		message += "nothing that is known of"
	}
	return r.letGo(ctx, member, corev1.EventTypeWarning, v1alpha1.ReasonOrphaned, message)
}

// setDrained sets the condition Drained, or removes it from a member that stays. While nothing new is known, it
// stays as it is.
func (d *departure) setDrained(member *v1alpha1.MemberCluster, state clusters.State, now time.Time) {
	conditions := &member.Status.Conditions
	if d == nil {
		meta.RemoveStatusCondition(conditions, v1alpha1.ConditionDrained)
		return
	}
	c := metav1.Condition{
		Type: v1alpha1.ConditionDrained, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRunsLive,
		ObservedGeneration: member.Generation, LastTransitionTime: metav1.NewTime(now),
	}
	was := meta.FindStatusCondition(*conditions, v1alpha1.ConditionDrained)
	switch {
	case d.invalid != nil:
		c.Reason, c.Message = v1alpha1.ReasonInvalidAnnotation, d.invalid.Error()
	case was != nil && state.Reason == v1alpha1.ReasonConnecting:
		return
	case len(d.live) > 0:
		c.Message = d.waits(member, state)
	case !d.certain:
		return
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonDrained, "no run of MiniFleet is live there"
		if d.left != "" {
			c.Message += "; " + d.left
		}
	}
	c.Message = sanitize.Text(c.Message, sanitize.MaxMessage)
	meta.SetStatusCondition(conditions, c)
}

// waits says which runs are live on a member, and what becomes of them.
func (d *departure) waits(member *v1alpha1.MemberCluster, state clusters.State) string {
	away := !state.Ready && state.Reason != v1alpha1.ReasonConnecting
	text := told(d.live)
	if away {
		text = fmt.Sprintf("the member cannot be reached (%s), and of what was live there it is not known whether it still is: %s", state.Reason, text)
	}
	switch {
	case away && d.deleting:
		return text + "; the deletion waits for the member to return: " + orphanMend + " everything there as it is"
	case away:
		return text + "; it is stopped when the member returns; if you have made sure that it is gone, say so with the annotation " + v1alpha1.AnnotationMemberGone
	case d.deleting && member.Spec.DeletionPolicy != v1alpha1.DeletionDrain:
		return text + "; the deletion waits for that to end: set spec.deletionPolicy: Drain to stop what is live, Orphan to leave it"
	default:
		return text + "; being stopped now"
	}
}

// told says how many runs are live, and which.
func told(live []liveRun) string {
	names := make([]string, len(live))
	for i, l := range live {
		names[i] = l.String()
	}
	if len(live) == 1 {
		return "1 run is live: " + names[0]
	}
	return fmt.Sprintf("%d runs are live: %s", len(live), sanitize.Names(names, mostNamed))
}

func ownersOf(users []*v1alpha1.FleetMiniCluster) []string {
	names := make([]string, len(users))
	for i, f := range users {
		names[i] = f.Namespace + "/" + f.Name
	}
	slices.Sort(names)
	return names
}

// departingMembers are those that a FleetMiniCluster has or had runs on, and that are drained or being deleted.
func (r *MemberClusterReconciler) departingMembers(ctx context.Context, obj client.Object) []reconcile.Request {
	f, ok := obj.(*v1alpha1.FleetMiniCluster)
	if !ok {
		return nil
	}
	var names []string
	for i := range f.Status.Runs {
		names = append(names, f.Status.Runs[i].Cluster)
	}
	slices.Sort(names)
	var out []reconcile.Request
	for _, name := range slices.Compact(names) {
		var member v1alpha1.MemberCluster
		if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &member); err != nil {
			continue // it is gone
		}
		if why, _ := member.Draining(); why != "" || !member.DeletionTimestamp.IsZero() {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return out
}

// liveChanged lets through FleetMiniClusters of which other runs are live than before.
var liveChanged = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false }, // nothing runs yet, or the members are looked at anyway
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*v1alpha1.FleetMiniCluster)
		after, ok2 := e.ObjectNew.(*v1alpha1.FleetMiniCluster)
		return ok1 && ok2 && !slices.Equal(liveIDs(before), liveIDs(after))
	},
}

func liveIDs(f *v1alpha1.FleetMiniCluster) []string {
	var out []string
	for i := range f.Status.Runs {
		if run := &f.Status.Runs[i]; !run.State.Ended() {
			out = append(out, run.Cluster+" "+run.ID)
		}
	}
	return out
}

// drainChanged lets through that a member is to be drained, or not any more.
var drainChanged = memberUpdated(func(before, after *v1alpha1.MemberCluster) bool {
	return before.Annotations[v1alpha1.AnnotationDrain] != after.Annotations[v1alpha1.AnnotationDrain]
})
