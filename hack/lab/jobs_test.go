package lab_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/hack/lab"
)

// jobWith returns an indexed Job like a MiniCluster's: an init container, and restarts in place.
func jobWith(pods int32, annotations map[string]string, change ...func(*batchv1.JobSpec)) *batchv1.Job {
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "example.org/" + name + ":1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: quantity("1")}},
		}
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec: batchv1.JobSpec{
			Completions: ptr.To(pods), Parallelism: ptr.To(pods),
			CompletionMode: ptr.To(batchv1.IndexedCompletion),
			BackoffLimit:   ptr.To(int32(100)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
				Spec: corev1.PodSpec{
					RestartPolicy:  corev1.RestartPolicyOnFailure,
					InitContainers: []corev1.Container{container("flux-view")},
					Containers:     []corev1.Container{container("app")},
				},
			},
		},
	}
	for _, c := range change {
		c(&job.Spec)
	}
	return job
}

// start creates the Job in a new namespace on the member.
func start(t *testing.T, job *batchv1.Job) (client *kubernetes.Clientset, namespace string) {
	t.Helper()
	client = clientFor(t, shared.Cluster("member"))
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "jobs-"}}
	object, err := client.CoreV1().Namespaces().Create(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.BatchV1().Jobs(object.Name).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return client, object.Name
}

func eventuallyJob(t *testing.T, client *kubernetes.Clientset, namespace string, reached func(batchv1.JobStatus) bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) string {
		job, err := client.BatchV1().Jobs(namespace).Get(ctx, "job", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if !reached(job.Status) {
			return fmt.Sprintf("the Job's status is %+v", job.Status)
		}
		return ""
	})
}

func jobHas(condition batchv1.JobConditionType) func(batchv1.JobStatus) bool {
	return func(status batchv1.JobStatus) bool {
		return slices.ContainsFunc(status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == condition && c.Status == corev1.ConditionTrue
		})
	}
}

func podsOf(ctx context.Context, t *testing.T, client *kubernetes.Clientset, namespace string) []corev1.Pod {
	t.Helper()
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "job-name=job"})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func TestJobCompletes(t *testing.T) {
	t.Parallel()
	client, namespace := start(t, jobWith(4, nil))
	eventuallyJob(t, client, namespace, jobHas(batchv1.JobComplete))

	got := map[string]int32{}
	for _, pod := range podsOf(t.Context(), t, client, namespace) {
		if pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("%s: phase %s", pod.Name, pod.Status.Phase)
		}
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if status.State.Terminated == nil {
				t.Errorf("%s: %s has not ended: %+v", pod.Name, status.Name, status.State)
				continue
			}
			got[pod.Labels[batchv1.JobCompletionIndexAnnotation]+" "+status.Name] = status.State.Terminated.ExitCode
		}
	}
	want := map[string]int32{
		"0 app": 0, "1 app": 0, "2 app": 0, "3 app": 0,
		"0 flux-view": 0, "1 flux-view": 0, "2 flux-view": 0, "3 flux-view": 0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("exit codes (-want +got):\n%s", diff)
	}
}

func TestJobFails(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		policy  corev1.RestartPolicy
		backoff int32
	}{
		"pod fails":              {policy: corev1.RestartPolicyNever, backoff: 0},
		"container fails, twice": {policy: corev1.RestartPolicyOnFailure, backoff: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			told := map[string]string{lab.AskExitCode: "3", lab.AskExitIndex: "0", lab.AskSeconds: "0"}
			client, namespace := start(t, jobWith(2, told, func(spec *batchv1.JobSpec) {
				spec.BackoffLimit = ptr.To(tc.backoff)
				spec.Template.Spec.RestartPolicy = tc.policy
			}))
			eventuallyJob(t, client, namespace, jobHas(batchv1.JobFailed))
			job, err := client.BatchV1().Jobs(namespace).Get(t.Context(), "job", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, condition := range job.Status.Conditions {
				if condition.Type == batchv1.JobFailed && condition.Reason != batchv1.JobReasonBackoffLimitExceeded {
					t.Errorf("reason %q, want %q", condition.Reason, batchv1.JobReasonBackoffLimitExceeded)
				}
			}
		})
	}
}

func TestFailedPodShowsItsExitCode(t *testing.T) {
	t.Parallel()
	told := map[string]string{lab.AskExitCode: "3", lab.AskSeconds: "0"}
	client, namespace := start(t, jobWith(1, told, func(spec *batchv1.JobSpec) {
		spec.BackoffLimit = ptr.To(int32(0))
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	}))
	eventuallyJob(t, client, namespace, jobHas(batchv1.JobFailed))
	status := podsOf(t.Context(), t, client, namespace)[0].Status
	if end := status.ContainerStatuses[0].State.Terminated; status.Phase != corev1.PodFailed || end == nil || end.ExitCode != 3 {
		t.Errorf("status %+v, want Failed with exit code 3", status)
	}
}

