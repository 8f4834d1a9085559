package soak

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// story is a history in the making. Times are seconds.
type story struct {
	*history
	logs map[string][]byte
}

func newStory() *story { return &story{newHistory(), map[string][]byte{}} }

func second(n int) time.Time { return time.Unix(int64(n), 0) }

// wanted says that a FleetMiniCluster with numberOfClusters 1 was as it is changed to here since a time.
func (s *story) wanted(at int, changes ...func(*v1alpha1.FleetMiniCluster)) *story {
	obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Name: "app", UID: "owner", ResourceVersion: fmt.Sprint(at)}}
	obj.Spec.Placement = &v1alpha1.PlacementSpec{NumberOfClusters: ptr.To[int32](1)}
	obj.Spec.MiniCluster = fluxv1alpha2.MiniClusterSpec{Size: 1, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "x", Command: "first"}}}
	for _, change := range changes {
		change(obj)
	}
	s.addVersion(second(at), obj, 0)
	return s
}

// writing says that MiniFleet was killed at a time while it made that of the FleetMiniCluster.
func (s *story) writing(at int, changes ...func(*v1alpha1.FleetMiniCluster)) *story {
	obj := newStory().wanted(at, changes...).fleets["owner"].versions[0].object
	body, _ := json.Marshal(obj) // a FleetMiniCluster can be encoded
	e := lab.AuditEvent{Verb: "update", Received: second(at), RequestObject: body}
	e.Object = s.wrote(at, "update", "fleetminiclusters", "", "{}").writes[len(s.writes)-1].event.Object
	s.writes = s.writes[:len(s.writes)-1]
	e.Response.Code = 504
	s.read(hubName, []lab.AuditEvent{e})
	return s
}

// since says that MiniFleet has made the latest version out of the one of that time.
func (s *story) since(base int) *story {
	versions := s.fleets["owner"].versions
	versions[len(versions)-1].base = uint64(base)
	return s
}

func changed(f *v1alpha1.FleetMiniCluster)    { f.Spec.MiniCluster.Containers[0].Command = "another" }
func everywhere(f *v1alpha1.FleetMiniCluster) { f.Spec.Placement.NumberOfClusters = nil }
func replacing(f *v1alpha1.FleetMiniCluster)  { f.Spec.OnChange = v1alpha1.Replace }
func suspended(f *v1alpha1.FleetMiniCluster)  { f.Spec.Suspend = true }
func removed(f *v1alpha1.FleetMiniCluster)    { f.DeletionTimestamp = &metav1.Time{Time: second(1)} }
func retried(f *v1alpha1.FleetMiniCluster)    { f.Spec.Retries = 1 }
func cancelling(f *v1alpha1.FleetMiniCluster) {
	f.Annotations = map[string]string{v1alpha1.AnnotationCancel: "run-1"}
}

// ledger says that it has a line, of run-1, which was seen.
func ledger(state v1alpha1.RunState) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		f.Status.Runs = append(f.Status.Runs, v1alpha1.Run{ID: "run-1", Cluster: "alpine", State: state, JobUID: "job"})
	}
}

func cancelledLine(f *v1alpha1.FleetMiniCluster) { f.Status.Runs[0].Stop = v1alpha1.StopCancelled }

func drainedLine(f *v1alpha1.FleetMiniCluster) {
	f.Status.Runs[0].Stop = v1alpha1.StopDrained
	f.Status.Runs[0].Digest = newStory().wanted(1).fleets["owner"].versions[0].wish().digest
}

// drained says that alpine was drained from one time to another.
func (s *story) drained(from, to int) *story {
	s.drains["alpine"] = []drain{{second(from), true}, {second(to), false}}
	return s
}

// ran says that a Job for the first command was on a member from one time to another (0: it never ended).
func (s *story) ran(run, member string, from, to int, changes ...func(*job)) *story {
	first := newStory().wanted(1).fleets["owner"].versions[0].wish()
	j := &job{
		name: "app", uid: types.UID(fmt.Sprint("uid-", len(s.jobs))), owner: "owner", run: run, member: member,
		creates: 1, created: second(from), seen: second(1000), wish: first, released: true, succeeded: true,
	}
	if to > 0 {
		j.finished = second(to)
	}
	for _, change := range changes {
		change(j)
	}
	s.jobs[j.uid] = j
	return s
}

