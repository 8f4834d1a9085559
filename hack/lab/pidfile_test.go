package lab_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/lab"
)

// parentEnv makes this test binary a process that starts two others and ends at once. Its value is the
// directory of their pid files. detachEnv, if set, makes the two outlive it.
const (
	parentEnv = "LAB_TEST_PARENT"
	detachEnv = "LAB_TEST_DETACH"
)

func startTwo(dir string) error {
	for _, name := range []string{"etcd", "hub-apiserver"} {
		process := sleeper(dir, name)
		process.Detach = os.Getenv(detachEnv) != ""
		if err := process.Start(); err != nil {
			return err
		}
	}
	return nil
}

func sleeper(dir, name string) *lab.Process {
	return &lab.Process{Name: name, Path: "sleep", Args: []string{"300"}, PidsDir: dir, LogsDir: dir + "-logs"}
}

func runningIn(t *testing.T, dir string) []string {
	t.Helper()
	running, err := lab.Running(dir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(running))
}

func runParent(t *testing.T, env ...string) {
	t.Helper()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), env...)
	if output, err := parent.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

func TestProcessesDieWithTheirParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends processes with their parent")
	}
	dir := filepath.Join(t.TempDir(), "pids")
	runParent(t, parentEnv+"="+dir)
	eventually(t, func(context.Context) string { return strings.Join(runningIn(t, dir), ", ") })
}

func TestStopAllFromAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pids")
	runParent(t, parentEnv+"="+dir, detachEnv+"=1")
	if diff := cmp.Diff([]string{"etcd", "hub-apiserver"}, runningIn(t, dir)); diff != "" {
		t.Errorf("running after their parent ended (-want +got):\n%s", diff)
	}
	if err := lab.StopAll(dir); err != nil {
		t.Fatal(err)
	}
	if left := runningIn(t, dir); len(left) > 0 {
		t.Errorf("%v still run", left)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
}

func TestStopAllLeavesStrangersAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pids")
	ours := sleeper(dir, "ours")
	if err := ours.Start(); err != nil {
		t.Fatal(err)
	}
	stranger := exec.Command("sleep", "300")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = stranger.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = stranger.Process.Kill()
		<-ended
	})
	if err := ours.Kill(); err != nil {
		t.Fatal(err)
	}
	// As if the system had given ours's pid to the stranger: a pid file with an identity that is not
	// the stranger's, and one with none.
	pid := []byte(strconv.Itoa(stranger.Process.Pid) + "\n")
	for name, content := range map[string][]byte{"reused": pid, ".reused": []byte("another boot 123\n"), "bare": pid} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if running := runningIn(t, dir); len(running) > 0 {
		t.Errorf("%v count as running", running)
	}
	if err := lab.StopAll(dir); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
		t.Error("the stranger was stopped")
	default:
	}
}

func TestStopAllOfNothing(t *testing.T) {
	t.Parallel()
	if err := lab.StopAll(filepath.Join(t.TempDir(), "missing")); err != nil {
		t.Error(err)
	}
}

func TestProcessCanBePausedStoppedAndStartedAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pids")
	process := sleeper(dir, "sleeper")
	for range 2 {
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err == nil {
			t.Error("it was started twice")
		}
		data, err := os.ReadFile(filepath.Join(dir, "sleeper"))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.TrimSpace(string(data)), strconv.Itoa(process.Pid()); got != want {
			t.Errorf("pid file says %s, want %s", got, want)
		}
		if err := process.Pause(); err != nil {
			t.Fatal(err)
		}
		if err := process.Stop(); err != nil {
			t.Fatal(err)
		}
		if process.Running() || len(runningIn(t, dir)) > 0 {
			t.Error("it still runs")
		}
	}
}
