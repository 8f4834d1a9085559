// Package scripttest writes programs for tests to run.
package scripttest

import (
	"os"
	"syscall"
	"testing"
)

// Write makes path an executable file with the given text.
//
// No process is started meanwhile: one that is forked while the file is open for writing holds it open until it executes its own
// program, and whoever runs the file before that is told "text file busy" (https://go.dev/issue/22315).
func Write(t testing.TB, path, text string) {
	t.Helper()
	write(t, path, []byte(text))
}

// Copy makes path an executable file with what another file holds, for any user.
func Copy(t testing.TB, from, path string) {
	t.Helper()
	content, err := os.ReadFile(from) //nolint:gosec // a file that the test names
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, content)
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // the program of a container, which has a user of its own
		t.Fatal(err)
	}
}

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, content, 0o700) //nolint:gosec // a program has to be executable
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