// heir says that it was created anew at a time, after its finalizer was taken off.
func (s *story) heir(at int) *story {
	obj := s.fleets["owner"].versions[0].object.DeepCopy()
	obj.UID, obj.ResourceVersion = "heir", fmt.Sprint(at)
	s.addVersion(second(at), obj, 0)
	s.inherit(map[types.UID]types.UID{"owner": "heir"})
	return s
}

// edited says that somebody has made the status of the latest version.
func (s *story) edited() *story {
	versions := s.fleets["owner"].versions
	versions[len(versions)-1].edited = true
	s.fleets["owner"].markEdits()
	return s
}

func rerun(f *v1alpha1.FleetMiniCluster) {
	f.Annotations = map[string]string{v1alpha1.AnnotationRerunAt: "again"}
}

func ofHeir(j *job)  { j.owner = "heir" }
func byToken(j *job) { j.wish.token = "again" }

func unreleased(j *job)   { j.released = false }
func createdTwice(j *job) { j.creates = 2 }
func ofAnother(j *job) {
	j.wish = newStory().wanted(1, changed).fleets["owner"].versions[0].wish()
}
func lostAt(n int) func(*job) { return func(j *job) { j.finished, j.seen = time.Time{}, second(n) } }
func unsuccessful(j *job)     { j.succeeded = false }
func removedAt(n int) func(*job) {
	return func(j *job) { j.deleting, j.removed = second(n), second(n) }
}

// wrote is a request of MiniFleet's about the first object of the story.
func (s *story) wrote(at int, verb, resource, uid, body string) *story {
	e := lab.AuditEvent{Verb: verb, Received: second(at), RequestObject: json.RawMessage(body)}
	object := struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		UID         string `json:"uid"`
	}{Resource: resource}
	e.Object = &object
	e.ResponseObject = fmt.Appendf(nil, `{"metadata":{"uid":%q}}`, uid)
	s.writes = append(s.writes, write{cluster: "alpine", event: e})
	return s
}

// asks says that a controller, which bears a name, has sent a request about an object of a resource to a cluster.
func (s *story) asks(agent, cluster, verb, resource, name string) *story {
	s.shards = divided
	e := s.wrote(1, verb, resource, "", "{}").writes[len(s.writes)-1].event
	s.writes = s.writes[:len(s.writes)-1]
	e.UserAgent, e.Object.Name, e.User.Username, e.Response.Code = agent, name, hubUser, 403
	s.read(cluster, []lab.AuditEvent{e})
	return s
}

// notes says that the controller of west has updated the status of MemberCluster basalt, of east, as it is changed to here.
func (s *story) notes(change func(*v1alpha1.MemberClusterStatus)) *story {
	s.shards = divided
	m := &v1alpha1.MemberCluster{TypeMeta: metav1.TypeMeta{Kind: "MemberCluster"}, ObjectMeta: metav1.ObjectMeta{Name: basalt, ResourceVersion: "1"}}
	m.Status.ClusterUID = "c"
	for i, agent := range []string{"minifleet/east", "minifleet/west"} {
		sent, _ := json.Marshal(m) // it can be encoded
		if i > 0 {
			change(&m.Status)
			m.ResourceVersion = "2"
		}
		answered, _ := json.Marshal(m)
		e := s.wrote(i, "update", "memberclusters", "", string(sent)).writes[len(s.writes)-1].event
		s.writes = s.writes[:len(s.writes)-1]
		e.UserAgent, e.Object.Name, e.Object.Subresource, e.User.Username, e.Response.Code, e.ResponseObject = agent, basalt, "status", hubUser, 200, answered
		s.read(hubName, []lab.AuditEvent{e})
	}
	return s
}

// orphaning has something be left of FleetMiniClusters.
func orphaning(names ...string) func(*v1alpha1.MemberClusterStatus) {
	return func(s *v1alpha1.MemberClusterStatus) {
		for _, name := range names {
			s.Orphans = append(s.Orphans, v1alpha1.Orphan{UID: "u", Name: name})
		}
	}
}

// deletedBy says that somebody has deleted a Job at 3, which was gone at 4.
func deletedBy(user string) func(*job) {
	return func(j *job) {
		j.deleter, j.deleting, j.removed, j.succeeded = user, second(3), second(4), false
	}
}

// deleted says that MiniFleet deleted the first Job at 4.
func (s *story) deleted() *story {
	return s.wrote(4, "delete", "jobs", "uid-0", `{"preconditions":{"uid":"uid-0"}}`)
}

