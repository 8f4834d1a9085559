package soak

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
)

// invariants are the promises; each returns what contradicts it.
var invariants = []struct {
	name  string
	check func(*history) []string
}{
	{"D1: a run is created once", (*history).createdOnce},
	{"D2: with numberOfClusters 1, nothing is live on two members", (*history).neverTwice},
	{"D3: nothing runs more often than it was asked for", (*history).asOftenAsAsked},
	{"D4: a run is in the ledger before its Job is made", (*history).writtenAhead},
	{"D5: what has succeeded is not run again", (*history).neverRepeats},
	{"U1: no live Job is deleted or suspended but for a reason", (*history).reasonToStop},
	{"U2: no run is called over while its Job is live", (*history).overWhenOver},
	{"U3: nothing that a live Job needs is deleted", (*history).keepsSupport},
	{"U5: a run leaves its member only as it was asked for", (*history).leavesAsAsked},
	{"U6: nothing is live on a member that is let go of", (*history).clearedWhenLeft},
	{"A1: a controller asks nothing of the members of another shard", (*history).asksItsOwn},
	{"A2: a controller changes nothing of another shard on the hub", (*history).changesItsOwn},
}

// ours are the Jobs that MiniFleet made and let run, oldest first.
func (h *history) ours() []*job {
	out := slices.DeleteFunc(slices.Collect(maps.Values(h.jobs)), func(j *job) bool { return h.fleets[j.owner] == nil || !j.released })
	slices.SortFunc(out, func(a, b *job) int { return a.created.Compare(b.created) })
	return out
}

func (h *history) createdOnce() []string {
	byRun := map[string][]*job{}
	var out []string
	for _, j := range h.ours() {
		byRun[j.run] = append(byRun[j.run], j)
		if j.creates > 1 {
			out = append(out, fmt.Sprintf("created %d times: %s", j.creates, j))
		}
	}
	for run, jobs := range byRun {
		if jobs = h.remembered(jobs); len(jobs) > 1 {
			out = append(out, fmt.Sprintf("run %s of %s has %d Jobs:\n%s", run, h.fleets[jobs[0].owner].name, len(jobs), list(jobs)))
		}
	}
	return out
}

func list(jobs []*job) string {
	lines := make([]string, len(jobs))
	for i, j := range jobs {
		lines[i] = "  " + j.String()
	}
	return strings.Join(lines, "\n")
}

// single says whether numberOfClusters was 1 for all of the object's life.
func (f *fmc) single() bool {
	return !slices.ContainsFunc(f.versions, func(v version) bool {
		p := v.object.Spec.Placement
		return p == nil || p.NumberOfClusters == nil || *p.NumberOfClusters != 1
	})
}

// neverTwice compares when the second was asked for with when the first was over. MiniFleet must have known
// the one before it did the other, so that no request in between excuses anything.
func (h *history) neverTwice() []string {
	byOwner := map[*fmc][]*job{}
	for _, j := range h.ours() {
		if f := h.fleets[j.owner]; f.single() {
			byOwner[f] = append(byOwner[f], j)
		}
	}
	var out []string
	for f, jobs := range byOwner {
		for i, second := range jobs {
			for _, first := range jobs[:i] {
				if first.member != second.member && !first.over(second.created) && !first.lost(second.created) &&
					!h.givenUp(f, first, second.created) && !h.forgotten(f, first, second.created) {
					out = append(out, fmt.Sprintf("%s (%s) was live on %s when it was started on %s:\n%s\n%s",
						f.name, f.uid, first.member, second.member, list([]*job{first, second}), f.story()))
				}
			}
		}
	}
	return out
}

// forgotten says whether nobody can have known of a Job by a time: the ledger was lost, and its member was not
// registered, by which it was let go of with all that it remembers, or a person has deleted the Job before that.
func (h *history) forgotten(f *fmc, j *job, at time.Time) bool {
	return f.lost && (h.unregistered(j.member, j.created, at) || f.deletedUnseen(j, at))
}

