package credentialplugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// As the first process of a container, the controller becomes the parent of what plugins have started: that is killed, and waited for.
func TestNothingIsLeftOfAPlugin(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip("NOT TESTED: this system has no reaper of children:", err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	pid := filepath.Join(t.TempDir(), "pid")
	for name, body := range map[string]string{
		"holds its output open": "sleep 600 & echo $! > " + pid,
		"is silent":             "sleep 600 >/dev/null 2>&1 & echo $! > " + pid,
	} {
		_, _ = runner().Run(t.Context(), script(t, body))
		child, err := os.ReadFile(pid)
		if err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat("/proc/" + strings.TrimSpace(string(child))); err != nil {
				break
			}
			if time.Now().After(until) {
				t.Fatalf("what %s is still there", name)
			}
		}
	}
}
