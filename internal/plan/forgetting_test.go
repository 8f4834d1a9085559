package plan_test

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Things that make a hub forget, or have it believe what is not so.

// forgotten empties the status while the hub is down.
func forgotten(w *world) {
	w.hub = nil
	w.edit(func(f *v1alpha1.FleetMiniCluster) { f.Status = v1alpha1.FleetMiniClusterStatus{} })
}

// recreated puts another object in place of one whose finalizer was taken off.
func recreated(changes ...func(*v1alpha1.FleetMiniCluster)) func(*world) {
	return func(w *world) {
		forgotten(w)
		w.edit(func(f *v1alpha1.FleetMiniCluster) {
			f.UID += "-2"
			f.CreationTimestamp = metav1.NewTime(w.now)
		})
		w.edit(changes...)
		w.hadRuns = map[string]bool{}
	}
}

// deletedAndAdded deletes an object while a member is away, until the hub waits for it no longer, and adds it again.
func deletedAndAdded(name string) func(*world) {
	return func(w *world) {
		f := w.objects[0]
		w.member(name).register(func(c *v1alpha1.MemberCluster) {
			c.Status.Orphans = []v1alpha1.Orphan{{UID: f.UID, Owner: f.Namespace + "/" + f.Name, Namespace: f.Namespace, Name: f.Name, Since: metav1.NewTime(w.now)}}
		})
		recreated()(w)
	}
}

// cutOffWithRun notes, as the hub does when an object vanishes, that a run of it was live on a member that is away.
func cutOffWithRun(w *world, m *modelMember) {
	f := w.objects[0]
	m.register(func(c *v1alpha1.MemberCluster) {
		c.Status.UnownedJobs = []v1alpha1.UnownedJob{{Namespace: f.Namespace, Name: f.Name, Owner: f.Namespace + "/" + f.Name, Since: metav1.NewTime(w.now)}}
	})
}

// rebuilt is another hub, with the identity of the fleet.
func rebuilt(w *world) {
	recreated()(w)
	w.unasked = []string{"alpine", "basalt"}
}

func saved(w *world) { w.backup = w.objects[0] }

// restored puts what was saved in place of what there is.
func restored(w *world) {
	w.hub = nil
	if w.backup != nil {
		w.objects[0] = w.backup
	}
}

func changedBack(f *v1alpha1.FleetMiniCluster) { f.Spec.MiniCluster.Containers[0].Command = "true" }

// says edits the state of the latest run.
func says(state v1alpha1.RunState, changes ...func(*v1alpha1.Run)) func(*world) {
	return func(w *world) {
		w.edit(func(f *v1alpha1.FleetMiniCluster) {
			if n := len(f.Status.Runs); n > 0 {
				run := &f.Status.Runs[n-1]
				run.State = state
				for _, change := range changes {
					change(run)
				}
			}
		})
	}
}

func ofSomethingElse(r *v1alpha1.Run) { r.Digest = "0123456789abcdef" }

// ending has hub and members work until nothing is left to do.
func ending(w *world) {
	for before := ""; before != w.state(); {
		before = w.state()
		for i := range w.objects {
			w.reconcile(i, undisturbed)
		}
		if steps := w.steps(false); len(steps) > 0 {
			steps[0](w)
		}
	}
}

// after is a world in which each of some events has happened once all before it had come to its end.
func after(from func() *world, events ...func(*world)) func() *world {
	return func() *world {
		w := from()
		for _, e := range events {
			ending(w)
			e(w)
		}
		ending(w)
		return w
	}
}

// deleting has somebody delete a Job, which is there until its pods have gone.
func deleting(w *world) {
	w.member("alpine").change("run", func(j *modelJob) { j.Deleting = true })
}

// seen is a world in which something has happened to a live Job that the hub has seen, which was started anew since.
func seen(event func(*world), from func() *world) func() *world {
	return func() *world {
		w := reconciled(event, begun(from))()
		w.hub = nil
		return w
	}
}

// outlived is a world in which a backup has a run live that has succeeded since, and to what came after it something happened.
func outlived(events ...func(*world)) func() *world {
	return func() *world {
		w := begun(one(onlyOn("alpine"))())()
		saved(w)
		ending(w)
		later(w)
		w.edit(changed)
		w.member("alpine").set("run", nil)
		w = begun(func() *world { return w })()
		for _, e := range events {
			e(w)
			ending(w)
		}
		later(w)
		return w
	}
}

