package peers

import (
	"context"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/minifleet/minifleet/hack/bench/wait"
)

// jobs is when the Jobs of a turn were created on members, released and running, as a watch of each member tells. It is
// the same for all peers, whatever requests they send.
type jobs struct {
	mu                         sync.Mutex
	created, released, running map[string]time.Time
	// twice names Jobs that were created more than once.
	twice []string
	err   error
}

func newJobs() *jobs {
	return &jobs{created: map[string]time.Time{}, released: map[string]time.Time{}, running: map[string]time.Time{}}
}

// follow watches the Jobs in a namespace of a member until ctx ends.
func (j *jobs) follow(ctx context.Context, c *kubernetes.Clientset, namespace string) error {
	seconds := int64(24 * time.Hour / time.Second)
	events, err := c.BatchV1().Jobs(namespace).Watch(ctx, metav1.ListOptions{TimeoutSeconds: &seconds})
	if err != nil {
		return err
	}
	go func() {
		for event := range events.ResultChan() {
			if job, ok := event.Object.(*batchv1.Job); ok {
				j.saw(string(event.Type), job, time.Now())
			}
		}
		j.ended(ctx)
	}()
	return nil
}

func (j *jobs) saw(event string, job *batchv1.Job, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := func(times map[string]time.Time) {
		if _, ok := times[job.Name]; !ok {
			times[job.Name] = now
		}
	}
	if _, ok := j.created[job.Name]; ok && event == "ADDED" {
		j.twice = append(j.twice, job.Name)
	}
	first(j.created)
	if job.Spec.Suspend == nil || !*job.Spec.Suspend {
		first(j.released)
	}
	if job.Status.Ready != nil && *job.Status.Ready > 0 || job.Status.Succeeded > 0 {
		first(j.running)
	}
}

func (j *jobs) ended(ctx context.Context) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if ctx.Err() == nil {
		j.err = fmt.Errorf("the watch of a member's Jobs has ended")
	}
}

// wait waits until the Jobs of these names are released, and, if asked for, running.
func (j *jobs) wait(ctx context.Context, names []string, running bool, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		n, err := j.count(names, running)
		if err != nil || n == len(names) {
			return err
		}
		if err := wait.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d Jobs after %s: %w", n, len(names), limit, err)
		}
	}
}

func (j *jobs) count(names []string, running bool) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	in := j.released
	if running {
		in = j.running
	}
	n := 0
	for _, name := range names {
		if _, ok := in[name]; ok {
			n++
		}
	}
	if len(j.twice) > 0 && j.err == nil {
		j.err = fmt.Errorf("created more than once: %v", j.twice)
	}
	return n, j.err
}

// times are those from the start until Jobs were created, released and running, unsorted.
type times struct {
	created, released, running []time.Duration
}

func (j *jobs) of(names []string, start time.Time) times {
	j.mu.Lock()
	defer j.mu.Unlock()
	since := func(from map[string]time.Time) (out []time.Duration) {
		for _, name := range names {
			if at, ok := from[name]; ok {
				out = append(out, at.Sub(start))
			}
		}
		return out
	}
	return times{since(j.created), since(j.released), since(j.running)}
}
