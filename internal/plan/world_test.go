package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/queue"
	"github.com/minifleet/minifleet/internal/runs"
)

// world is a hub with its members. What is stored outlives the hub: the objects, the members, and requests that are on
// their way to these. What the hub remembers does not: a crash takes it away.
type world struct {
	now      time.Time
	events   int // how many events of the story have happened
	objects  []*v1alpha1.FleetMiniCluster
	members  []*modelMember
	hub      *memory // nil after a crash
	inFlight *request
	delayed  bool            // a request was given up that may arrive
	hadRuns  map[string]bool // the objects that the hub has made a certificate for

	// What has happened so far.
	created  map[string]int    // Jobs made, by run
	executed map[string]int    // executions started, by run
	digests  map[string]string // what runs were for

	backup  *v1alpha1.FleetMiniCluster
	unasked []string // members that the hub has not asked since it was rebuilt
}

// memory is what a hub remembers: its queue.
type memory struct {
	since    time.Time
	restored bool // from what is stored
	reserved map[queue.Key]map[string]queue.Reservation
	pending  map[queue.Key]*queue.Entry
}

// modelMember is a cluster, and how the hub knows it. What its maps hold is replaced, never changed.
type modelMember struct {
	name, uid  string
	registered *v1alpha1.MemberCluster // nil: not registered
	link       link
	since      time.Time
	heard      time.Time

	jobs, cached map[string]*modelJob // by the name of the FleetMiniCluster
	stray        map[string]string    // runs whose pods go on although their Job is deleted
	record       map[string][]v1alpha1.EndedRun
	prepared     map[string]bool // what a run needs beside its Job is there
	cpus         int             // 0: not observed
	lags         bool            // the cache is behind
	stuck        bool            // no pod begins to run
}

// link is how the hub is connected to a member.
type link int

const (
	connected link = iota
	unreachable
	connecting
)

// modelJob is a Job as its member sees it.
type modelJob struct {
	runs.Job
	executing bool
	template  *batchv1.Job
	owner     types.UID
}

// live says that pods of it run, or are about to be made.
func (j *modelJob) live() bool {
	return j != nil && (j.executing || !j.Suspended && !j.Finished && !j.Deleting)
}

// request is an action on a member.
type request struct {
	action         runs.Action
	member, object string
	uid            string // of the Job that it is about
	cluster        string // the identity of the member that it was sent to
	create         *modelJob
	size           int32
	suspend        bool
	over           []string // runs that a cleanup removes
}

func newWorld(objects ...*v1alpha1.FleetMiniCluster) *world {
	w := &world{now: start, objects: objects, created: map[string]int{}, executed: map[string]int{}, hadRuns: map[string]bool{}, digests: map[string]string{}}
	for _, name := range []string{"alpine", "basalt"} {
		m := &modelMember{
			name: name, uid: "uid-" + name, registered: MakeMember(name).Cluster, since: start.Add(-time.Hour), heard: start,
			jobs: map[string]*modelJob{}, cached: map[string]*modelJob{}, stray: map[string]string{}, prepared: map[string]bool{}, record: map[string][]v1alpha1.EndedRun{},
		}
		w.members = append(w.members, m)
	}
	return w
}

func (w *world) clone() *world {
	c := *w
	c.objects = slices.Clone(w.objects)
	c.members = make([]*modelMember, len(w.members))
	for i, m := range w.members {
		n := *m
		n.jobs, n.cached, n.stray, n.prepared = maps.Clone(m.jobs), maps.Clone(m.cached), maps.Clone(m.stray), maps.Clone(m.prepared)
		n.record = maps.Clone(m.record)
		c.members[i] = &n
	}
	c.created, c.executed, c.hadRuns, c.digests = maps.Clone(w.created), maps.Clone(w.executed), maps.Clone(w.hadRuns), maps.Clone(w.digests)
	return &c
}

