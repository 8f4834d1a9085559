package lab_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/lab"
)

func TestAuditReaderFollowsALogThatGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	reader := &lab.AuditReader{Path: path}
	steps := map[string]struct {
		add  string
		want []string
	}{
		"1 one line":                  {`{"stage":"ResponseComplete","verb":"get"}` + "\n", []string{"get"}},
		"2 nothing new":               {"", []string{"get"}},
		"3 a line that is incomplete": {`{"stage":"ResponseComplete",`, []string{"get"}},
		"4 its end, and another":      {`"verb":"list"}` + "\n" + `{"stage":"Panic","verb":"x"}` + "\n", []string{"get", "list"}},
		"5 one after it":              {`{"stage":"ResponseComplete","verb":"watch"}` + "\n", []string{"get", "list", "watch"}},
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		if _, err := log.WriteString(steps[name].add); err != nil {
			t.Fatal(err)
		}
		events, err := reader.Read()
		if err != nil {
			t.Fatal(name, err)
		}
		var got []string
		for i := range events {
			got = append(got, events[i].Verb)
		}
		if diff := cmp.Diff(steps[name].want, got); diff != "" {
			t.Errorf("%s: verbs (-want +got):\n%s", name, diff)
		}
	}
}
