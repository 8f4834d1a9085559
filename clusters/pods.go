package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// MaxPodsOfJob is how many pods PodsOfJob returns at most.
const MaxPodsOfJob = 2000

// PodsOfJob returns the pods of a run's Job as the member itself has them now, by completion index, and those of one index
// in the order in which they were made; at most MaxPodsOfJob of them, without managed fields. Key is that of the
// MiniCluster on the member. Pods of services are not among them.
func (m *Member) PodsOfJob(ctx context.Context, key types.NamespacedName, runID string) ([]corev1.Pod, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	var out []corev1.Pod
	for next, more := "", true; more; {
		var pods corev1.PodList
		err := m.GetAPIReader().List(ctx, &pods, client.InNamespace(key.Namespace), client.Limit(podPage), client.Continue(next),
			client.MatchingLabels{v1alpha1.LabelOwner: key.Name, v1alpha1.LabelRun: runID}, client.HasLabels{batchv1.JobNameLabel})
		if err != nil {
			return nil, err
		}
		for i := range pods.Items {
			pods.Items[i].ManagedFields = nil
		}
		out, next = append(out, pods.Items...), pods.Continue
		more = next != "" && len(pods.Items) > 0 && len(out) < MaxPodsOfJob
	}
	out = out[:min(len(out), MaxPodsOfJob)]
	slices.SortFunc(out, func(a, b corev1.Pod) int {
		return cmp.Or(cmp.Compare(completionIndex(&a), completionIndex(&b)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// completionIndex is that of a pod of an indexed Job; a pod without one comes last.
func completionIndex(pod *corev1.Pod) int {
	if index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation]); err == nil {
		return index
	}
	return math.MaxInt
}

// PodLog streams the log of a pod of the member, which takes the right to get pods/log there. The stream ends with ctx, and
// when the member is no longer connected; the caller closes it.
func (m *Member) PodLog(ctx context.Context, key types.NamespacedName, o corev1.PodLogOptions) (io.ReadCloser, error) {
	if err := m.Verify(ctx); err != nil {
		return nil, err
	}
	// What follows ends the stream a moment after the connection, which a short log may be faster than.
	if m.connected().Err() != nil {
		return nil, &Error{Reason: v1alpha1.ReasonUnreachable, Err: errors.New("the member is no longer connected")}
	}
	pods, err := corev1client.NewForConfigAndClient(m.GetConfig(), m.http)
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", key, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	unfollow := context.AfterFunc(m.connected(), cancel)
	end := func() {
		unfollow()
		cancel()
	}
	stream, err := pods.Pods(key.Namespace).GetLogs(key.Name, &o).Stream(ctx)
	if err != nil {
		end()
		return nil, err
	}
	return &logStream{ReadCloser: stream, end: end}, nil
}

// connected is a context that ends when the member is no longer connected.
func (m *Member) connected() context.Context {
	if m.session == nil {
		return context.Background()
	}
	return m.session
}

// logStream is the body of an answer, whose request ends when it is closed.
type logStream struct {
	io.ReadCloser
	end func()
}

// Close implements io.Closer.
func (s *logStream) Close() error {
	defer s.end()
	return s.ReadCloser.Close()
}
