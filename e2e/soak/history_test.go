package soak

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/hack/lab"
	"github.com/minifleet/minifleet/internal/runs"
)

// history is what happened, from the audit logs. All times are when the API server received the request by
// which something became so, on one clock.
//
// An API server that is killed may have done something that its log does not hold. So an object exists from
// the first answer that shows it, whoever asked, and a time that no log holds is the latest that it can have
// been, or zero.
type history struct {
	jobs    map[types.UID]*job
	fleets  map[types.UID]*fmc
	support map[types.UID]types.UID // ConfigMaps, Secrets and Services on members: whose they are
	writes  []write                 // MiniFleet's, on all clusters
	certs   []string                // the CURVE certificates that were made
	drains  map[string][]drain      // of members, by time
	members map[string][]member     // as they were, by time
	asked   []write                 // all requests of MiniFleet's, also those that were refused, without what was sent and answered
	shards  []shard
	// statuses are those of MemberClusters, by name and resource version.
	statuses map[string]v1alpha1.MemberClusterStatus
}

// drain says whether a member was drained from a time on.
type drain struct {
	at time.Time
	is bool
}

// member is a MemberCluster as it was from a time on.
type member struct {
	at         time.Time
	ready      bool // it could be asked
	registered bool
	cleared    bool // it went with everything that was there, as its policy wanted it
}

// readiness is how many pods a Job had that ran, from a time on.
type readiness struct {
	at          time.Time
	ready, size int32
}

// job is a Job on a member.
type job struct {
	member, name                string
	uid, owner                  types.UID
	run                         string
	wish                        wish
	creates                     int // requests that created it
	created, seen               time.Time
	finished, deleting, removed time.Time // zero: not, as far as is known
	released                    bool      // pods of it could be made
	succeeded                   bool
	leadSucceeded               time.Time // when its first pod is known to have; zero: not, as far as is known
	stays                       bool      // it is still there in the end
	deleter                     string    // who has asked first for its deletion; empty: nobody, as far as is known
	recorded                    time.Time // since when its member has its run on record; zero: not, as far as is known
	pods                        []readiness
	requests                    []string
}

// wish identifies what is to run.
type wish struct{ digest, token string }

// over says whether the Job was no longer live at a time.
func (j *job) over(at time.Time) bool { return before(j.finished, at) || before(j.removed, at) }

func before(t, at time.Time) bool { return !t.IsZero() && !t.After(at) }

func (j *job) String() string {
	return fmt.Sprintf("Job %s (%s) on %s, run %s of %s:\n    %s", j.name, j.uid, j.member, j.run, j.owner, strings.Join(j.requests, "\n    "))
}

// fmc is a FleetMiniCluster: all that it ever was. One that was created anew after its finalizer was taken off goes on
// with the history of the former, and both UIDs lead to it.
type fmc struct {
	name     string
	uid      types.UID
	versions []version // by resource version
	cut      []version // that it may have had, for a moment that no log tells of
	lost     bool      // somebody has changed its ledger, or it was created anew
	edits    []editedLine
}

// editedLine is a change that somebody, not MiniFleet, has made to a line of a ledger.
type editedLine struct {
	run string
	at  time.Time
}

// version is a FleetMiniCluster as it was since a time, until the next.
type version struct {
	at     time.Time
	number uint64
	base   uint64 // the version that it was made from, if the request that made it is in the log
	object *v1alpha1.FleetMiniCluster
	edited bool // its status is not MiniFleet's, but as somebody has left it
}

func (v *version) wish() wish {
	spec := v.object.Spec.MiniCluster.DeepCopy()
	spec.Default()
	return wish{runs.Digest(v.object.Name, spec), v.object.Annotations[v1alpha1.AnnotationRerunAt]}
}

// write is a request of MiniFleet's to change something, that was granted.
type write struct {
	cluster string
	event   lab.AuditEvent
	note    bool // of what a FleetMiniCluster may have left on a member of another shard
}

func (w write) String() string { return w.cluster + ": " + request(&w.event) }

func request(e *lab.AuditEvent) string {
	return fmt.Sprintf("%s %s %s %s: %d", e.Received.UTC().Format("15:04:05.000000"), e.User.Username, e.Verb, e.RequestURI, e.Response.Code)
}

// about says whether the request was about an object of this resource.
func (w write) about(resource string) bool {
	return w.event.Object != nil && w.event.Object.Resource == resource
}

// readHistory reads the audit logs of all clusters.
func (f *fleet) readHistory() (*history, error) {
	h := newHistory()
	h.shards = f.shards
	for _, c := range f.lab.Clusters() {
		events, err := lab.ReadAudit(c.AuditLog())
		if err != nil {
			return nil, err
		}
		h.read(c.Name(), events)
	}
	h.inherit(f.heirs)
	for _, fleet := range h.all() {
		fleet.markEdits()
	}
	return h, nil
}

