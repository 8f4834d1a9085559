package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestSample(t *testing.T) {
	s := sample{began: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	names, seen := map[string]bool{}, map[v1alpha1.State]int{}
	const n = 2000
	for i := range n {
		f := s.miniCluster(i)
		names[f.Namespace+"/"+f.Name] = true
		status := s.status(i, version{})
		seen[status.State]++
		if diff := cmp.Diff(status, s.status(i, version{})); diff != "" {
			t.Fatal(diff)
		}
		if status.State == v1alpha1.StateFailed && cmp.Equal(status, s.status(i, version{note: "a"})) {
			t.Errorf("%s: the note changes nothing", f.Name)
		}
	}
	if len(names) != n {
		t.Errorf("%d names of %d", len(names), n)
	}
	for _, state := range states {
		if seen[state] < n/40 {
			t.Errorf("%d are %s", seen[state], state)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]string{
		"2000,10000": "2000,10000", "6": "6", "": "error", "5": "error", "10,10": "error", "20,x": "error",
	} {
		var s sizes
		got := "error"
		if s.Set(text) == nil {
			got = s.String()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