func TestContainerRestartsInPlace(t *testing.T) {
	t.Parallel()
	told := map[string]string{lab.AskExitCode: "3", lab.AskFailures: "2", lab.AskSeconds: "0"}
	client, namespace := start(t, jobWith(1, told))
	eventuallyJob(t, client, namespace, jobHas(batchv1.JobComplete))
	status := podsOf(t.Context(), t, client, namespace)[0].Status.ContainerStatuses[0]
	if status.RestartCount != 2 {
		t.Errorf("%d restarts, want 2", status.RestartCount)
	}
	if last := status.LastTerminationState.Terminated; last == nil || last.ExitCode != 3 {
		t.Errorf("last termination state is %+v, want exit code 3", status.LastTerminationState)
	}
}

func TestPodsRunUntilReleased(t *testing.T) {
	t.Parallel()
	member := shared.Cluster("member")
	client, namespace := start(t, jobWith(2, map[string]string{lab.AskHold: "true", lab.AskSeconds: "0"}))
	eventuallyJob(t, client, namespace, func(status batchv1.JobStatus) bool { return ptr.Deref(status.Ready, 0) == 2 })
	// The pods of another Job start, run and complete; had the held ones a time, it would be over too.
	other := jobWith(1, map[string]string{lab.AskSeconds: "1"})
	other.Name = "other"
	if _, err := client.BatchV1().Jobs(namespace).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) string {
		job, err := client.BatchV1().Jobs(namespace).Get(ctx, "other", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if job.Status.Succeeded != 1 {
			return "the other Job has not completed"
		}
		return ""
	})
	for _, pod := range podsOf(t.Context(), t, client, namespace) {
		if pod.Status.Phase != corev1.PodRunning {
			t.Errorf("%s: phase %s, want Running", pod.Name, pod.Status.Phase)
		}
	}
	count, err := member.Release(t.Context(), namespace, "job-name=job", 0)
	if err != nil || count != 2 {
		t.Fatalf("released %d pods, error %v", count, err)
	}
	eventuallyJob(t, client, namespace, jobHas(batchv1.JobComplete))
}

func TestPodWaits(t *testing.T) {
	t.Parallel()
	client, namespace := start(t, jobWith(1, map[string]string{lab.AskWaiting: "ImagePullBackOff"}))
	eventually(t, func(ctx context.Context) string {
		pods := podsOf(ctx, t, client, namespace)
		if len(pods) != 1 || len(pods[0].Status.ContainerStatuses) != 1 {
			return "no pod with a container status yet"
		}
		waiting := pods[0].Status.ContainerStatuses[0].State.Waiting
		if pods[0].Status.Phase != corev1.PodPending || waiting == nil || waiting.Reason != "ImagePullBackOff" {
			return fmt.Sprintf("the pod's status is %+v", pods[0].Status)
		}
		return ""
	})
}

func TestEvictedPodIsReplaced(t *testing.T) {
	t.Parallel()
	client, namespace := start(t, jobWith(1, map[string]string{lab.AskHold: "true"}))
	eventuallyJob(t, client, namespace, func(status batchv1.JobStatus) bool { return ptr.Deref(status.Ready, 0) == 1 })
	_, err := shared.Cluster("member").Tell(t.Context(), namespace, "job-name=job", map[string]string{lab.AskEvicted: "true"})
	if err != nil {
		t.Fatal(err)
	}
	eventuallyJob(t, client, namespace, func(status batchv1.JobStatus) bool {
		return status.Failed == 1 && ptr.Deref(status.Ready, 0) == 1
	})
}

func TestDeletedJobTakesItsPods(t *testing.T) {
	t.Parallel()
	client, namespace := start(t, jobWith(2, map[string]string{lab.AskHold: "true"}))
	eventuallyJob(t, client, namespace, func(status batchv1.JobStatus) bool { return ptr.Deref(status.Ready, 0) == 2 })
	background := metav1.DeletePropagationBackground
	err := client.BatchV1().Jobs(namespace).Delete(t.Context(), "job", metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) string {
		if left := len(podsOf(ctx, t, client, namespace)); left > 0 {
			return fmt.Sprintf("%d pods are left", left)
		}
		return ""
	})
	if err := client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) string {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("the namespace is still there (%v)", err)
	})
}

func TestPodsNeedRoom(t *testing.T) {
	t.Parallel()
	client, namespace := start(t, jobWith(1, nil, func(spec *batchv1.JobSpec) {
		spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": quantity("5")}
	}))
	eventually(t, func(ctx context.Context) string {
		for _, pod := range podsOf(ctx, t, client, namespace) {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
					return ""
				}
			}
		}
		return "no pod is unschedulable"
	})
}