// away says that alpine could not be asked from one time to another, and was let go of then if it was cleared.
func (s *story) away(from, to int, cleared bool) *story {
	s.members["alpine"] = []member{{at: second(0), ready: true, registered: true}, {at: second(from), registered: !cleared, cleared: cleared}, {at: second(to), ready: true, registered: true}}
	return s
}

// moved says why run-1, whose line is there, was stopped.
func moved(why v1alpha1.StopReason) func(*v1alpha1.FleetMiniCluster) {
	return func(f *v1alpha1.FleetMiniCluster) {
		drainedLine(f)
		f.Status.Runs[0].Stop = why
	}
}

func patient(f *v1alpha1.FleetMiniCluster) {
	f.Spec.Placement.PendingTimeout = &metav1.Duration{Duration: time.Minute}
}

func failingOver(f *v1alpha1.FleetMiniCluster) {
	f.Spec.Placement.Failover = &v1alpha1.Failover{AfterSeconds: 10, Fencing: v1alpha1.FenceProvenGone}
}

func withPods(ready int32) func(*job) {
	return func(j *job) { j.pods = []readiness{{at: j.created, ready: ready, size: 2}} }
}

func (s *story) belongs(uid string) *story { s.support[types.UID(uid)] = "owner"; return s }

// TestInvariants makes sure that each of them can fail, and does not where there is no reason to.
func TestInvariants(t *testing.T) {
	const size = `{"spec":{"suspend":false}}`
	const suspend = `{"spec":{"suspend":true}}`
	cases := map[string]struct {
		story *story
		wrong string // which invariants are violated, or none
	}{
		"one run":                  {newStory().wanted(1).ran("run-1", "alpine", 2, 3), ""},
		"a run with two Jobs":      {newStory().wanted(1, everywhere).ran("run-1", "alpine", 2, 3).ran("run-1", "basalt", 2, 3), "D1"},
		"a Job that is made twice": {newStory().wanted(1).ran("run-1", "alpine", 2, 3, createdTwice), "D1"},

		"moved before the first has ended": {newStory().wanted(1).wanted(3, changed).ran("run-1", "alpine", 2, 9).ran("run-2", "basalt", 4, 6, ofAnother), "D2"},
		"moved after the first has ended":  {newStory().wanted(1).wanted(3, changed).ran("run-1", "alpine", 2, 4).ran("run-2", "basalt", 5, 6, ofAnother), ""},
		"moved after the first was gone":   {newStory().wanted(1).wanted(3, changed).ran("run-1", "alpine", 2, 0, removedAt(4)).ran("run-2", "basalt", 5, 6, ofAnother), ""},
		"moved, and the end is in no log":  {newStory().wanted(1).wanted(3, changed).ran("run-1", "alpine", 2, 9, lostAt(4)).ran("run-2", "basalt", 5, 6, ofAnother), ""},
		"beside it on another member":      {newStory().wanted(1, everywhere).ran("run-1", "alpine", 2, 5).ran("run-2", "basalt", 2, 5), ""},

		"repeated":                     {newStory().wanted(1).ran("run-1", "alpine", 2, 3).ran("run-2", "alpine", 4, 5), "D3 D5"},
		"repeated on another member":   {newStory().wanted(1).ran("run-1", "alpine", 2, 3).ran("run-2", "basalt", 4, 5), "D3 D5"},
		"repeated as it was asked to":  {newStory().wanted(1, retried).ran("run-1", "alpine", 2, 3, unsuccessful).ran("run-2", "alpine", 4, 5), ""},
		"repeated too often":           {newStory().wanted(1, retried).ran("run-1", "alpine", 2, 3, unsuccessful).ran("run-2", "alpine", 4, 5, unsuccessful).ran("run-3", "alpine", 6, 7), "D3"},
		"wished again":                 {newStory().wanted(1).wanted(4, changed).wanted(5).ran("run-1", "alpine", 2, 3).ran("run-2", "alpine", 6, 7), "D5"},
		"wished again after it failed": {newStory().wanted(1).wanted(4, changed).wanted(5).ran("run-1", "alpine", 2, 3, unsuccessful).ran("run-2", "alpine", 6, 7), ""},
		"wished again, and asked for":  {newStory().wanted(1).wanted(4, rerun).ran("run-1", "alpine", 2, 3).ran("run-2", "alpine", 6, 7, byToken), ""},
		"repeated by an heir":          {newStory().wanted(1).heir(4).ran("run-1", "alpine", 2, 3).ran("run-2", "basalt", 6, 7, ofHeir), "D3 D5"},
		"live beside an heir":          {newStory().wanted(1).heir(4).ran("run-1", "alpine", 2, 9).ran("run-2", "basalt", 6, 7, ofHeir), "D2 D3"},
		"repeated once it is emptied":  {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunSucceeded)).wanted(4).edited().ran("run-1", "alpine", 2, 3).ran("run-2", "alpine", 6, 7), "D3 D5"},
		"repeated, and forgotten":      {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunSucceeded)).wanted(4).edited().away(3, 5, true).ran("run-1", "alpine", 2, 3).ran("run-1", "alpine", 6, 7), ""},
		"repeated under the same id":   {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunSucceeded)).wanted(4).edited().ran("run-1", "alpine", 2, 3).ran("run-1", "alpine", 6, 7), "D1 D3 D5"},
		"deleted by an edit":           {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunReplaced)).edited().ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"never wished":                 {newStory().wanted(1).ran("run-1", "alpine", 2, 3, ofAnother), "D3"},
		"a late request":               {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunReplaced)).ran("run-1", "alpine", 3, 4, unsuccessful).ran("run-2", "alpine", 5, 6), "D3"},
		"one that is never released":   {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunReplaced)).ran("run-1", "alpine", 3, 4, unreleased).ran("run-2", "alpine", 5, 6), ""},

		"written ahead":      {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunStarting)).since(1).ran("run-1", "alpine", 3, 4), ""},
		"written afterwards": {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunRunning)).since(1).ran("run-1", "alpine", 2, 4), "D4"},
		"nobody knows when":  {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunRunning)).ran("run-1", "alpine", 2, 4), ""},

		"deleted live":                 {newStory().wanted(1).ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"deleted, and never released":  {newStory().wanted(1).ran("run-1", "alpine", 2, 9, unreleased).deleted(), ""},
		"deleted after it has ended":   {newStory().wanted(1).ran("run-1", "alpine", 2, 3).deleted(), ""},
		"deleted with its owner":       {newStory().wanted(1).wanted(3, removed).ran("run-1", "alpine", 2, 9).deleted(), ""},
		"deleted before its owner":     {newStory().wanted(1).wanted(5, removed).ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"replaced":                     {newStory().wanted(1).wanted(3, replacing, changed, ledger(v1alpha1.RunStopping)).ran("run-1", "alpine", 2, 9).deleted(), ""},
		"replaced unasked":             {newStory().wanted(1).wanted(3, changed, ledger(v1alpha1.RunStopping)).ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"replaced without a change":    {newStory().wanted(1).wanted(3, replacing, ledger(v1alpha1.RunStopping)).ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"replaced before it is said":   {newStory().wanted(1).wanted(3, replacing, changed).ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"replaced, and cut off":        {newStory().wanted(1).wanted(2, replacing, changed).writing(3, replacing, changed, ledger(v1alpha1.RunStopping)).ran("run-1", "alpine", 2, 9).deleted(), ""},
		"cancelled":                    {newStory().wanted(1).wanted(3, cancelling, ledger(v1alpha1.RunStopping), cancelledLine).ran("run-1", "alpine", 2, 9).deleted(), ""},
		"cancelled unasked":            {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunStopping), cancelledLine).ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"suspended":                    {newStory().wanted(1).wanted(3, suspended).ran("run-1", "alpine", 2, 9).wrote(4, "patch", "jobs", "uid-0", suspend), ""},
		"suspended unasked":            {newStory().wanted(1).ran("run-1", "alpine", 2, 9).wrote(4, "patch", "jobs", "uid-0", suspend), "U1"},
		"resized":                      {newStory().wanted(1).ran("run-1", "alpine", 2, 9).wrote(4, "patch", "jobs", "uid-0", size), ""},
		"drained":                      {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunStopping), drainedLine).drained(2, 9).ran("run-1", "alpine", 2, 9).deleted(), ""},
		"drained before it began":      {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunStopping), drainedLine).drained(0, 1).ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"drained, and not written":     {newStory().wanted(1).drained(2, 9).ran("run-1", "alpine", 2, 9).deleted(), "U1"},
		"made up for a drain":          {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunReplaced), drainedLine).ran("run-1", "alpine", 2, 3).ran("run-2", "alpine", 5, 6), ""},
		"made up for twice":            {newStory().wanted(1).wanted(3, ledger(v1alpha1.RunReplaced), drainedLine).ran("run-1", "alpine", 2, 3).ran("run-2", "alpine", 5, 6, unsuccessful).ran("run-3", "alpine", 7, 8), "D3"},
		"withdrawn":                    {newStory().wanted(1).wanted(30, patient, ledger(v1alpha1.RunStopping), moved(v1alpha1.StopNotStarted)).ran("run-1", "alpine", 2, 40, withPods(1)).ran("run-2", "basalt", 50, 60), ""},
		"withdrawn unasked":            {newStory().wanted(1).wanted(30, ledger(v1alpha1.RunStopping), moved(v1alpha1.StopNotStarted)).ran("run-1", "alpine", 2, 40), "U5"},
		"withdrawn, and it runs":       {newStory().wanted(1).wanted(30, patient, ledger(v1alpha1.RunStopping), moved(v1alpha1.StopNotStarted)).ran("run-1", "alpine", 2, 40, withPods(2)), "U5"},
		"lost with its nodes":          {newStory().wanted(1).wanted(30, failingOver, ledger(v1alpha1.RunStopping), moved(v1alpha1.StopLost)).ran("run-1", "alpine", 2, 40, withPods(0)), ""},
		"lost, and it runs":            {newStory().wanted(1).wanted(30, failingOver, ledger(v1alpha1.RunStopping), moved(v1alpha1.StopLost)).ran("run-1", "alpine", 2, 40, withPods(1)), "U5"},
		"made up for unasked":          {newStory().wanted(1).wanted(30, ledger(v1alpha1.RunReplaced), moved(v1alpha1.StopLost)).ran("run-1", "alpine", 2, 20).ran("run-2", "basalt", 50, 60), "U5"},
		"given up, and away":           {newStory().wanted(1).wanted(30, ledger(v1alpha1.RunReplaced), moved(v1alpha1.StopDeclaredGone)).away(20, 80, false).ran("run-1", "alpine", 2, 90).ran("run-2", "basalt", 50, 60), ""},
		"given up under a live member": {newStory().wanted(1).wanted(30, ledger(v1alpha1.RunReplaced), moved(v1alpha1.StopDeclaredGone)).away(80, 90, false).ran("run-1", "alpine", 2, 25), "U5"},
		"let go of, and live":          {newStory().wanted(1).away(20, 80, true).ran("run-1", "alpine", 2, 40), "U6"},
		"let go of afterwards":         {newStory().wanted(1).away(60, 80, true).ran("run-1", "alpine", 2, 40), ""},
		"called failed, and it is not": {newStory().wanted(1).wanted(5, ledger(v1alpha1.RunFailed)).ran("run-1", "alpine", 2, 9), "U2"},
		"called succeeded, but failed": {newStory().wanted(1).wanted(5, ledger(v1alpha1.RunSucceeded)).ran("run-1", "alpine", 2, 3, unsuccessful), "U2"},
		"called failed, but succeeded": {newStory().wanted(1).wanted(5, ledger(v1alpha1.RunFailed)).ran("run-1", "alpine", 2, 3), "U2"},
		"succeeded, and then deleted":  {newStory().wanted(1).wanted(5, ledger(v1alpha1.RunFailed)).ran("run-1", "alpine", 2, 3, removedAt(4)), ""},
		"deleted, and its lead succeeded": {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunRunning)).wanted(6, ledger(v1alpha1.RunSucceeded)).
			ran("run-1", "alpine", 2, 0, deletedBy("admin"), func(j *job) { j.leadSucceeded = second(5) }), ""},
		"deleted, and its lead had not by then": {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunRunning)).wanted(6, ledger(v1alpha1.RunSucceeded)).
			ran("run-1", "alpine", 2, 0, deletedBy("admin"), func(j *job) { j.leadSucceeded = second(7) }), "U2"},
		"called what it is":                  {newStory().wanted(1).wanted(5, ledger(v1alpha1.RunSucceeded)).ran("run-1", "alpine", 2, 3), ""},
		"a shard reads a member":             {newStory().asks("minifleet/west", "cobalt", "list", "jobs", ""), ""},
		"a shard reads another's member":     {newStory().asks("minifleet/west", "alpine", "list", "jobs", ""), "A1"},
		"one without a shard reads a member": {newStory().asks("minifleet", "alpine", "list", "jobs", ""), "A1"},
		"a shard changes its object":         {newStory().asks("minifleet/east", hubName, "update", "fleetminiclusters", "ant"), ""},
		"a shard reads another's object":     {newStory().asks("minifleet/east", hubName, "get", "fleetminiclusters", "fox"), ""},
		"a shard changes another's object":   {newStory().asks("minifleet/east", hubName, "update", "fleetminiclusters", "fox"), "A2"},
		"a shard changes another's member":   {newStory().asks("minifleet/west", hubName, "patch", "memberclusters", "basalt"), "A2"},

		"a shard notes what is left":      {newStory().notes(orphaning("fox")), ""},
		"a shard notes what is another's": {newStory().notes(orphaning("fox", "ant")), "A2"},
		"a shard notes more than that": {newStory().notes(func(s *v1alpha1.MemberClusterStatus) {
			orphaning("fox")(s)
			s.ClusterUID = "d"
		}), "A2"},

		"deleted by a person, and the ledger is lost": {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunRunning)).wanted(5).edited().
			ran("run-1", "alpine", 2, 0, deletedBy("admin")).ran("run-1", "alpine", 6, 7), ""},
		"deleted by a person, and the ledger has said so": {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunRunning)).wanted(4, ledger(v1alpha1.RunFailed)).wanted(5).edited().
			ran("run-1", "alpine", 2, 0, deletedBy("admin")).ran("run-1", "alpine", 6, 7), "D1 D3"},
		"deleted by a person, and on record": {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunRunning)).wanted(5).edited().
			ran("run-1", "alpine", 2, 0, deletedBy("admin"), func(j *job) { j.recorded = second(4) }).ran("run-1", "alpine", 6, 7), "D1 D3"},
		"deleted by a person, and on record too late": {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunRunning)).wanted(5).edited().
			ran("run-1", "alpine", 2, 0, deletedBy("admin"), func(j *job) { j.recorded = second(6) }).ran("run-1", "alpine", 6, 7), ""},
		"deleted by MiniFleet, and the ledger is lost": {newStory().wanted(1).wanted(2, ledger(v1alpha1.RunRunning)).wanted(5).edited().
			ran("run-1", "alpine", 2, 0, deletedBy(hubUser)).ran("run-1", "alpine", 6, 7), "D1 D3"},

		"scripts torn away":          {newStory().wanted(1).belongs("cm").ran("run-1", "alpine", 2, 9).wrote(4, "delete", "configmaps", "cm", "{}"), "U3"},
		"scripts removed afterwards": {newStory().wanted(1).belongs("cm").ran("run-1", "alpine", 2, 3).wrote(4, "delete", "configmaps", "cm", "{}"), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, invariant := range invariants {
				found := invariant.check(c.story.history)
				expected := slices.ContainsFunc(strings.Fields(c.wrong), func(w string) bool { return strings.HasPrefix(invariant.name, w) })
				if expected != (len(found) > 0) {
					t.Errorf("%s: %q", invariant.name, found)
				}
			}
		})
	}
}

