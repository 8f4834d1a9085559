package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// log is an answer to a request for a log.
type answerOfLog = func(context.Context, corev1.PodLogOptions) (io.ReadCloser, error)

// at is a line of a log with so many milliseconds as its time.
func at(ms int, text string) string {
	return noon.Add(time.Duration(ms)*time.Millisecond).Format(time.RFC3339Nano) + " " + text + "\n"
}

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// says is a log that is at its end.
func says(lines ...string) answerOfLog {
	return func(context.Context, corev1.PodLogOptions) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(strings.Join(lines, ""))), nil
	}
}

// breaks is a log whose connection is lost after these lines.
func breaks(lines ...string) answerOfLog {
	return func(context.Context, corev1.PodLogOptions) (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(strings.Join(lines, "")), failing{})), nil
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// then does something to the member when a log is asked for.
func then(next answerOfLog, m *fake, change func(*fake)) answerOfLog {
	return func(ctx context.Context, o corev1.PodLogOptions) (io.ReadCloser, error) {
		m.set(change)
		return next(ctx, o)
	}
}

func refuses(err error) answerOfLog {
	return func(context.Context, corev1.PodLogOptions) (io.ReadCloser, error) { return nil, err }
}

// ends has the container end, restarts has another one take its place.
func ends(m *fake) {
	m.pods[0].Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
}
func restarts(m *fake)    { m.pods[0].Status.ContainerStatuses[0].RestartCount++ }
func disconnects(m *fake) { m.away = true }

// heard is what was told, a line each.
type heard struct {
	lines []string
	fails int // fails at this line
}

func (h *heard) Tell(l LogLine) error {
	switch {
	case l.Text != nil:
		h.lines = append(h.lines, *l.Text)
	case l.Lost > 0:
		h.lines = append(h.lines, fmt.Sprintf("lost %d", l.Lost))
	default:
		h.lines = append(h.lines, "end "+l.End)
	}
	if h.fails > 0 && len(h.lines) >= h.fails {
		return errRefused
	}
	return nil
}

func (h *heard) Flush() error { return nil }

