package lab_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/hack/lab"
)

func TestStartFailsWithTheEndOfTheLog(t *testing.T) {
	needsOwned(t)
	t.Parallel()
	dir := t.TempDir()
	_, err := lab.Start(t.Context(), lab.Options{Dir: dir, Clusters: []lab.ClusterSpec{
		{Name: "broken", APIServerArgs: []string{"--no-such-flag"}},
	}})
	if err == nil || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("error %v, want one that shows the log", err)
	}
	if left := runningIn(t, filepath.Join(dir, "pids")); len(left) > 0 {
		t.Errorf("%v still run", left)
	}
}

func TestLabStopsWithItsContext(t *testing.T) {
	needsOwned(t)
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	started, err := lab.Start(ctx, lab.Options{Dir: dir}) // etcd alone is quick
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lab.Start(ctx, lab.Options{Dir: dir}); !errors.Is(err, lab.ErrRunning) {
		t.Errorf("starting again in the same directory: %v, want %v", err, lab.ErrRunning)
	}
	pids := filepath.Join(dir, "pids")
	if running := runningIn(t, pids); len(running) != 1 {
		t.Errorf("%v run, want etcd", running)
	}
	cancel()
	eventually(t, func(context.Context) string { return strings.Join(runningIn(t, pids), ", ") })
	if err := started.Stop(); err != nil {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	cases := map[string]lab.Options{
		"no directory":    {Clusters: []lab.ClusterSpec{{Name: "a"}}},
		"no name":         {Dir: t.TempDir(), Clusters: []lab.ClusterSpec{{}}},
		"path as name":    {Dir: t.TempDir(), Clusters: []lab.ClusterSpec{{Name: "../a"}}},
		"name used twice": {Dir: t.TempDir(), Clusters: []lab.ClusterSpec{{Name: "a"}, {Name: "a"}}},
	}
	for name, options := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := lab.Start(t.Context(), options); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestBinaryPrefersTheGivenPrograms(t *testing.T) {
	dir := t.TempDir()
	want := filepath.Join(dir, "etcd")
	if err := os.WriteFile(want, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	path, args, err := lab.Binary("etcd")
	if err != nil || path != want || len(args) != 0 {
		t.Errorf("path %s, arguments %v, error %v", path, args, err)
	}
	path, args, err = lab.Binary("kwok")
	if err != nil || filepath.Base(path) != "testcluster" || len(args) != 1 || args[0] != "kwok" {
		t.Errorf("what is not there: path %s, arguments %v, error %v", path, args, err)
	}
}