// deletedUnseen says whether a person had a Job be deleted, and the ledger was lost before it said that its run is over and before
// its member had that on record: nothing is left to know it by, which decision 18 has as a limit.
func (f *fmc) deletedUnseen(j *job, at time.Time) bool {
	if j.deleter == "" || j.deleter == hubUser || !before(j.deleting, at) {
		return false
	}
	return slices.ContainsFunc(f.versions, func(v version) bool {
		return v.edited && v.at.After(j.deleting) && !v.at.After(at) && runs.Ledger(v.object.Status.Runs).Find(j.run) == nil &&
			!before(j.recorded, v.at) && !f.ledgerSaid(j.run, v.at, func(r *v1alpha1.Run) bool { return r.State.Ended() })
	})
}

// remembered are those of some Jobs of one FleetMiniCluster, oldest first, that could be known when the latest was made.
func (h *history) remembered(jobs []*job) []*job {
	latest := jobs[len(jobs)-1]
	return slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool {
		return j != latest && h.forgotten(h.fleets[j.owner], j, latest.created)
	})
}

// neverRepeats compares the Jobs that have succeeded with those that came after them. It goes by what the members' logs
// tell of Jobs, whatever has become of the ledger, and of the object that bears it, since.
func (h *history) neverRepeats() []string {
	var out []string
	all := h.ours()
	for i, again := range all {
		f := h.fleets[again.owner]
		for _, first := range all[:i] {
			same := h.fleets[first.owner] == f && first.wish.digest == again.wish.digest && (first.member == again.member || f.single())
			asked := again.wish.token != "" && again.wish.token != first.wish.token
			if same && !asked && f.knowsSuccess(first, again.created) && !h.forgotten(f, first, again.created) {
				out = append(out, fmt.Sprintf("%s (%s) has succeeded on %s, and is run again:\n%s\n%s", f.name, f.uid, first.member, list([]*job{first, again}), f.story()))
			}
		}
	}
	return out
}

// knowsSuccess says whether a Job had succeeded by a time, and that could be known: it was said, or the Job was there
// until MiniFleet itself has deleted it. One that was to be stopped may have succeeded before anybody saw that.
func (f *fmc) knowsSuccess(j *job, at time.Time) bool {
	if !j.succeeded || !before(j.finished, at) {
		return false
	}
	for r := range f.stops() {
		if r.ID == j.run {
			return false
		}
	}
	said := f.ledgerSaid(j.run, at, func(r *v1alpha1.Run) bool { return r.State == v1alpha1.RunSucceeded })
	return said || !before(j.deleting, at) || j.deleter == hubUser && j.finished.Before(j.deleting)
}

// lost says whether a Job was last seen before a time and its end is in no log, because the API server was
// killed: it may have ended by then.
func (j *job) lost(at time.Time) bool {
	return j.finished.IsZero() && j.removed.IsZero() && j.seen.Before(at) && !j.stays
}

func (h *history) asOftenAsAsked() []string {
	type key struct {
		fleet  *fmc
		member string
		wish   wish
	}
	counts := map[key][]*job{}
	for _, j := range h.ours() {
		f := h.fleets[j.owner]
		k := key{f, j.member, j.wish}
		if f.single() {
			k.member = "" // it is on one of them
		}
		counts[k] = append(counts[k], j)
	}
	var out []string
	for k, jobs := range counts {
		f := k.fleet
		jobs = h.remembered(jobs)
		entered, retries := f.asked(k.wish)
		if most := entered*(1+retries) + h.movedRuns(f, k.wish, k.member); len(jobs) > most {
			out = append(out, fmt.Sprintf("%s (%s) ran %d times for digest %s and token %q, which was wished %d times, with %d retries:\n%s\n%s",
				f.name, f.uid, len(jobs), k.wish.digest, k.wish.token, entered, retries, list(jobs), f.story()))
		}
	}
	return out
}