func TestLeaks(t *testing.T) {
	const key = "Yi3<wd%?5t&fP#z" // with characters that JSON escapes
	const cert = `curve\n    secret-key = "` + key + `"\n`
	cases := map[string]struct {
		story *story
		leaks bool
	}{
		"in a Secret":                       {newStory().wrote(1, "create", "secrets", "", `{"data":"`+canary+`"}`), false},
		"a canary in a ConfigMap":           {newStory().wrote(1, "create", "configmaps", "", `{"data":"`+canary+`"}`), true},
		"a key in an event":                 {newStory().wrote(1, "create", "events", "", `{"note":"the key is `+key+`"}`), true},
		"a key in a status, as JSON has it": {newStory().wrote(1, "update", "fleetminiclusters", "", `{"message":"Yi3\u003cwd%?5t\u0026fP#z"}`), true},
		"a canary in base64":                {newStory().wrote(1, "create", "jobs", "", `{"env":"Y2FuYXJ5LTVmMmE5MWMwN2QzZTQ4YjY="}`), true},
		"a key in a log":                    {newStory().printed("all is well\nread " + key + "\n"), true},
		"nothing of the kind":               {newStory().printed("all is well\n").wrote(1, "create", "configmaps", "", `{"data":"x"}`), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.story.certs = []string{strings.ReplaceAll(cert, `\n`, "\n")}
			if found := c.story.leaks(c.story.logs); (len(found) > 0) != c.leaks {
				t.Errorf("found %q", found)
			}
		})
	}
}

func (s *story) printed(log string) *story { s.logs["minifleet-1"] = []byte(log); return s }
