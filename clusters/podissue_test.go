package clusters

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/minifleet/minifleet/internal/fleet"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// brokerPod is the pod of an index on a node, ready.
func brokerPod(index int, change ...func(*corev1.Pod)) corev1.Pod {
	name := fmt.Sprintf("lammps-%d-x7k2p", index)
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(noon),
			Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: fmt.Sprint(index)},
		},
		Spec: corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}},
	}
	for _, f := range change {
		f(&pod)
	}
	return pod
}

// fakeReader is a member's API server with pages of pods, and events.
type fakeReader struct {
	cluster.Cluster
	client.Reader

	pages     [][]corev1.Pod
	events    []corev1.Event
	podsErr   error
	eventsErr error
	asked     []string
}

func (s *fakeReader) GetAPIReader() client.Reader { return s }

func (s *fakeReader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	o := (&client.ListOptions{}).ApplyOptions(opts)
	if o.Namespace != "hpc" || o.Limit == 0 {
		return fmt.Errorf("asked for everything: %+v", o)
	}
	switch list := into.(type) {
	case *corev1.PodList:
		page := 0
		if o.Continue != "" {
			page = len(o.Continue)
		}
		s.asked = append(s.asked, fmt.Sprintf("pods %s %d", o.LabelSelector, page))
		*list = corev1.PodList{Items: s.pages[page]}
		if page+1 < len(s.pages) {
			list.Continue = strings.Repeat("x", page+1)
		}
		return s.podsErr
	case *corev1.EventList:
		s.asked = append(s.asked, "events "+o.FieldSelector.String())
		*list = corev1.EventList{Items: s.events}
		return s.eventsErr
	}
	return errors.New("asked for something else")
}

// ask asks about a Job of 4 pods.
func (s *fakeReader) ask(t *testing.T, status batchv1.JobStatus) (*fleet.PodIssue, error) {
	t.Helper()
	m := &Member{Cluster: s, line: newLine(func() time.Time { return noon }, DefaultLimits())}
	m.line.dials.Store(1)
	m.verified.Store(1)
	return m.PodIssue(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "lammps", UID: "j1"},
		Spec:       batchv1.JobSpec{Completions: ptr.To[int32](4)}, Status: status,
	}, noon)
}

func warning(reason, message string, at time.Time) corev1.Event {
	return corev1.Event{Reason: reason, Message: message, LastTimestamp: metav1.NewTime(at), Type: corev1.EventTypeWarning}
}