// movedRuns is how many runs for a wish had to leave their members: each is made up for. With a member, those there.
func (h *history) movedRuns(f *fmc, w wish, member string) int {
	n := 0
	for r, at := range f.stops() {
		moved := r.Stop == v1alpha1.StopDrained || r.Stop == v1alpha1.StopNotStarted || r.Stop == v1alpha1.StopLost ||
			r.Stop == v1alpha1.StopDeclaredGone && h.mayDeclare(r.Cluster, at.at)
		if moved && r.Digest == w.digest && r.RerunAt == w.token && (member == "" || r.Cluster == member) {
			n++
		}
	}
	return n
}

// stops are the runs that have a reason why they were stopped or given up, each as it was when it got that, with
// the version in which it did.
func (f *fmc) stops() iter.Seq2[v1alpha1.Run, *version] {
	return func(yield func(v1alpha1.Run, *version) bool) {
		told := map[string]bool{}
		for i := range f.versions {
			for _, r := range f.versions[i].object.Status.Runs {
				if r.Stop == "" || told[r.ID] || f.versions[i].edited {
					continue
				}
				told[r.ID] = true
				if !yield(r, &f.versions[i]) {
					return
				}
			}
		}
	}
}

// lag is how far the hub may be behind with what it says of a member.
const lag = 15 * time.Second

// mayDeclare says whether a person's word about a member may have counted at a time: it could not be asked.
func (h *history) mayDeclare(member string, at time.Time) bool {
	return h.unaskable(member, at.Add(-lag), at.Add(lag))
}

// givenUp says whether a person had given up the run of a Job by a time, when its member could not be asked.
func (h *history) givenUp(f *fmc, j *job, at time.Time) bool {
	for r, v := range f.stops() {
		if r.ID == j.run {
			return r.Stop == v1alpha1.StopDeclaredGone && !v.at.After(at) && h.mayDeclare(j.member, v.at)
		}
	}
	return false
}

// leavesAsAsked compares why runs were stopped with what their placements said and their Jobs were like.
func (h *history) leavesAsAsked() []string {
	byRun := map[string]*job{}
	for _, j := range h.ours() {
		byRun[j.run] = j
	}
	var out []string
	for _, f := range h.all() {
		for r, v := range f.stops() {
			if why := h.wrongToLeave(&r, v, byRun[r.ID]); why != "" {
				out = append(out, fmt.Sprintf("%s: run %s on %s is %s for %s at %s, but %s: %v\n%s", f.name, r.ID, r.Cluster, r.State, r.Stop,
					v.at.UTC().Format("15:04:05.000000"), why, byRun[r.ID], f.story()))
			}
		}
	}
	return out
}

func (h *history) wrongToLeave(r *v1alpha1.Run, v *version, j *job) string {
	// What the hub has seen of a Job may be a little old.
	const old = 5 * time.Second
	p := v.object.Spec.Placement
	switch {
	case r.Stop == v1alpha1.StopDeclaredGone && !h.mayDeclare(r.Cluster, v.at):
		return "its member could be asked"
	case r.Stop == v1alpha1.StopNotStarted && p.PendingTimeout == nil:
		return "it may wait for ever"
	case r.Stop == v1alpha1.StopLost && (p.Failover == nil || p.Failover.Fencing == v1alpha1.FenceManual):
		return "nobody has asked for failover"
	case r.State != v1alpha1.RunStopping || j == nil:
		return ""
	case r.Stop == v1alpha1.StopNotStarted && j.had(v.at.Add(-old), v.at, func(p readiness) bool { return p.ready >= p.size }):
		return "all of its pods ran"
	case r.Stop == v1alpha1.StopLost && j.had(v.at.Add(-old), v.at, func(p readiness) bool { return p.ready > 0 }):
		return "pods of it ran"
	default:
		return ""
	}
}

// had says whether a Job was like that from one time to another.
func (j *job) had(from, to time.Time, like func(readiness) bool) bool {
	all := true
	known := false
	for i, p := range j.pods {
		ended := i+1 < len(j.pods) && !j.pods[i+1].at.After(from)
		if !ended && !p.at.After(to) {
			known, all = known || !p.at.After(from), all && like(p)
		}
	}
	return known && all
}