// reconciled is a world in which something has happened that the hub has seen.
func reconciled(event func(*world), from func() *world) func() *world {
	return func() *world {
		w := from()
		event(w)
		w.reconcile(0, undisturbed)
		return w
	}
}

// deleted has somebody delete a Job with its pods.
func deleted(w *world) {
	meddled(w)
	w.member("alpine").stray = map[string]string{}
}

// destroyedJobs is a member whose Jobs have gone while it was away.
func destroyedJobs(_ *world, m *modelMember) { m.set("run", nil) }

func notCancelled(f *v1alpha1.FleetMiniCluster) { delete(f.Annotations, v1alpha1.AnnotationCancel) }

func noToken(f *v1alpha1.FleetMiniCluster) { delete(f.Annotations, v1alpha1.AnnotationRerunAt) }

// executions is how often something was executed, by digest.
func (w *world) executions() map[string]int {
	out := map[string]int{}
	for id, n := range w.executed {
		out[w.digests[id]] += n
	}
	return out
}

// onceEach says that what is wanted has run, and nothing more than once.
func onceEach(w *world) string {
	for digest, n := range w.executions() {
		if n > 1 {
			return fmt.Sprintf("%s was executed %d times", digest, n)
		}
	}
	return hasRun(w)
}

// atMostOnce says that nothing is live, and nothing has run more than once.
func atMostOnce(w *world) string {
	for _, n := range w.executions() {
		if n > 1 {
			return "something was executed more than once"
		}
	}
	return idle(w)
}

// stays says that the one run there is has ended so.
func stays(state v1alpha1.RunState) func(*world) string {
	return func(w *world) string {
		ledger := w.objects[0].Status.Runs
		if len(ledger) != 1 || ledger[0].State != state {
			return fmt.Sprintf("the ledger has %v", ledger)
		}
		return atMostOnce(w)
	}
}

// twice says that what is wanted has run, after something that was removed.
func twice(w *world) string {
	total := 0
	for _, id := range slices.Sorted(maps.Keys(w.executed)) {
		total += w.executed[id]
	}
	if total > 2 {
		return fmt.Sprintf("%d executions", total)
	}
	return hasRun(w)
}