func TestLogs(t *testing.T) {
	since := noon.Add(2 * time.Millisecond)
	cases := map[string]struct {
		ask  LogRequest
		logs func(*fake) []answerOfLog
		want []string
	}{
		"whole": {LogRequest{}, func(*fake) []answerOfLog { return []answerOfLog{says(at(1, "a"), at(2, ""), "without time\n")} }, []string{"a", "", "without time"}},
		"the last line without an end": {LogRequest{}, func(*fake) []answerOfLog {
			return []answerOfLog{says(strings.TrimSuffix(at(1, "a"), "\n"))}
		}, []string{"a"}},
		"broken off": {LogRequest{}, func(*fake) []answerOfLog { return []answerOfLog{breaks(at(1, "a"))} }, []string{"a", "end disconnected"}},
		"since": {LogRequest{Since: since}, func(*fake) []answerOfLog {
			return []answerOfLog{says(at(1, "a"), at(2, "b"), at(2, "b too"), at(3, "c"))}
		}, []string{"c"}},
		"since, and more than tail": {LogRequest{Since: since, Tail: 2}, func(*fake) []answerOfLog {
			return []answerOfLog{says(at(2, "b"), at(3, "c"), at(4, "d"), at(5, "e"))}
		}, []string{"lost 1", "d", "e"}},
		"since, and the log was rotated": {LogRequest{Since: since}, func(*fake) []answerOfLog { return []answerOfLog{says(at(9, "z"))} }, []string{"lost 1", "z"}},
		"since, rotated, and more than tail": {LogRequest{Since: since, Tail: 1}, func(*fake) []answerOfLog {
			return []answerOfLog{says(at(7, "x"), at(8, "y"), at(9, "z"))}
		}, []string{"lost 3", "z"}},
		"since, nothing new": {LogRequest{Since: since}, func(*fake) []answerOfLog { return []answerOfLog{says(at(1, "a"), at(2, "b"))} }, nil},
		"followed until the container ends": {LogRequest{Follow: true}, func(m *fake) []answerOfLog {
			return []answerOfLog{then(says(at(1, "a"), at(2, "b")), m, ends), says(at(2, "b"), at(3, "its end"))}
		}, []string{"a", "b", "its end", "end ended"}},
		"followed over a lost connection": {LogRequest{Follow: true}, func(m *fake) []answerOfLog {
			return []answerOfLog{breaks(at(1, "a"), at(2, "b"), at(2, "b too")), says(at(1, "a"), at(2, "b"), at(2, "b too"), at(2, "b three"), at(3, "c")), then(says(at(3, "c")), m, ends), says(at(3, "c"))}
		}, []string{"a", "b", "b too", "b three", "c", "end ended"}},
		"followed, and rotated while disconnected": {LogRequest{Follow: true}, func(m *fake) []answerOfLog {
			return []answerOfLog{breaks(at(1, "a")), then(says(at(5, "e")), m, ends), says(at(5, "e"))}
		}, []string{"a", "lost 1", "e", "end ended"}},
		"followed since": {LogRequest{Follow: true, Since: since}, func(m *fake) []answerOfLog {
			return []answerOfLog{says(at(2, "b"), at(3, "c")), then(says(at(3, "c"), at(4, "d")), m, ends), says(at(4, "d"))}
		}, []string{"c", "d", "end ended"}},
		"followed since, and rotated": {LogRequest{Follow: true, Since: since}, func(m *fake) []answerOfLog {
			return []answerOfLog{says(), then(says(at(9, "z")), m, ends), says(at(9, "z"))}
		}, []string{"lost 1", "z", "end ended"}},
		"the container was restarted": {LogRequest{Follow: true}, func(m *fake) []answerOfLog {
			return []answerOfLog{then(breaks(at(1, "a")), m, restarts), says(at(1, "a"), at(2, "b"))}
		}, []string{"a", "b", "end ended"}},
		"the pod is not there any more": {LogRequest{Follow: true}, func(m *fake) []answerOfLog {
			return []answerOfLog{then(breaks(at(1, "a")), m, func(m *fake) { m.pods = nil }), refuses(apierrors.NewNotFound(schema.GroupResource{}, "p"))}
		}, []string{"a", "lost 1", "end ended"}},
		"the member is lost": {LogRequest{Follow: true}, func(m *fake) []answerOfLog {
			return []answerOfLog{then(breaks(at(1, "a")), m, disconnects)}
		}, []string{"a", "end disconnected"}},
		"the member hangs": {LogRequest{Follow: true}, func(m *fake) []answerOfLog {
			return []answerOfLog{then(breaks(at(1, "a")), m, func(m *fake) { m.hung = true })}
		}, []string{"a", "end disconnected"}},
		"previous": {LogRequest{Previous: true, Follow: true}, func(*fake) []answerOfLog { return []answerOfLog{says(at(1, "a"))} }, []string{"a", "end ended"}},
		"hostile": {LogRequest{}, func(*fake) []answerOfLog {
			return []answerOfLog{says(at(1, "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\u202e\x00\xff\tend\r"), at(2, strings.Repeat("x", 2*maxLine)), at(3, "after it"))}
		}, []string{"red  \uFFFD\uFFFD\uFFFD\tend", strings.Repeat("x", maxLine) + "…", "after it"}},
		"endless": {LogRequest{}, func(*fake) []answerOfLog {
			return []answerOfLog{func(context.Context, corev1.PodLogOptions) (io.ReadCloser, error) {
				return io.NopCloser(endless{}), nil
			}}
		}, []string{"end limit"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &fake{pods: []corev1.Pod{podOf(0)}}
				if c.ask.Previous {
					m.pods[0].Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{}
				}
				m.logs = c.logs(m)
				c.ask.Object = running("alpine")
				l, err := reader(fakes{"alpine": m}).OpenLog(t.Context(), c.ask)
				if err != nil {
					t.Fatal(err)
				}
				var got heard
				if err := l.Each(t.Context(), &got); err != nil {
					t.Error(err)
				}
				if name == "endless" {
					got.lines = got.lines[len(got.lines)-1:]
				}
				if diff := cmp.Diff(c.want, got.lines); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// endless says the same for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	return copy(p, strings.Repeat(strings.Repeat("x", 8<<10)+"\n", 1+len(p)/(8<<10))), nil
}

func TestLogOptions(t *testing.T) {
	m := &fake{pods: []corev1.Pod{podOf(0)}}
	m.logs = []answerOfLog{says()}
	since := noon.Add(1234 * time.Millisecond)
	for _, q := range []LogRequest{{Tail: 10}, {Since: since, Tail: 10}, {Previous: false, Container: "sidecar"}} {
		q.Object = running("alpine")
		m.pods[0].Status.ContainerStatuses = append(m.pods[0].Status.ContainerStatuses, corev1.ContainerStatus{Name: "sidecar"})
		if l, err := reader(fakes{"alpine": m}).OpenLog(t.Context(), q); err != nil {
			t.Error(err)
		} else if err := l.Each(t.Context(), &heard{}); err != nil {
			t.Error(err)
		}
	}
	ten := int64(10)
	want := []corev1.PodLogOptions{
		{Container: "lammps", Timestamps: true, TailLines: &ten},
		{Container: "lammps", Timestamps: true, SinceTime: sinceTime(noon.Add(time.Second))},
		{Container: "sidecar", Timestamps: true},
	}
	if diff := cmp.Diff(want, m.asked); diff != "" {
		t.Error(diff)
	}
}

// A reader who does not read any more, or disconnects, ends the log.
func TestLogWithoutAReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &fake{pods: []corev1.Pod{podOf(0)}}
		m.logs = []answerOfLog{says(at(1, "a"), at(2, "b"))}
		r := reader(fakes{"alpine": m})
		open := func() *Log {
			l, err := r.OpenLog(t.Context(), LogRequest{Object: running("alpine"), Follow: true})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		if err := open().Each(t.Context(), &heard{fails: 1}); !errors.Is(err, errRefused) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := open().Each(ctx, &heard{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if len(m.asked) > 1000 {
			t.Errorf("a log that ends again and again costs %d requests in an hour", len(m.asked))
		}
	})
}

func TestLogsThatCannotBeRead(t *testing.T) {
	waiting := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"}}
	}
	unscheduled := func(p *corev1.Pod) {
		p.Status.ContainerStatuses, p.Status.Phase = nil, corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/5 nodes"}}
	}
	with := func(change ...func(*corev1.Pod)) *fake {
		return &fake{pods: []corev1.Pod{podOf(0, change...)}, logs: []answerOfLog{says()}}
	}
	over := running("alpine")
	over.Status.Clusters[0].State, over.Status.Runs[0].State = v1alpha1.RunSucceeded, v1alpha1.RunSucceeded
	never := running("alpine")
	never.Status.Clusters[0].Run, never.Status.Runs = "", nil
	cases := map[string]struct {
		ask    LogRequest
		member *fake
		status int
		want   string
	}{
		"it has not run":             {LogRequest{Object: never}, with(), http.StatusConflict, "it has not run yet: there is no log"},
		"on several members":         {LogRequest{Object: running("alpine", "basalt")}, with(), http.StatusUnprocessableEntity, "it has runs on 2 members: say which one (member)"},
		"another member":             {LogRequest{Member: "basalt"}, with(), http.StatusNotFound, "it has no run on member basalt"},
		"another run":                {LogRequest{Run: runB}, with(), http.StatusNotFound, "there is no run 00000000bb on member alpine, or its log is not kept any more"},
		"a rank too high":            {LogRequest{Rank: 7}, with(), http.StatusNotFound, "run 00000000aa on alpine has no pod 7: it has 2"},
		"no pod yet":                 {LogRequest{Rank: 1}, with(), http.StatusConflict, "pod 1 of run 00000000aa is not on alpine yet: it is about to be made"},
		"no pod any more":            {LogRequest{Object: over, Rank: 1}, with(), http.StatusNotFound, "pod 1 of run 00000000aa is not on alpine any more, and its log neither: the run has ended"},
		"no such container":          {LogRequest{Container: "x"}, with(), http.StatusUnprocessableEntity, "there is no such container: there are lammps, sidecar"},
		"it has not started":         {LogRequest{}, with(waiting), http.StatusConflict, "container lammps of pod lammps-0-abcde has not started: ImagePullBackOff: not found"},
		"it has no node":             {LogRequest{}, with(unscheduled), http.StatusConflict, "pod lammps-0-abcde has not started: Unschedulable: 0/5 nodes"},
		"it was not restarted":       {LogRequest{Previous: true}, with(), http.StatusConflict, "container lammps of pod lammps-0-abcde was not restarted: there is no log before"},
		"the member is away":         {LogRequest{}, &fake{away: true}, http.StatusServiceUnavailable, "member alpine: the member cannot be reached"},
		"the member does not answer": {LogRequest{}, &fake{hung: true}, http.StatusServiceUnavailable, "member alpine: the member did not answer in time"},
		"the role lacks the right": {LogRequest{}, &fake{
			pods: []corev1.Pod{podOf(0)}, logs: []answerOfLog{refuses(apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, "p", errRefused))},
		}, http.StatusConflict, `the credentials of member alpine do not let MiniFleet read logs there: add the rule {apiGroups: [""], resources: [pods/log], verbs: [get]} to its role, as config/member has it`},
		"the kubelet refuses": {LogRequest{}, &fake{
			pods: []corev1.Pod{podOf(0)}, logs: []answerOfLog{refuses(apierrors.NewBadRequest("container is waiting to start"))},
		}, http.StatusConflict, "member alpine does not give the log: container is waiting to start"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.ask.Object == nil {
					c.ask.Object = running("alpine")
				}
				inTime(t, name, func() {
					_, err := reader(fakes{"alpine": c.member}).OpenLog(t.Context(), c.ask)
					var p *Problem
					if !errors.As(err, &p) || p.Status != c.status || p.Message != c.want {
						t.Errorf("got %v", err)
					}
				})
			})
		})
	}
}

// A member whose pods are known from a moment ago, and that hangs from then on, holds no request up.
func TestLogOfAMemberThatHangsFromThenOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &fake{pods: []corev1.Pod{podOf(0)}, logs: []answerOfLog{says(at(1, "a"))}}
		r, f := reader(fakes{"alpine": m}), running("alpine")
		r.Pods(t.Context(), f)
		m.set(func(m *fake) { m.hung = true })
		inTime(t, "opening the log", func() {
			l, err := r.OpenLog(t.Context(), LogRequest{Object: f})
			if err != nil {
				t.Fatal(err)
			}
			var got heard
			go func() {
				if err := l.Each(t.Context(), &got); err != nil || !cmp.Equal(got.lines, []string{"end disconnected"}) {
					t.Errorf("%v %q", err, got.lines)
				}
			}()
		})
		time.Sleep(2 * patience)
	})
}
