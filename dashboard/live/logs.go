package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// LogRequest says which log is wanted.
type LogRequest struct {
	Object *v1alpha1.FleetMiniCluster
	// Member and Run may be empty: the only member that has a run, and its latest one.
	Member, Run string
	// Rank is the completion index of the pod, Container one of it; empty for that of the MiniCluster.
	Rank      int32
	Container string
	// Previous is the log of the container before its last restart.
	Previous, Follow bool
	// Tail is how many lines are told from the end, Since after which time; zero for all.
	Tail  int64
	Since time.Time
}

// Problem is why there is no log, with the status of HTTP for it and a sentence.
type Problem struct {
	Status  int
	Message string
}

func (p *Problem) Error() string { return p.Message }

func problem(status int, format string, args ...any) *Problem {
	return &Problem{status, sanitize.Text(fmt.Sprintf(format, args...), sanitize.MaxNote)}
}

// Log is the log of one container, which was opened. It is for one reader.
type Log struct {
	reader  *Reader
	request LogRequest
	member  string
	pod     types.NamespacedName
	// container that is read, and how often it had been restarted.
	container string
	restarts  int32
	first     <-chan opened
	cancel    context.CancelFunc

	// last is the time of the last line that was told, same how many of that time were.
	last time.Time
	same int
	// anchored says that a log which goes on after that time still has what was told: where it has not, lines are missing.
	anchored bool
	sent     int64
}

type opened struct {
	stream io.ReadCloser
	err    error
}

// OpenLog finds the pod of a run and begins to read its log. What the member has not said within Limit it says in Each. The
// error is a *Problem. Whoever gets a Log calls Each.
func (r *Reader) OpenLog(ctx context.Context, q LogRequest) (*Log, error) {
	c, err := q.line()
	if err != nil {
		return nil, err
	}
	m, err := r.Members.Member(c.Name)
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, "member %s: %s", c.Name, explain(err))
	}
	asked := r.podsOn(ctx, q.Object, c.Name, c.Run)
	if !asked.Known {
		return nil, problem(http.StatusServiceUnavailable, "member %s: %s", c.Name, asked.Error)
	}
	pod := podOfRank(asked.Pods, q.Rank)
	if pod == nil {
		return nil, q.noPod(c)
	}
	container, err := q.containerOf(pod)
	if err != nil {
		return nil, err
	}
	status, err := started(pod, container, q.Previous)
	if err != nil {
		return nil, err
	}
	l := &Log{
		reader: r, request: q, member: c.Name, pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
		container: container, restarts: status.RestartCount,
	}
	if err := l.begin(ctx, m); err != nil {
		return nil, err
	}
	return l, nil
}

// line is the line of the member that the log is read on, with the run that is wanted there.
func (q *LogRequest) line() (v1alpha1.ClusterStatus, error) {
	f := q.Object
	if q.Member == "" && q.Run != "" {
		if run := runs.Ledger(f.Status.Runs).Find(q.Run); run != nil {
			q.Member = run.Cluster
		}
	}
	found := q.onMembers()
	switch {
	case len(found) > 1:
		return v1alpha1.ClusterStatus{}, problem(http.StatusUnprocessableEntity, "it has runs on %d members: say which one (member)", len(found))
	case len(found) == 0 && q.Member == "":
		return v1alpha1.ClusterStatus{}, problem(http.StatusConflict, "it has not run yet: there is no log")
	case len(found) == 0:
		return v1alpha1.ClusterStatus{}, problem(http.StatusNotFound, "it has no run on member %s", q.Member)
	}
	c := found[0]
	if q.Run != "" && q.Run != c.Run {
		run := runs.Ledger(f.Status.Runs).Find(q.Run)
		if run == nil || run.Cluster != c.Name {
			return c, problem(http.StatusNotFound, "there is no run %s on member %s, or its log is not kept any more", q.Run, c.Name)
		}
		c = v1alpha1.ClusterStatus{Name: c.Name, Run: run.ID, State: run.State}
	}
	return c, nil
}

// onMembers are the lines of members that have a run, or of the one that is asked for.
func (q *LogRequest) onMembers() []v1alpha1.ClusterStatus {
	return slices.DeleteFunc(slices.Clone(q.Object.Status.Clusters), func(c v1alpha1.ClusterStatus) bool {
		return c.Run == "" || q.Member != "" && q.Member != c.Name
	})
}

// podOfRank is the latest pod of an index, nil where there is none.
func podOfRank(pods []corev1.Pod, rank int32) *corev1.Pod {
	var out *corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if pod.Annotations[batchv1.JobCompletionIndexAnnotation] == strconv.Itoa(int(rank)) && (out == nil || !pod.CreationTimestamp.Before(&out.CreationTimestamp)) {
			out = pod
		}
	}
	return out
}