func TestPodIssue(t *testing.T) {
	const ofJob = "events involvedObject.uid=j1,type=Warning,reason=FailedCreate"
	const pods = "pods batch.kubernetes.io/controller-uid=j1 "
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New("no"))
	quota := warning("FailedCreate", `Error creating: pods "lammps-0-abcde" is forbidden: exceeded quota: none`, noon)
	creating := func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "lammps", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}},
		}}
	}
	unschedulable := func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "x"},
		}}
	}
	succeeded := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	all := []corev1.Pod{brokerPod(0), brokerPod(1), brokerPod(2), brokerPod(3)}
	cases := map[string]struct {
		reader fakeReader
		status batchv1.JobStatus
		want   *fleet.PodIssue
		asked  []string
	}{
		"ready by now": {fakeReader{pages: [][]corev1.Pod{all}}, batchv1.JobStatus{}, nil, []string{pods + "0"}},
		"none can be created": {
			fakeReader{pages: [][]corev1.Pod{nil}, events: []corev1.Event{quota}}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "FailedCreate", Message: `pods "lammps-0-abcde" is forbidden: exceeded quota: none`, Pods: 4}, []string{pods + "0", ofJob},
		},
		"the latest of its messages": {
			fakeReader{pages: [][]corev1.Pod{nil}, events: []corev1.Event{
				quota, warning("FailedCreate", "(combined from similar events): Error creating: denied", noon.Add(time.Second)), quota,
			}}, batchv1.JobStatus{}, &fleet.PodIssue{Reason: "FailedCreate", Message: "denied", Pods: 4}, []string{pods + "0", ofJob},
		},
		"some cannot be created, whatever else there is": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(0), brokerPod(1, unschedulable)}}, events: []corev1.Event{quota}}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "FailedCreate", Message: `pods "lammps-0-abcde" is forbidden: exceeded quota: none`, Pods: 2}, []string{pods + "0", ofJob},
		},
		"a message from before the newest pod": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(0)}}, events: []corev1.Event{warning("FailedCreate", "old", noon.Add(-time.Minute))}}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "PodsNotReady", Message: "the member has not said why", Pods: 3}, []string{pods + "0", ofJob},
		},
		"no message": {
			fakeReader{pages: [][]corev1.Pod{nil}}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "PodsNotReady", Message: "the member has not said why", Pods: 4}, []string{pods + "0", ofJob},
		},
		"no message, but a pod that has an issue": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(1, unschedulable)}}}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "Unschedulable", Message: "x", Pod: "lammps-1-x7k2p", Pods: 1}, []string{pods + "0", ofJob},
		},
		"messages that may not be read": {
			fakeReader{pages: [][]corev1.Pod{nil}, eventsErr: forbidden}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "PodsNotReady", Message: "why is in the Job's events on the member, which the credentials may not list", Pods: 4},
			[]string{pods + "0", ofJob},
		},
		"those that have succeeded are deleted": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(3)}}}, batchv1.JobStatus{Succeeded: 3}, nil, []string{pods + "0"},
		},
		"those that have succeeded are not counted yet": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(0, succeeded), brokerPod(1), brokerPod(2), brokerPod(3)}}}, batchv1.JobStatus{}, nil, []string{pods + "0"},
		},
		"a volume that cannot be mounted": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(0), brokerPod(1), brokerPod(2, creating), brokerPod(3, creating)}}, events: []corev1.Event{warning("FailedMount", `configmap "c" not found`, noon)}}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "ContainerCreating", Message: `FailedMount: configmap "c" not found`, Pod: "lammps-2-x7k2p", Pods: 2},
			[]string{pods + "0", "events involvedObject.uid=uid-of-lammps-2-x7k2p,type=Warning,reason!=FailedScheduling"},
		},
		"a start of which nothing more may be read": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(0), brokerPod(1), brokerPod(2), brokerPod(3, creating)}}, eventsErr: forbidden}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "ContainerCreating", Pod: "lammps-3-x7k2p", Pods: 1},
			[]string{pods + "0", "events involvedObject.uid=uid-of-lammps-3-x7k2p,type=Warning,reason!=FailedScheduling"},
		},
		"on the second page": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(0)}, {brokerPod(1, unschedulable)}, nil}}, batchv1.JobStatus{Active: 4},
			&fleet.PodIssue{Reason: "Unschedulable", Message: "x", Pod: "lammps-1-x7k2p", Pods: 1, AtLeast: true}, []string{pods + "0", pods + "1"},
		},
		"missing from all pages": {
			fakeReader{pages: [][]corev1.Pod{{brokerPod(0)}, {brokerPod(1)}}, events: []corev1.Event{quota}}, batchv1.JobStatus{},
			&fleet.PodIssue{Reason: "FailedCreate", Message: `pods "lammps-0-abcde" is forbidden: exceeded quota: none`, Pods: 2}, []string{pods + "0", pods + "1", ofJob},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := c.reader.ask(t, c.status)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.asked, c.reader.asked); diff != "" {
				t.Errorf("asked:\n%s", diff)
			}
		})
	}
}

func TestPodIssueUnanswered(t *testing.T) {
	for name, s := range map[string]*fakeReader{
		"pods":   {pages: [][]corev1.Pod{nil}, podsErr: context.DeadlineExceeded},
		"events": {pages: [][]corev1.Pod{nil}, eventsErr: context.DeadlineExceeded},
	} {
		if got, err := s.ask(t, batchv1.JobStatus{}); got != nil || !Unanswered(err) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
