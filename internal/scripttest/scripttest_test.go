package scripttest_test

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/minifleet/minifleet/internal/scripttest"
)

// Files that are written and run by many at the same time can all be run.
func TestWrittenWhileProcessesStart(t *testing.T) {
	dir := t.TempDir()
	failed := make(chan error)
	const writers, each = 16, 40
	for w := range writers {
		go func() {
			var failure error
			for i := range each {
				path := filepath.Join(dir, strconv.Itoa(w)+"-"+strconv.Itoa(i))
				scripttest.Write(t, path, "#!/bin/sh\n")
				if err := exec.Command(path).Run(); err != nil {
					failure = err
				}
			}
			failed <- failure
		}()
	}
	for range writers {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