func newHistory() *history {
	return &history{jobs: map[types.UID]*job{}, fleets: map[types.UID]*fmc{}, support: map[types.UID]types.UID{}, drains: map[string][]drain{}, members: map[string][]member{},
		statuses: map[string]v1alpha1.MemberClusterStatus{}}
}

// readMember notes whether a member is drained.
func (h *history) readMember(e *lab.AuditEvent) {
	var m v1alpha1.MemberCluster
	if json.Unmarshal(e.ResponseObject, &m) != nil || m.Kind != "MemberCluster" {
		return // a list, or nothing
	}
	if e.User.Username == hubUser {
		h.asked[len(h.asked)-1].note = h.isNote(e, &m)
	}
	h.statuses[m.Name+"/"+m.ResourceVersion] = m.Status
	why, _ := m.Draining()
	h.drains[m.Name] = append(h.drains[m.Name], drain{e.Received, why != ""})
	now := member{at: e.Received, ready: meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady), registered: true}
	if m.DeletionTimestamp != nil && len(m.Finalizers) == 0 {
		now.ready, now.registered, now.cleared = false, false, m.Spec.DeletionPolicy != v1alpha1.DeletionOrphan
	}
	h.members[m.Name] = append(h.members[m.Name], now)
}

// unregistered says whether a member was not registered at any time between two others.
func (h *history) unregistered(name string, from, to time.Time) bool {
	all := h.members[name]
	for i, m := range all {
		ended := i+1 < len(all) && all[i+1].at.Before(from)
		if !m.registered && !ended && !m.at.After(to) {
			return true
		}
	}
	return false
}

// unaskable says whether a member could not be asked at any time between two others, as far as the hub says.
func (h *history) unaskable(name string, from, to time.Time) bool {
	all := h.members[name]
	for i, m := range all {
		ended := i+1 < len(all) && all[i+1].at.Before(from)
		if !m.ready && !ended && !m.at.After(to) {
			return true
		}
	}
	return false
}

// drained says whether a member was drained at any time between two others.
func (h *history) drained(member string, from, to time.Time) bool {
	all := h.drains[member]
	for i, d := range all {
		ended := i+1 < len(all) && all[i+1].at.Before(from)
		if d.is && !ended && !d.at.After(to) {
			return true
		}
	}
	return false
}

// read adds what the requests to a cluster tell.
func (h *history) read(cluster string, events []lab.AuditEvent) {
	slices.SortStableFunc(events, func(a, b lab.AuditEvent) int { return a.Received.Compare(b.Received) })
	for i := range events {
		e := &events[i]
		h.readCut(e)
		if e.User.Username == hubUser {
			h.asked = append(h.asked, write{cluster: cluster, event: lab.AuditEvent{Verb: e.Verb, RequestURI: e.RequestURI, UserAgent: e.UserAgent, Received: e.Received, User: e.User, Object: e.Object, Response: e.Response}})
		}
		if e.Object == nil || e.Response.Code >= 300 || e.Object.Subresource == "token" {
			continue
		}
		if e.User.Username == hubUser && e.Write() {
			h.writes = append(h.writes, write{cluster: cluster, event: *e})
		}
		switch e.Object.Resource {
		case "jobs":
			h.readJob(cluster, e)
		case "pods":
			h.readPod(e)
		case "configmaps", "secrets", "services":
			h.readSupport(cluster, e)
		case "fleetminiclusters":
			h.readFleet(e)
		case "memberclusters":
			h.readMember(e)
		}
	}
}

// readPod notes when the first pod of a Job has succeeded, which may be after the Job was deleted: its lead ends a run.
func (h *history) readPod(e *lab.AuditEvent) {
	var p corev1.Pod
	if json.Unmarshal(e.ResponseObject, &p) != nil || p.Status.Phase != corev1.PodSucceeded || p.Annotations[batchv1.JobCompletionIndexAnnotation] != "0" {
		return
	}
	for _, owner := range p.OwnerReferences {
		if j := h.jobs[owner.UID]; j != nil && j.leadSucceeded.IsZero() {
			j.leadSucceeded = e.Received
		}
	}
}

// readCut notes what MiniFleet was writing of a FleetMiniCluster when it was killed: the API server may have done it,
// and has answered nobody.
func (h *history) readCut(e *lab.AuditEvent) {
	obj := &v1alpha1.FleetMiniCluster{}
	cut := e.Response.Code >= 500 && e.Verb == "update" && e.Object != nil && e.Object.Resource == "fleetminiclusters"
	if cut && json.Unmarshal(e.RequestObject, obj) == nil && h.fleets[obj.UID] != nil {
		f := h.fleets[obj.UID]
		f.cut = append(f.cut, version{at: e.Received, object: obj})
	}
}

