package gitsource

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// set is one state of a source's two annotations, and what is answered then.
type set struct{ own, flux, want string }

func TestLatestRequest(t *testing.T) {
	cases := map[string]struct {
		handled string // before the controller has begun
		story   []set
	}{
		"none":                    {"", []set{{"", "", ""}}},
		"one":                     {"", []set{{"a", "", "a"}}},
		"that of Flux CD":         {"", []set{{"", "a", "a"}}},
		"both the same":           {"", []set{{"a", "a", "a"}}},
		"in turns":                {"", []set{{"a", "", "a"}, {"a", "b", "b"}, {"a", "b", "b"}, {"c", "b", "c"}, {"c", "b", "c"}, {"c", "d", "d"}}},
		"by a clock that is slow": {"", []set{{"2026-05-04T12:00:00Z", "", "2026-05-04T12:00:00Z"}, {"2026-05-04T12:00:00Z", "2026-05-04T11:00:00Z", "2026-05-04T11:00:00Z"}}},
		"the last is taken away":  {"", []set{{"a", "", "a"}, {"a", "b", "b"}, {"a", "", "a"}}},
		"both at once, by time":   {"", []set{{"1777896000", "2026-05-04T12:00:01Z", "2026-05-04T12:00:01Z"}, {"1777896000", "2026-05-04T12:00:01Z", "2026-05-04T12:00:01Z"}}},
		"seen first, with one answered later than the other was set": {"2026-05-04T12:00:01Z", []set{{"2026-05-04T12:00:01Z", "2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z"}}},
		"seen first, with one set after the other was answered":      {"2026-05-04T12:00:00Z", []set{{"2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z", "2026-05-04T12:00:01Z"}}},
		"seen first, without times, one answered":                    {"a", []set{{"a", "b", "b"}, {"a", "b", "b"}}},
		"seen first, without times, that of Flux CD answered":        {"b", []set{{"a", "b", "a"}, {"a", "b", "a"}}},
		"seen first, without times, none answered":                   {"c", []set{{"a", "b", "a"}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var asked requests
			for i, s := range c.story {
				source := asking(s, c.handled)
				if _, got := asked.latest(source); got != s.want {
					t.Errorf("step %d: got %q, want %q", i, got, s.want)
				}
				c.handled = s.want
			}
		})
	}
}

func asking(s set, handled string) *v1alpha1.GitSource {
	source := &v1alpha1.GitSource{}
	source.Annotations = map[string]string{v1alpha1.AnnotationReconcileAt: s.own, v1alpha1.AnnotationRequestedAt: s.flux}
	source.Status.LastHandledReconcileAt = handled
	return source
}

func TestLatestRequestOfAnotherObject(t *testing.T) {
	var asked requests
	first := asking(set{own: "a", flux: "b"}, "a")
	first.UID = types.UID("1")
	asked.latest(first)
	second := asking(set{own: "a", flux: "c"}, "c")
	second.UID = types.UID("2")
	if annotation, got := asked.latest(second); got != "a" || annotation != v1alpha1.AnnotationReconcileAt {
		t.Errorf("got %s=%s", annotation, got)
	}
	asked.forget(types.NamespacedName{})
	if len(asked.seen) != 0 {
		t.Error("it is not forgotten")
	}
}

func TestUnansweredRequestOfFlux(t *testing.T) {
	source := asking(set{flux: "7"}, "")
	if got := unanswered(source, &requests{}); got != "; the request reconcile.fluxcd.io/requestedAt=7 waits until spec.suspend is false" {
		t.Errorf("got %q", got)
	}
}
