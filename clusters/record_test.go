package clusters

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

func TestParseEnded(t *testing.T) {
	many := make([]v1alpha1.EndedRun, v1alpha1.MaxEndedRuns+3)
	for i := range many {
		many[i] = v1alpha1.EndedRun{ID: fmt.Sprintf("%010x", i), Digest: "1", State: v1alpha1.RunSucceeded}
	}
	tooMany, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		text string
		want int
	}{
		"nothing":         {"", 0},
		"not JSON":        {"[{", 0},
		"not a list":      {`{"id":"0123456789"}`, 0},
		"one":             {`[{"id":"0123456789","digest":"1","state":"Succeeded"}]`, 1},
		"no id":           {`[{"digest":"1","state":"Succeeded"}]`, 0},
		"a hostile id":    {`[{"id":"../../etc","digest":"1","state":"Succeeded"}]`, 0},
		"not ended":       {`[{"id":"0123456789","digest":"1","state":"Running"}]`, 0},
		"being deleted":   {`[{"id":"0123456789","digest":"1","state":"Running","stop":"Deleted","completionTime":"2026-01-01T00:00:00Z"}]`, 1},
		"at no time":      {`[{"id":"0123456789","digest":"1","state":"Running","stop":"Deleted"}]`, 0},
		"no such state":   {`[{"id":"0123456789","digest":"1","state":"Won"}]`, 0},
		"a long digest":   {`[{"id":"0123456789","digest":"` + strings.Repeat("1", 65) + `","state":"Succeeded"}]`, 0},
		"a long revision": {`[{"id":"0123456789","digest":"1","state":"Succeeded","revision":"` + strings.Repeat("1", 254) + `"}]`, 0},
		"stopped":         {`[{"id":"0123456789","digest":"1","state":"Failed","stop":"Deleted","attempt":2}]`, 1},
		"no such reason":  {`[{"id":"0123456789","digest":"1","state":"Failed","stop":"Bored"}]`, 0},
		"no attempt":      {`[{"id":"0123456789","digest":"1","state":"Failed","attempt":-1}]`, 0},
		"too many":        {string(tooMany), v1alpha1.MaxEndedRuns},
		"too large":       {"[" + strings.Repeat(" ", maxRecord) + "]", 0},
	}
	for name, c := range cases {
		if got := parseEnded(c.text); len(got) != c.want {
			t.Errorf("%s: got %d", name, len(got))
		}
	}
}