// answer decodes the object of a kind that was answered, and says whether it is one.
func answer(e *lab.AuditEvent, kind string, into any) bool {
	var m metav1.TypeMeta
	if json.Unmarshal(e.ResponseObject, &m) != nil || m.Kind != kind {
		return false
	}
	return json.Unmarshal(e.ResponseObject, into) == nil
}

// deletedUID is the UID of an object that was gone at once when it was deleted.
func deletedUID(e *lab.AuditEvent) types.UID {
	var s metav1.Status
	if e.Verb != "delete" || !answer(e, "Status", &s) || s.Details == nil {
		return ""
	}
	return s.Details.UID
}

func (h *history) readJob(cluster string, e *lab.AuditEvent) {
	if j := h.jobs[deletedUID(e)]; j != nil {
		j.note(e)
		j.noteDeleter(e)
		j.deleting, j.removed = first(j.deleting, e.Received), first(j.removed, e.Received)
	}
	var obj batchv1.Job
	if !answer(e, "Job", &obj) || obj.UID == "" {
		return
	}
	j := h.jobs[obj.UID]
	if j == nil {
		j = &job{
			member: cluster, name: obj.Name, uid: obj.UID, owner: types.UID(obj.Annotations[v1alpha1.AnnotationOwnerUID]),
			run: obj.Labels[v1alpha1.LabelRun], created: e.Received,
			wish: wish{obj.Annotations[v1alpha1.AnnotationRunDigest], obj.Annotations[v1alpha1.AnnotationRunToken]},
		}
		if e.Verb != "create" {
			j.created = obj.CreationTimestamp.Time
		}
		h.jobs[obj.UID] = j
	}
	if e.Verb == "create" {
		j.creates++
	}
	j.seen = e.Received
	j.note(e)
	j.noteDeleter(e)
	j.observe(&obj, e)
}

// note keeps a request that changed the Job.
func (j *job) note(e *lab.AuditEvent) {
	if e.Write() {
		j.requests = append(j.requests, request(e))
	}
}

func (j *job) noteDeleter(e *lab.AuditEvent) {
	if e.Verb == "delete" && j.deleter == "" {
		j.deleter = e.User.Username
	}
}

func first(known, now time.Time) time.Time {
	if known.IsZero() {
		return now
	}
	return known
}

// ends says whether a condition that is true means that a Job has ended. A suspended one may be called failed only when
// it is resumed.
func ends(obj *batchv1.Job, condition batchv1.JobConditionType) bool {
	switch condition {
	case batchv1.JobComplete, batchv1.JobFailed:
		return true
	case batchv1.JobFailureTarget:
		return ptr.Deref(obj.Spec.Suspend, false) && obj.Status.Active == 0 && ptr.Deref(obj.Status.Terminating, 0) == 0
	default:
		return false
	}
}

func (j *job) observe(obj *batchv1.Job, e *lab.AuditEvent) {
	j.released = j.released || !clusters.Unreleased(obj)
	j.pods = append(j.pods, readiness{e.Received, ptr.Deref(obj.Status.Ready, 0), ptr.Deref(obj.Spec.Completions, 0)})
	for _, c := range obj.Status.Conditions {
		if c.Status != corev1.ConditionTrue || !ends(obj, c.Type) || !j.finished.IsZero() {
			continue
		}
		j.finished, j.succeeded = e.Received, c.Type == batchv1.JobComplete
		if e.Object.Subresource != "status" {
			j.finished = c.LastTransitionTime.Time // the request that made it so is in no log
		}
	}
	if obj.DeletionTimestamp == nil {
		return
	}
	j.deleting = first(j.deleting, e.Received)
	if len(obj.Finalizers) == 0 {
		j.removed = first(j.removed, e.Received)
	}
}

func (h *history) readSupport(cluster string, e *lab.AuditEvent) {
	var obj struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Data     map[string]string `json:"data"`
	}
	if json.Unmarshal(e.ResponseObject, &obj) != nil || obj.Metadata.UID == "" {
		return
	}
	if cluster != hubName {
		h.readRecord(cluster, e.Received, obj.Data["runs"])
		h.support[obj.Metadata.UID] = types.UID(obj.Metadata.Annotations[v1alpha1.AnnotationOwnerUID])
	} else if cert, err := base64.StdEncoding.DecodeString(obj.Data["curve.cert"]); err == nil && len(cert) > 0 && !slices.Contains(h.certs, string(cert)) {
		h.certs = append(h.certs, string(cert))
	}
}