func (h *history) clearedWhenLeft() []string {
	var out []string
	for name, all := range h.members {
		for _, m := range all {
			for _, j := range h.ours() {
				if m.cleared && j.member == name && j.created.Before(m.at) && !j.over(m.at) && !j.lost(m.at) && !h.givenUp(h.fleets[j.owner], j, m.at) {
					out = append(out, fmt.Sprintf("%s was let go of at %s with a live Job: %s", name, m.at.UTC().Format("15:04:05.000000"), j))
				}
			}
		}
	}
	return out
}

// writtenAhead compares when a Job was asked for with when its run came into the ledger. Where the request that
// brought it there is in no log, or the one that made the Job, nothing is known.
func (h *history) writtenAhead() []string {
	var out []string
	for _, j := range h.ours() {
		f := h.fleets[j.owner]
		i := slices.IndexFunc(f.versions, func(v version) bool {
			return slices.ContainsFunc(v.object.Status.Runs, func(r v1alpha1.Run) bool { return r.ID == j.run })
		})
		if i <= 0 || j.creates == 0 || f.versions[i].base != f.versions[i-1].number {
			continue
		}
		if at := f.versions[i].at; at.After(j.created) {
			out = append(out, fmt.Sprintf("run %s of %s is in the ledger since %s: %s\n%s", j.run, f.name, at.UTC().Format("15:04:05.000000"), j, f.story()))
		}
	}
	return out
}

// asked is how often a wish was entered, and the most retries there were.
func (f *fmc) asked(w wish) (entered, retries int) {
	var last wish
	for i := range f.versions {
		now := f.versions[i].wish()
		if now == w && now != last {
			entered++
		}
		last = now
		retries = max(retries, int(f.versions[i].object.Spec.Retries))
	}
	return entered, retries
}

// story is what was wished, and what the ledger said, in the order of time.
func (f *fmc) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %s (%s):", f.name, f.uid)
	last := ""
	for i := range f.versions {
		v := &f.versions[i]
		w := v.wish()
		line := fmt.Sprintf("wish %s %q", w.digest, w.token)
		if v.object.Spec.Suspend {
			line += " suspended"
		}
		if v.object.DeletionTimestamp != nil {
			line += " deleted"
		}
		if v.edited {
			line += " (not the hub's)"
		}
		for _, r := range v.object.Status.Runs {
			line += fmt.Sprintf("; %s %s %s on %s", r.ID, r.Digest[:min(4, len(r.Digest))], r.State, r.Cluster)
		}
		if line != last {
			fmt.Fprintf(&b, "\n    %s %s", v.at.UTC().Format("15:04:05.000000"), line)
			last = line
		}
	}
	return b.String()
}

// calledOver says whether the ledger called a run over at a time.
func (f *fmc) calledOver(run string, at time.Time) bool {
	return f.ledgerSaid(run, at, func(r *v1alpha1.Run) bool { return r.State.Ended() })
}

func (f *fmc) ledgerSaid(run string, at time.Time, what func(*v1alpha1.Run) bool) bool {
	said := func(o *v1alpha1.FleetMiniCluster) bool {
		return slices.ContainsFunc(o.Status.Runs, func(r v1alpha1.Run) bool { return r.ID == run && what(&r) })
	}
	return slices.ContainsFunc(f.versions, func(v version) bool { return !v.edited && !v.at.After(at) && said(v.object) }) || slices.ContainsFunc(f.cut, func(v version) bool { return !v.at.After(at) && said(v.object) })
}

// was says whether the object was ever like that by a time.
func (f *fmc) was(at time.Time, like func(*v1alpha1.FleetMiniCluster) bool) bool {
	return slices.ContainsFunc(f.versions, func(v version) bool { return !v.at.After(at) && like(v.object) })
}

// during says whether the object was like that at any time after a Job was made, up to a time.
func (f *fmc) during(from, to time.Time, like func(*v1alpha1.FleetMiniCluster) bool) bool {
	for i := range f.versions {
		ended := i+1 < len(f.versions) && f.versions[i+1].at.Before(from)
		if !ended && !f.versions[i].at.After(to) && like(f.versions[i].object) {
			return true
		}
	}
	return false
}

