package screen_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/cli/screen"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestLocales(t *testing.T) {
	cases := map[string]struct {
		env  []string
		utf8 bool
	}{
		"none":                {nil, false},
		"LANG":                {[]string{"LANG", "en_US.UTF-8"}, true},
		"LC_ALL before LANG":  {[]string{"LANG", "en_US.UTF-8", "LC_ALL", "C"}, false},
		"LC_CTYPE, lowercase": {[]string{"LANG", "C", "LC_CTYPE", "C.utf8"}, true},
	}
	for name, c := range cases {
		s := screen.New(&bytes.Buffer{}, environment(c.env...))
		if s.UTF8 != c.utf8 || s.Color || s.Width != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// Each state of the API has a symbol of its own beside its word, in any locale.
func TestStates(t *testing.T) {
	cases := map[v1alpha1.State][2]string{
		v1alpha1.StateSucceeded: {"✓", "+"}, v1alpha1.StateRunning: {"◌", "~"}, v1alpha1.StateStarting: {"◌", "~"}, v1alpha1.StateStopping: {"◌", "~"},
		v1alpha1.StateWaiting: {"⧗", ":"}, v1alpha1.StateFailed: {"✗", "x"}, v1alpha1.StateCancelled: {"✗", "x"}, v1alpha1.StateInvalid: {"✗", "x"},
		v1alpha1.StateSuspended: {"‖", "="}, v1alpha1.StateUnknown: {"◇", "?"}, v1alpha1.StateDeleting: {"◌", "~"}, "Unheard": {"◇", "?"},
	}
	for state, symbols := range cases {
		for i, utf8 := range []bool{true, false} {
			s := screen.Screen{UTF8: utf8}
			if got := s.State(string(state)).Text; got != symbols[i]+" "+string(state) {
				t.Errorf("%s is shown as %q", state, got)
			}
		}
	}
	if got := (screen.Screen{}).State("").Text; got != "-" {
		t.Errorf("no state is shown as %q", got)
	}
}

func TestColor(t *testing.T) {
	s := screen.Screen{UTF8: true, Color: true}
	if got := s.Paint(s.State("Failed")); got != "\x1b[31m✗ Failed\x1b[0m" {
		t.Errorf("got %q", got)
	}
	if got := s.Paint(screen.Text("a")); got != "a" {
		t.Errorf("got %q", got)
	}
}

func TestTable(t *testing.T) {
	long := strings.Repeat("word ", 30) + "end"
	cases := map[string]struct {
		screen screen.Screen
		whole  bool
		want   string
	}{
		"a terminal": {screen.Screen{UTF8: true, Color: true, Width: 40}, false,
			"NAME   STATE         WHY\na      \x1b[32m✓ Succeeded\x1b[0m   word word word wor…\nlong   -             -\n"},
		"a narrow terminal": {screen.Screen{Width: 5}, false, "NAME   STATE         WHY\na      + Succeeded   word wo...\nlong   -             -\n"},
		"no terminal":       {screen.Screen{UTF8: true}, false, "NAME   STATE         WHY\na      ✓ Succeeded   " + strings.Repeat("word ", 19) + "word…\nlong   -             -\n"},
		"wide":              {screen.Screen{UTF8: true, Width: 40}, true, "NAME   STATE         WHY\na      ✓ Succeeded   " + long + "\nlong   -             -\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c.screen.Out = &out
			table := screen.NewTable("NAME", "STATE", "WHY")
			table.Whole = c.whole
			table.Add(screen.Text("a"), c.screen.State("Succeeded"), screen.Text(long))
			table.Add(screen.Text("long"), c.screen.State(""), screen.Text("-"))
			if err := table.Print(c.screen); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	var out bytes.Buffer
	p := screen.NewProgress(&out, environment("TERM", "xterm"))
	p.Show("a")
	p.Clear()
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
}