// readRecord notes which Jobs' runs a member has on record.
func (h *history) readRecord(cluster string, at time.Time, text string) {
	var ended []v1alpha1.EndedRun
	if json.Unmarshal([]byte(text), &ended) != nil {
		return
	}
	for _, j := range h.jobs {
		if j.member == cluster && runs.FindEnded(ended, j.run) != nil {
			j.recorded = first(j.recorded, at)
		}
	}
}

func (h *history) readFleet(e *lab.AuditEvent) {
	obj := &v1alpha1.FleetMiniCluster{}
	if !answer(e, "FleetMiniCluster", obj) || obj.UID == "" {
		return
	}
	var request struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	base := uint64(0)
	if e.Verb == "update" && json.Unmarshal(e.RequestObject, &request) == nil {
		base, _ = strconv.ParseUint(request.Metadata.ResourceVersion, 10, 64) // 0: not known
	}
	h.addVersion(e.Received, obj, base)
	if e.Write() && e.User.Username != hubUser && e.Object.Subresource == "status" && request.Metadata.ResourceVersion != obj.ResourceVersion {
		h.fleets[obj.UID].noteEdit(obj.ResourceVersion)
	}
}

// noteEdit notes that somebody has made the status of a version.
func (f *fmc) noteEdit(resourceVersion string) {
	for i := range f.versions {
		if f.versions[i].object.ResourceVersion == resourceVersion {
			f.versions[i].edited = true
		}
	}
}

// markEdits finds which versions have the status that somebody has left them, and what that has changed.
func (f *fmc) markEdits() {
	for i := range f.versions {
		v := &f.versions[i]
		switch {
		case v.edited:
			f.lost = true
			if i > 0 {
				f.noteEdits(&f.versions[i-1], v)
			}
		case i > 0 && f.versions[i-1].edited:
			v.edited = v.object.UID == f.versions[i-1].object.UID && equality.Semantic.DeepEqual(v.object.Status, f.versions[i-1].object.Status)
		}
	}
}

func (f *fmc) noteEdits(before, after *version) {
	ledger := runs.Ledger(before.object.Status.Runs)
	for _, r := range after.object.Status.Runs {
		if was := ledger.Find(r.ID); was == nil || was.State != r.State || was.Digest != r.Digest {
			f.edits = append(f.edits, editedLine{r.ID, after.at})
		}
	}
}

// inherit has those that were created anew, by the UID of the former, go on with its history.
func (h *history) inherit(heirs map[types.UID]types.UID) {
	for old := range heirs {
		former, heir := h.fleets[old], h.fleets[heirOf(heirs, old)]
		if former == nil || former == heir {
			continue
		}
		former.lost = true
		if heir == nil {
			h.fleets[heirOf(heirs, old)] = former
			continue
		}
		heir.lost, heir.cut, heir.versions = true, append(heir.cut, former.cut...), append(heir.versions, former.versions...)
		slices.SortFunc(heir.versions, func(a, b version) int { return compare(a.number, b.number) })
		for uid, f := range h.fleets {
			if f == former {
				h.fleets[uid] = heir
			}
		}
	}
}

// heirOf is the UID that one has in the end.
func heirOf(heirs map[types.UID]types.UID, uid types.UID) types.UID {
	for heirs[uid] != "" {
		uid = heirs[uid]
	}
	return uid
}

// all are the FleetMiniClusters, each once.
func (h *history) all() []*fmc {
	byUID := map[types.UID]*fmc{}
	for _, f := range h.fleets {
		byUID[f.uid] = f
	}
	return slices.Collect(maps.Values(byUID))
}

func (h *history) addVersion(at time.Time, obj *v1alpha1.FleetMiniCluster, base uint64) {
	f := h.fleets[obj.UID]
	if f == nil {
		f = &fmc{name: obj.Name, uid: obj.UID}
		h.fleets[obj.UID] = f
	}
	number, err := strconv.ParseUint(obj.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	if base == number {
		base = 0 // nothing was changed
	}
	v := version{at: at, number: number, base: base, object: obj}
	i, found := slices.BinarySearchFunc(f.versions, v, func(a, b version) int { return compare(a.number, b.number) })
	if !found {
		f.versions = slices.Insert(f.versions, i, v)
		return
	}
	f.versions[i].base = max(f.versions[i].base, base)
	if at.Before(f.versions[i].at) {
		f.versions[i].at = at
	}
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// secretForms are the ways in which a secret may be written.
func secretForms(secret string) [][]byte {
	escaped, _ := json.Marshal(secret)
	return [][]byte{[]byte(secret), bytes.Trim(escaped, `"`), []byte(base64.StdEncoding.EncodeToString([]byte(secret)))}
}

// logs are what MiniFleet has written to its standard output and error.
func (f *fleet) logs() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, p := range f.hubs {
		body, err := os.ReadFile(p.LogPath())
		if err != nil {
			return nil, err
		}
		out[p.Name] = body
	}
	return out, nil
}