// In these, at most one run is live all the same, and what has succeeded is not done again.
var forgetting = map[string]*story{
	"the ledger is lost":                   {world: one()(), events: []func(*world){forgotten}, end: onceEach},
	"the ledger is lost, and a slow start": {world: begun(one()()), events: []func(*world){forgotten}, slow: true, end: onceEach},
	"the ledger is lost, and the Job":      {world: one(ttl(60))(), events: []func(*world){forgotten}, end: onceEach},
	"the ledger is lost on all members":    {world: one(func(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.NumberOfClusters = nil })(), calm: true, events: []func(*world){forgotten}, end: everywhere},
	"the ledger is lost while a member is away": {world: begun(one()()), events: []func(*world){
		all(on("alpine", lost), forgotten), on("alpine", back)}, end: onceEach},
	"the ledger is lost with another one's room": {world: begun(two()), calm: true, events: []func(*world){forgotten}, end: onceEach},
	"created anew":                      {world: begun(one()()), events: []func(*world){recreated()}, end: onceEach},
	"created anew as something else":    {world: begun(one()()), events: []func(*world){recreated(changed)}, end: onceEach},
	"created anew elsewhere, replacing": {world: begun(one(replacing)()), events: []func(*world){recreated(changed, onlyOn("basalt"))}, end: onceEach},
	"deleted and added while a member is away": {world: begun(one()()), events: []func(*world){
		all(on("alpine", lost), deletedAndAdded("alpine")), on("alpine", back)}, end: twice},
	"rebuilt while a member is away": {world: begun(one()()), events: []func(*world){all(on("alpine", lost), rebuilt), on("alpine", back)}, end: onceEach},
	"rebuilt while a member is away, and placed elsewhere": {world: begun(one()()), events: []func(*world){
		all(on("alpine", lost), rebuilt, edited(onlyOn("basalt"))), on("alpine", back)}, end: onceEach},
	"created anew while a member is away": {world: begun(one()()), events: []func(*world){
		all(on("alpine", lost, cutOffWithRun), recreated()), on("alpine", back)}, end: onceEach},
	"rebuilt after the end":                                    {world: one(ttl(60))(), calm: true, events: []func(*world){rebuilt}, end: onceEach},
	"an older backup":                                          {world: one()(), calm: true, events: []func(*world){saved, edited(changed), restored, edited(changed)}, end: atMostOnce},
	"an older backup, and nothing changed":                     {world: one()(), calm: true, events: []func(*world){saved, restored}, end: onceEach},
	"an older backup, from when what has ended since was live": {world: outlived(deleted), calm: true, events: []func(*world){restored, edited(changed)}, end: atMostOnce},
	"an older backup, from when something else was live":       {world: reconciled(restored, outlived()), calm: true, events: []func(*world){all(deleted, edited(changed))}, end: atMostOnce},
	"Git comes back":                                           {world: one()(), calm: true, events: []func(*world){edited(changed), edited(changedBack)}, end: onceEach},
	"Git comes back twice":                                     {world: one(ttl(60))(), calm: true, events: []func(*world){edited(changed), edited(changedBack), edited(changed)}, end: onceEach},
	"Git comes back after another member": {world: after(one()(), drain("alpine", "true"), edited(changed), drain("alpine", "false")), calm: true,
		events: []func(*world){edited(changedBack)}, end: onceEach},
	"Git comes back while its member is drained": {world: after(one()(), drain("alpine", "true"), edited(changed)), calm: true,
		events: []func(*world){edited(changedBack)}, end: onceEach},
	"a token is taken away while its run moves": {world: begun(after(one()(), edited(rerun("t")))), calm: true, events: []func(*world){
		edited(rerun("u")), all(drain("alpine", "true"), drain("basalt", "true")), all(edited(noToken), drain("alpine", "false"))}, end: wantedNothing},
	"Git comes back, and a token":          {world: one()(), calm: true, events: []func(*world){edited(changed), edited(changedBack), edited(rerun("t"))}},
	"Git comes back with an old token":     {world: one(rerun("t"))(), calm: true, events: []func(*world){edited(changed), edited(changedBack)}, end: onceEach},
	"said to have succeeded":               {world: begun(one()()), events: []func(*world){says(v1alpha1.RunSucceeded)}, end: onceEach},
	"said to have failed":                  {world: begun(one(retried(1))()), events: []func(*world){says(v1alpha1.RunFailed)}, end: onceEach},
	"said to have been for something else": {world: begun(one(replacing)()), events: []func(*world){says(v1alpha1.RunRunning, ofSomethingElse)}, end: onceEach},
	"said to have failed, and cleaned up":  {world: one(retried(1), ttl(60))(), calm: true, events: []func(*world){says(v1alpha1.RunFailed)}, end: onceEach},
	"the ledger is lost after somebody deleted the Job": {world: after(func() *world {
		w := begun(one(retried(2))())()
		meddled(w)
		w.member("alpine").stray = map[string]string{}
		return w
	}), calm: true, events: []func(*world){forgotten}, end: stays(v1alpha1.RunFailed)},
	"the ledger is lost while somebody deletes the Job":               {world: seen(deleting, one(retried(2))()), events: []func(*world){forgotten}, end: atMostOnce},
	"the ledger is lost while somebody deletes the Job, and a change": {world: seen(deleting, one()()), calm: true, events: []func(*world){all(forgotten, edited(changed))}, end: onceEach},
	"the ledger is lost while the pods of a deleted Job go on":        {world: seen(meddled, one(retried(2))()), events: []func(*world){forgotten}, end: atMostOnce},
	"the ledger is lost while a run is cancelled":                     {world: seen(cancelLatest, one()()), events: []func(*world){all(forgotten, edited(notCancelled))}, end: atMostOnce},
	"somebody deletes the Job of a run that is lost": {world: seen(deleting, one(failsOver)()), events: []func(*world){
		on("alpine", lost), later, all(on("alpine", destroyedJobs, back), forgotten)}, end: atMostOnce},
	"said to have failed, and retried later": {world: after(one(ttl(60))(), later, says(v1alpha1.RunFailed)), calm: true,
		events: []func(*world){edited(retried(1))}, end: onceEach},
	"said to have failed, after the end":           {world: after(one(ttl(60))(), later, says(v1alpha1.RunFailed)), calm: true, end: stays(v1alpha1.RunSucceeded)},
	"somebody deletes the Job, and it has retries": {world: begun(one(retried(2))()), events: []func(*world){meddled}, end: atMostOnce},
}