// A run that has ended in a namespace to which its FleetMiniCluster has returned counts in all.
func TestMergeEnded(t *testing.T) {
	at := func(id string, state v1alpha1.RunState, minutes int) v1alpha1.EndedRun {
		return v1alpha1.EndedRun{ID: id, State: state, CompletionTime: &metav1.Time{Time: time.Unix(int64(minutes)*60, 0)}}
	}
	a, b, c := at("a", v1alpha1.RunSucceeded, 1), at("b", v1alpha1.RunFailed, 2), at("c", v1alpha1.RunSucceeded, 3)
	deleting := func(e v1alpha1.EndedRun) v1alpha1.EndedRun {
		e.State, e.Stop = v1alpha1.RunRunning, v1alpha1.StopDeleted
		return e
	}
	cases := map[string]struct{ first, second, want []v1alpha1.EndedRun }{
		"none elsewhere":             {nil, []v1alpha1.EndedRun{c, a}, []v1alpha1.EndedRun{c, a}},
		"all elsewhere":              {[]v1alpha1.EndedRun{a, b}, nil, []v1alpha1.EndedRun{a, b}},
		"later ones elsewhere":       {[]v1alpha1.EndedRun{a, c}, []v1alpha1.EndedRun{a, b}, []v1alpha1.EndedRun{a, b, c}},
		"it has succeeded elsewhere": {[]v1alpha1.EndedRun{at("b", v1alpha1.RunSucceeded, 2)}, []v1alpha1.EndedRun{b}, []v1alpha1.EndedRun{at("b", v1alpha1.RunSucceeded, 2)}},
		"it was being deleted":       {[]v1alpha1.EndedRun{b}, []v1alpha1.EndedRun{deleting(b)}, []v1alpha1.EndedRun{b}},
		"it has failed elsewhere":    {[]v1alpha1.EndedRun{at("a", v1alpha1.RunFailed, 1)}, []v1alpha1.EndedRun{a}, []v1alpha1.EndedRun{a}},
	}
	for name, c := range cases {
		if diff := cmp.Diff(c.want, mergeEnded(c.first, c.second)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSuspensionOfStrippedJob(t *testing.T) {
	job := func(suspend bool, change ...func(*batchv1.Job)) *batchv1.Job {
		j := &batchv1.Job{Spec: batchv1.JobSpec{Suspend: ptr.To(suspend)}}
		for _, c := range change {
			c(j)
		}
		return j
	}
	started := func(j *batchv1.Job) { j.Status.StartTime = ptr.To(metav1.Now()) }
	cases := map[string]struct {
		job  *batchv1.Job
		want string
	}{
		"never released":  {job(true), v1alpha1.SuspendedUnreleased},
		"suspended by us": {job(true, started), "true"},
		"it runs":         {job(false, started), "false"},
		"in a queue": {job(true, func(j *batchv1.Job) {
			j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "q"}
		}), "false"},
		"it still says so": {job(true, started, func(j *batchv1.Job) {
			j.Annotations = map[string]string{v1alpha1.AnnotationSuspended: v1alpha1.SuspendedUnreleased}
		}), v1alpha1.SuspendedUnreleased},
	}
	for name, c := range cases {
		if got := SuspensionOf(c.job); got != c.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestMarks(t *testing.T) {
	origin := fleet.Origin{FleetID: "f", Owner: "hpc/n", OwnerUID: "u"}
	marks := MarksOf("n", origin, &v1alpha1.Run{ID: "0123456789", Digest: "1", RerunAt: "t"}, "")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Labels: marks.Labels, Annotations: marks.Annotations}}
	if !marks.On(job) || Stripped(job, origin) {
		t.Error("a Job that bears them does not")
	}
	delete(job.Labels, v1alpha1.LabelRun)
	if job.Labels = map[string]string{}; marks.On(job) {
		t.Error("a Job without labels bears them")
	}
	if job.Annotations = nil; !Stripped(job, origin) {
		t.Error("a Job without annotations is not stripped")
	}
}

func TestLead(t *testing.T) {
	now := metav1.Now()
	pod := func(name string, phase corev1.PodPhase, deleted *metav1.Time) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, DeletionTimestamp: deleted}, Status: corev1.PodStatus{Phase: phase}}
	}
	cases := map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"none":                    {nil, ""},
		"succeeded":               {[]corev1.Pod{pod("a", corev1.PodSucceeded, nil)}, "a"},
		"succeeded, and deleted":  {[]corev1.Pod{pod("a", corev1.PodSucceeded, &now)}, "a"},
		"failed":                  {[]corev1.Pod{pod("a", corev1.PodFailed, nil)}, "a"},
		"failed since deleted":    {[]corev1.Pod{pod("a", corev1.PodFailed, &now)}, ""},
		"one lost, one succeeded": {[]corev1.Pod{pod("a", corev1.PodFailed, nil), pod("b", corev1.PodSucceeded, nil)}, "b"},
		"one deleted, one failed": {[]corev1.Pod{pod("a", corev1.PodFailed, &now), pod("b", corev1.PodFailed, nil)}, "b"},
	}
	for name, c := range cases {
		got := ""
		if p := lead(c.pods); p != nil {
			got = p.Name
		}
		if got != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// Nobody looks for the pods of a run in a namespace that its FleetMiniCluster is not in any more.
func TestOverElsewhere(t *testing.T) {
	ended := v1alpha1.EndedRun{ID: "a", State: v1alpha1.RunSucceeded}
	deleting := v1alpha1.EndedRun{ID: "b", State: v1alpha1.RunRunning, Stop: v1alpha1.StopDeleted}
	want := []v1alpha1.EndedRun{ended, {ID: "b", State: v1alpha1.RunFailed, Stop: v1alpha1.StopDeleted}}
	if diff := cmp.Diff(want, overElsewhere([]v1alpha1.EndedRun{ended, deleting})); diff != "" {
		t.Error(diff)
	}
}