func (h *history) reasonToStop() []string {
	var out []string
	for _, w := range h.writes {
		if w.cluster == hubName || !w.about("jobs") {
			continue
		}
		j := h.jobs[w.uid()]
		if j == nil || h.fleets[j.owner] == nil || j.over(w.event.Received) || !j.released { // which makes no pods
			continue
		}
		f := h.fleets[j.owner]
		switch {
		case w.event.Verb == "delete" && (j.deleting.IsZero() || !j.deleting.Before(w.event.Received)) && !f.mayStop(j, w.event.Received) && !h.mayDrain(f, j, w.event.Received):
			out = append(out, fmt.Sprintf("a live Job of %s was deleted for no reason: %s\n%s\n%s", f.name, w, j, f.story()))
		case w.event.Verb == "patch" && w.suspends() && !f.during(j.created, w.event.Received, func(o *v1alpha1.FleetMiniCluster) bool { return o.Spec.Suspend }):
			out = append(out, fmt.Sprintf("a live Job of %s was suspended for no reason: %s\n%s\n%s", f.name, w, j, f.story()))
		}
	}
	return out
}

// mayDrain says whether a Job may be deleted because its member is drained: it is, and the ledger says so.
func (h *history) mayDrain(f *fmc, j *job, at time.Time) bool {
	said := f.ledgerSaid(j.run, at, func(r *v1alpha1.Run) bool {
		return r.State == v1alpha1.RunStopping && r.Stop == v1alpha1.StopDrained
	})
	return said && h.drained(j.member, j.created, at)
}

// uid is that of the object that was changed or deleted.
func (w write) uid() types.UID {
	var options metav1.DeleteOptions
	if w.event.Verb == "delete" && json.Unmarshal(w.event.RequestObject, &options) == nil && options.Preconditions != nil && options.Preconditions.UID != nil {
		return *options.Preconditions.UID
	}
	if uid := deletedUID(&w.event); uid != "" {
		return uid
	}
	var obj struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	_ = json.Unmarshal(w.event.ResponseObject, &obj) // without an object there is no UID
	return obj.Metadata.UID
}

func (w write) suspends() bool {
	var patch struct {
		Spec struct {
			Suspend bool `json:"suspend"`
		} `json:"spec"`
	}
	return json.Unmarshal(w.event.RequestObject, &patch) == nil && patch.Spec.Suspend
}

// mayStop says whether there is a reason to delete a Job of this object that is live.
func (f *fmc) mayStop(j *job, at time.Time) bool {
	deleted := func(o *v1alpha1.FleetMiniCluster) bool { return o.DeletionTimestamp != nil }
	if f.was(at, deleted) || f.calledOver(j.run, at) {
		return true
	}
	stopping := func(cancelled bool) bool {
		return f.ledgerSaid(j.run, at, func(r *v1alpha1.Run) bool {
			return r.State == v1alpha1.RunStopping && (r.Stop == v1alpha1.StopCancelled) == cancelled
		})
	}
	asked := func(o *v1alpha1.FleetMiniCluster) bool {
		return strings.Contains(o.Annotations[v1alpha1.AnnotationCancel], j.run)
	}
	replaced := func(o *v1alpha1.FleetMiniCluster) bool {
		v := version{object: o}
		return o.Spec.OnChange == v1alpha1.Replace && v.wish() != j.wish
	}
	// Whether that was asked for is looked at when it is said.
	left := f.ledgerSaid(j.run, at, func(r *v1alpha1.Run) bool {
		return r.State == v1alpha1.RunStopping && (r.Stop == v1alpha1.StopNotStarted || r.Stop == v1alpha1.StopLost)
	})
	return left || stopping(true) && f.was(at, asked) || stopping(false) && f.during(j.created, at, replaced)
}

