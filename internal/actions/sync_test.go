package actions_test

import (
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/actions"
)

func TestSyncAsked(t *testing.T) {
	const earlier, later = "2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z"
	cases := map[string]struct {
		own, flux, handled string
		want               bool
	}{
		"never":                                {},
		"not yet":                              {own: later, want: true},
		"done":                                 {own: later, handled: later},
		"again":                                {own: later, handled: earlier, want: true},
		"after that of Flux CD was done":       {own: later, flux: earlier, handled: earlier, want: true},
		"before that of Flux CD was done":      {own: earlier, flux: later, handled: later},
		"that of Flux CD, not done, was later": {own: earlier, flux: later, handled: earlier},
		"no times":                             {own: "a", flux: "b", handled: "b", want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &v1alpha1.GitSource{}
			s.Annotations = map[string]string{v1alpha1.AnnotationReconcileAt: c.own, v1alpha1.AnnotationRequestedAt: c.flux}
			s.Status.LastHandledReconcileAt = c.handled
			if got := actions.SyncAsked(s); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