func (w *world) member(name string) *modelMember {
	for _, m := range w.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// edit changes an object as a person does.
func (w *world) edit(changes ...func(*v1alpha1.FleetMiniCluster)) {
	f := w.objects[0].DeepCopy()
	f.Generation++
	for _, change := range changes {
		change(f)
	}
	w.objects[0] = f
}

// register changes how the hub knows a member.
func (m *modelMember) register(change func(*v1alpha1.MemberCluster)) {
	c := m.registered.DeepCopy()
	change(c)
	m.registered = c
}

// connect has the hub reach a member, from now on.
func (m *modelMember) connect(now time.Time) {
	m.link, m.since, m.heard = connected, now, now
	if m.registered == nil {
		return
	}
	m.register(func(c *v1alpha1.MemberCluster) {
		ready(c, metav1.ConditionTrue, v1alpha1.ReasonConnected, "")
		c.Status.LastHeardTime = nil
	})
}

// lose has a member out of reach from now on.
func (m *modelMember) lose(now time.Time) {
	m.link, m.heard, m.since = unreachable, now, now
	m.register(func(c *v1alpha1.MemberCluster) {
		ready(c, metav1.ConditionFalse, v1alpha1.ReasonUnreachable, "no answer")
		c.Status.LastHeardTime = ptr.To(metav1.NewTime(now))
	})
}

// erase loses everything that a member had.
func (m *modelMember) erase() {
	m.jobs, m.stray, m.prepared = map[string]*modelJob{}, map[string]string{}, map[string]bool{}
	m.cached, m.record = map[string]*modelJob{}, map[string][]v1alpha1.EndedRun{}
}

// set puts a Job in place of another, which the cache shows at once unless it lags; nil for none.
func (m *modelMember) set(object string, j *modelJob) {
	if j == nil {
		delete(m.jobs, object)
	} else {
		m.jobs[object] = j
	}
	if !m.lags {
		m.refresh()
	}
}

func (m *modelMember) refresh() { m.cached = maps.Clone(m.jobs) }

func (m *modelMember) behind() bool { return !maps.Equal(m.jobs, m.cached) }

func (m *modelMember) change(object string, change func(*modelJob)) {
	j := *m.jobs[object]
	change(&j)
	m.set(object, &j)
}

// removeOrphan removes what a FleetMiniCluster has left that was deleted, and what was written down about it when that is
// done.
func (m *modelMember) removeOrphan() {
	o := m.registered.Status.Orphans[0]
	if j := m.jobs[o.Name]; j != nil && j.owner == o.UID {
		m.change(o.Name, func(j *modelJob) { j.Deleting = true })
		return
	}
	delete(m.record, o.Name)
	m.register(func(c *v1alpha1.MemberCluster) { c.Status.Orphans = nil })
}

// removing says that the Job that was left is being deleted.
func (m *modelMember) removing() bool {
	j := m.jobs[m.registered.Status.Orphans[0].Name]
	return j != nil && j.Deleting
}

// usage is how many pods of each run have a node.
func (m *modelMember) usage() map[string]int {
	out := map[string]int{}
	for _, j := range m.jobs {
		if j.executing {
			out[j.RunID] += int(j.Size)
		}
	}
	return out
}

func (m *modelMember) used() int {
	n := 0
	for _, pods := range m.usage() {
		n += pods
	}
	return n
}

func (m *modelMember) room(without ...string) *nodeusage.Room {
	if m.cpus == 0 {
		return &nodeusage.Room{State: nodeusage.Unknown}
	}
	return roomWith(m.cpus, m.usage(), without...)
}

func (m *modelMember) connection() plan.Connection {
	switch m.link {
	case connecting:
		return plan.Connection{Attempted: true, Reason: v1alpha1.ReasonConnecting, Since: m.since}
	case unreachable:
		return plan.Connection{Attempted: true, Reason: v1alpha1.ReasonUnreachable, Message: "no answer", LastHeard: m.heard, Since: m.since}
	default:
		return plan.Connection{
			Connected: true, Attempted: true, Ready: true, LastHeard: m.heard, Since: m.since, UID: m.uid, Namespace: "hpc", Room: m.room().State,
		}
	}
}

// observation is a Job as it is read.
func (j *modelJob) observation(object string) *plan.Observation {
	if j == nil {
		return &plan.Observation{}
	}
	seen, o := j.seen(), j.template.DeepCopy()
	o.Namespace, o.Name, o.UID, o.Spec.Completions = "hpc", object, types.UID(j.UID), ptr.To(j.Size)
	o.CreationTimestamp = metav1.NewTime(start)
	return &plan.Observation{Job: seen, Object: o}
}

func (j *modelJob) seen() *runs.Job {
	if j == nil {
		return nil
	}
	seen := j.Job
	seen.Pods = v1alpha1.PodCounts{Desired: j.Size}
	switch {
	case j.executing:
		seen.Pods.Ready, seen.Pods.Active = j.Size, j.Size
	case j.Finished && j.Succeeded:
		seen.Pods.Succeeded = j.Size
	}
	return &seen
}

// errors of members.
var (
	errUnanswered = fmt.Errorf("no answer")
	errOtherRun   = fmt.Errorf("a Job of another run has the name")
	errNotFound   = fmt.Errorf("there is no such Job")
)

// land is the arrival of a request at the member, which may be long after it was sent. A Job is created only where none
// has its name, and deleted or changed only if it is the one that was meant.
func (w *world) land(r *request) (removed bool, err error) {
	m := w.member(r.member)
	if m.uid != r.cluster {
		return false, errUnanswered
	}
	j := m.jobs[r.object]
	switch r.action {
	case runs.Create:
		m.prepared[r.object] = true
		switch {
		case j != nil && j.RunID != r.create.RunID:
			return false, errOtherRun
		case j == nil:
			w.created[r.create.RunID]++
			c := *r.create
			c.Created = metav1.NewTime(w.now)
			w.digests[c.RunID] = c.Digest
			c.UID = fmt.Sprintf("job-%s-%d", c.RunID, w.created[c.RunID])
			m.set(r.object, &c)
		}
	case runs.Adjust:
		if j == nil || j.UID != r.uid {
			return false, errNotFound
		}
		m.change(r.object, func(j *modelJob) {
			if !j.Finished {
				if j.Suspended && !r.suspend {
					j.StartTime = ptr.To(metav1.NewTime(w.now))
				}
				j.Size, j.Suspended, j.SuspendedByUs, j.Unreleased = r.size, r.suspend, r.suspend, false
				j.executing = j.executing && !r.suspend
			}
		})
	case runs.DeleteJob:
		if j != nil && j.UID == r.uid {
			m.change(r.object, func(j *modelJob) { j.Deleting = true })
		}
	case runs.Cleanup:
		if j != nil {
			if j.RunID == "" || slices.Contains(r.over, j.RunID) {
				m.change(r.object, func(j *modelJob) { j.Deleting = true })
			}
			return false, nil
		}
		had := m.prepared[r.object]
		delete(m.prepared, r.object)
		return !had, nil
	}
	return false, nil
}

// steps lists what members may do next by themselves, the likeliest first.
func (w *world) steps(mayFail bool) []func(*world) {
	var out []func(*world)
	for _, m := range w.members {
		name := m.name
		if m.lags && m.behind() {
			out = append(out, func(w *world) { w.member(name).refresh() })
		}
		if m.registered != nil && m.link == connected && len(m.registered.Status.Orphans) > 0 && !m.removing() {
			out = append(out, func(w *world) { w.member(name).removeOrphan() })
		}
		for _, f := range w.objects {
			object, j := f.Name, m.jobs[f.Name]
			if m.stray[object] != "" {
				out = append(out, func(w *world) { delete(w.member(name).stray, object) })
			}
			if j == nil {
				continue
			}
			if j.Deleting {
				out = append(out, func(w *world) { w.member(name).set(object, nil) }) // its pods first
			}
			if j.live() && !j.executing && !m.stuck && (m.cpus == 0 || m.used()+int(j.Size) <= m.cpus) {
				out = append(out, func(w *world) {
					w.member(name).change(object, func(j *modelJob) { j.executing = true })
					w.executed[j.RunID]++
				})
			}
			if !j.executing {
				continue
			}
			for _, succeeded := range []bool{true, false} {
				if succeeded || mayFail {
					out = append(out, func(w *world) {
						w.member(name).change(object, func(j *modelJob) {
							j.executing, j.Finished, j.Succeeded = false, true, succeeded
							j.CompletionTime = ptr.To(metav1.NewTime(w.now))
						})
					})
				}
			}
		}
	}
	return out
}

// key tells worlds apart.
func (w *world) key() string {
	return fmt.Sprintf("%d %d %t %s", w.events, w.now.Sub(start), w.delayed, w.state())
}

// state is the key without the time and the story.
func (w *world) state() string {
	var b strings.Builder
	for _, f := range w.objects {
		writeObject(&b, f)
	}
	for _, m := range w.members {
		m.write(&b)
	}
	if w.hub != nil {
		for _, f := range w.objects {
			w.hub.write(&b, keyOf(f))
		}
	}
	if r := w.inFlight; r != nil {
		fmt.Fprintf(&b, "\nrequest %s %s %s %s %s %d %t", r.action, r.member, r.object, r.uid, r.cluster, r.size, r.suspend)
		if r.create != nil {
			b.WriteString(r.create.RunID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.created)) {
		fmt.Fprintf(&b, " %s:%d:%d", id, w.created[id], min(w.executed[id], 2))
	}
	return b.String()
}

func writeObject(b *strings.Builder, f *v1alpha1.FleetMiniCluster) {
	fmt.Fprintf(b, "\n%s %d", f.Name, f.Generation)
	if p := f.Status.Placement; p != nil {
		fmt.Fprintf(b, " on %v of %d %s %s waiting %d", p.Clusters, p.Wanted, p.Digest, p.RerunAt, len(p.Waiting))
	}
	for _, c := range f.Status.Clusters {
		fmt.Fprintf(b, " %s=%s/%s/%s/%s/%d", c.Name, c.Run, c.Sync, c.Health, c.Reason, c.Pods.Succeeded)
	}
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		b.WriteString(" " + c.Reason)
	}
	for i := range f.Status.Runs {
		r := &f.Status.Runs[i]
		fmt.Fprintf(b, "\n  %s on %s %s %s %s %s %d %s", r.ID, r.Cluster, r.State, r.Stop, r.JobUID, r.RerunAt, r.Attempt, r.ClusterUID)
		for _, t := range []*metav1.Time{r.StartTime, r.CompletionTime, r.RunningTime, r.PendingSince, r.LostTime} {
			writeTime(b, t)
		}
	}
	for _, e := range f.Status.Succeeded {
		b.WriteString(" remembers " + e.ID + " on " + e.Cluster)
	}
	fmt.Fprintf(b, " unasked %v", f.Status.Unasked)
}

func writeTime(b *strings.Builder, t *metav1.Time) {
	if t == nil {
		b.WriteString(" -")
		return
	}
	fmt.Fprintf(b, " %d", t.Sub(start)/time.Second)
}

func (m *modelMember) write(b *strings.Builder) {
	if m.registered != nil && len(m.registered.Status.Orphans) > 0 {
		b.WriteString(" orphan")
	}
	fmt.Fprintf(b, "\n%s %s %t %d %d %d %t", m.name, m.uid, m.registered != nil, m.link, m.since.Sub(start), m.heard.Sub(start), m.stuck)
	for _, jobs := range []map[string]*modelJob{m.jobs, m.cached} {
		for _, object := range slices.Sorted(maps.Keys(jobs)) {
			j := jobs[object]
			fmt.Fprintf(b, " Job %s %s %d %t %t %t %t %t %t", object, j.UID, j.Size, j.Suspended, j.Unreleased, j.executing, j.Deleting, j.Finished, j.Succeeded)
			writeTime(b, j.StartTime)
		}
		if !m.lags {
			break
		}
		b.WriteString(" cached")
	}
	for _, object := range slices.Sorted(maps.Keys(m.stray)) {
		fmt.Fprintf(b, " pod of %s %s", object, m.stray[object])
	}
	for _, object := range slices.Sorted(maps.Keys(m.prepared)) {
		b.WriteString(" prepared " + object)
	}
	for _, object := range slices.Sorted(maps.Keys(m.record)) {
		for _, e := range m.record[object] {
			fmt.Fprintf(b, " record %s %s %s", object, e.ID, e.State)
		}
	}
}

func (h *memory) write(b *strings.Builder, key queue.Key) {
	fmt.Fprintf(b, "\nhub %d", h.since.Sub(start))
	for _, member := range slices.Sorted(maps.Keys(h.reserved[key])) {
		r := h.reserved[key][member]
		fmt.Fprintf(b, " %s:%q %d-%d", member, r.Run, r.Gang.Size, r.Succeeded)
	}
	if e := h.pending[key]; e != nil {
		fmt.Fprintf(b, " waits %t", e.Anywhere != nil)
		for _, member := range slices.Sorted(maps.Keys(e.Gangs)) {
			fmt.Fprintf(b, " %s:%d", member, e.Gangs[member].Size)
		}
	}
}
