package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/internal/render"
)

// What is known to be valid is rendered as it is otherwise, and what is not said to be is validated.
func TestValid(t *testing.T) {
	in := rich()
	want := encode(t, mustRender(t, in))
	in.Valid = true
	if got := encode(t, mustRender(t, in)); got != want {
		t.Errorf("it is rendered otherwise:\n%s", cmp.Diff(want, got))
	}
	in.Spec.Size = -1
	if _, _, err := render.Pods(in); err != nil {
		t.Errorf("it is validated again: %v", err)
	}
	in.Valid = false
	if _, _, err := render.Pods(in); err == nil {
		t.Error("it is not validated")
	}
}

func BenchmarkRender(b *testing.B) {
	for name, valid := range map[string]bool{"Unchecked": false, "Valid": true} {
		in := rich()
		in.Valid = valid
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := render.Render(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSupport(b *testing.B) {
	in := rich()
	in.Valid = true
	for b.Loop() {
		if _, err := render.Support(in); err != nil {
			b.Fatal(err)
		}
	}
}