func (h *history) overWhenOver() []string {
	byRun := map[string][]*job{}
	for _, j := range h.ours() {
		byRun[j.run] = append(byRun[j.run], j)
	}
	var out []string
	for _, f := range h.all() {
		told := map[string]bool{}
		for _, v := range f.versions {
			for _, r := range v.object.Status.Runs {
				if !r.State.Ended() || told[r.ID] || v.edited {
					continue
				}
				told[r.ID] = !f.justEdited(r.ID, v.at)
				for _, j := range byRun[r.ID] {
					if j.created.After(v.at) || j.lost(v.at) {
						continue
					}
					// One that was given up before it was ever seen may have a request on its way still.
					seen := f.ledgerSaid(r.ID, v.at, func(r *v1alpha1.Run) bool { return r.JobUID != "" })
					// A deletion does not wait for a member that is not registered.
					left := v.object.DeletionTimestamp != nil && h.mayDeclare(j.member, v.at)
					live := !j.over(v.at) && seen && !left && !h.givenUp(f, j, v.at)
					there := before(j.finished, v.at) && !before(j.removed, v.at) && j.seen.After(v.at)
					wrong := !f.justEdited(r.ID, v.at) && (r.State == v1alpha1.RunSucceeded && !j.succeeded && !before(j.leadSucceeded, v.at) || r.State == v1alpha1.RunFailed && j.succeeded && there)
					if live || wrong {
						out = append(out, fmt.Sprintf("%s: run %s is called %s at %s: %s\n%s", f.name, r.ID, r.State, v.at.UTC().Format("15:04:05.000000"), j, f.story()))
					}
				}
			}
		}
	}
	return out
}

// justEdited says whether somebody has edited the line of a run so short a time ago that what they have made of it may
// still stand.
func (f *fmc) justEdited(run string, at time.Time) bool {
	return slices.ContainsFunc(f.edits, func(e editedLine) bool { return e.run == run && !e.at.After(at) && at.Sub(e.at) < lag })
}

func (h *history) keepsSupport() []string {
	live := map[*fmc][]*job{}
	for _, j := range h.ours() {
		live[h.fleets[j.owner]] = append(live[h.fleets[j.owner]], j)
	}
	var out []string
	for _, w := range h.writes {
		if w.cluster == hubName || w.event.Verb != "delete" || w.about("jobs") || w.about("pods") {
			continue
		}
		at := w.event.Received
		for _, j := range live[h.fleets[h.support[w.uid()]]] {
			if j.member == w.cluster && !j.created.After(at) && !j.over(at) && !j.lost(at) {
				out = append(out, fmt.Sprintf("%s was deleted under a live Job: %s", w, j))
			}
		}
	}
	return out
}

// touched are MiniFleet's changes to what is not its own.
func (h *history) touched(strangers []stranger) []string {
	var out []string
	for _, w := range h.writes {
		for _, s := range strangers {
			if w.cluster == s.member && w.event.Verb != "create" && w.uid() == s.object.GetUID() {
				out = append(out, fmt.Sprintf("%s, which is somebody else's %T", w, s.object))
			}
		}
	}
	return out
}

var secretKey = regexp.MustCompile(`secret-key *= *"([^"]+)"`)

// leaks are secrets that are anywhere but in Secrets: in what MiniFleet has written to any cluster (objects,
// events, status), or in its logs.
func (h *history) leaks(logs map[string][]byte) []string {
	secrets := [][]byte{}
	for _, s := range append(slices.Clone(h.certs), canary) {
		if m := secretKey.FindStringSubmatch(s); m != nil {
			s = m[1]
		}
		secrets = append(secrets, secretForms(s)...)
	}
	leaky := func(text []byte) bool {
		return slices.ContainsFunc(secrets, func(s []byte) bool { return bytes.Contains(text, s) })
	}
	var out []string
	for _, w := range h.writes {
		if leaky([]byte(w.event.RequestURI)) || !w.about("secrets") && leaky(w.event.RequestObject) {
			out = append(out, "a secret is in "+w.String())
		}
	}
	for name, log := range logs {
		for line := range bytes.Lines(log) {
			if leaky(line) {
				out = append(out, "a secret is in the log of "+name)
				break
			}
		}
	}
	return out
}