// noPod says why there is no pod of a rank.
func (q *LogRequest) noPod(c v1alpha1.ClusterStatus) *Problem {
	switch {
	case q.Rank >= max(c.Pods.Desired, q.Object.Spec.MiniCluster.Size, 1):
		return problem(http.StatusNotFound, "run %s on %s has no pod %d: it has %d", c.Run, c.Name, q.Rank, c.Pods.Desired)
	case c.State.Ended():
		return problem(http.StatusNotFound, "pod %d of run %s is not on %s any more, and its log neither: the run has ended", q.Rank, c.Run, c.Name)
	default:
		return problem(http.StatusConflict, "pod %d of run %s is not on %s yet: %s", q.Rank, c.Run, c.Name, cmp.Or(c.Message, "it is about to be made"))
	}
}

// containerOf is the name of the container that is read.
func (q *LogRequest) containerOf(pod *corev1.Pod) (string, error) {
	var names []string
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		names = append(names, c.Name)
	}
	if q.Container != "" {
		if !slices.Contains(names, q.Container) {
			return "", problem(http.StatusUnprocessableEntity, "there is no such container: there are %s", strings.Join(names, ", "))
		}
		return q.Container, nil
	}
	own := q.Object.Name
	if spec := &q.Object.Spec.MiniCluster; spec.FluxRunner() >= 0 {
		own = cmp.Or(spec.Containers[spec.FluxRunner()].Name, own)
	}
	if !slices.Contains(names, own) && len(names) > 0 {
		own = names[0]
	}
	return own, nil
}

// started is the status of a container that has something to say, or an error that says what its pod waits for.
func started(pod *corev1.Pod, container string, previous bool) (corev1.ContainerStatus, error) {
	for _, s := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if s.Name != container {
			continue
		}
		switch {
		case previous && s.LastTerminationState.Terminated == nil:
			return s, problem(http.StatusConflict, "container %s of pod %s was not restarted: there is no log before", container, pod.Name)
		case s.State.Waiting == nil, s.LastTerminationState.Terminated != nil:
			return s, nil
		}
		w := s.State.Waiting
		return s, problem(http.StatusConflict, "container %s of pod %s has not started: %s", container, pod.Name,
			cmp.Or(strings.TrimSuffix(w.Reason+": "+w.Message, ": "), "it is waiting"))
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return corev1.ContainerStatus{}, problem(http.StatusConflict, "pod %s has not started: %s: %s", pod.Name, c.Reason, c.Message)
		}
	}
	return corev1.ContainerStatus{}, problem(http.StatusConflict, "pod %s has not started: it is %s", pod.Name, cmp.Or(string(pod.Status.Phase), "Pending"))
}

// begin asks for the log. It returns as soon as that is refused or begins, and after Limit in any case.
func (l *Log) begin(ctx context.Context, m Member) error {
	ctx, l.cancel = context.WithCancel(ctx)
	answer := make(chan opened, 1)
	options := l.options(l.request.Follow && l.request.Since.IsZero())
	go func() {
		stream, err := m.PodLog(ctx, l.pod, options)
		answer <- opened{stream, err}
	}()
	l.first = answer
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case first := <-answer:
		if first.err != nil {
			l.cancel()
			return l.refused(first.err)
		}
		answer <- first
	case <-timer.C: // it may be slow: what comes of it is told in its place
	}
	return nil
}

// options are those for what comes after the last line that was told.
func (l *Log) options(follow bool) corev1.PodLogOptions {
	o := corev1.PodLogOptions{Container: l.container, Previous: l.request.Previous, Follow: follow && !l.request.Previous, Timestamps: true}
	from := l.last
	if from.IsZero() {
		from = l.request.Since
	}
	switch {
	case !from.IsZero():
		// In whole seconds, so that it begins no later than with the last line, if that is there still.
		o.SinceTime = sinceTime(from)
	case l.request.Tail > 0:
		o.TailLines = &l.request.Tail
	}
	return o
}

// refused says what it takes to read the log.
func (l *Log) refused(err error) *Problem {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsForbidden(err):
		return problem(http.StatusConflict, "the credentials of member %s do not let MiniFleet read logs there: add the rule "+
			`{apiGroups: [""], resources: [pods/log], verbs: [get]} to its role, as config/member has it`, l.member)
	case apierrors.IsNotFound(err):
		return problem(http.StatusNotFound, "pod %s is not on %s any more", l.pod.Name, l.member)
	case clusters.Unanswered(err), errors.Is(err, context.Canceled):
		return problem(http.StatusServiceUnavailable, "member %s: %s", l.member, explain(err))
	case errors.As(err, &status):
		return problem(http.StatusConflict, "member %s does not give the log: %s", l.member, status.Status().Message)
	default:
		return problem(http.StatusServiceUnavailable, "member %s: %s", l.member, explain(err))
	}
}
