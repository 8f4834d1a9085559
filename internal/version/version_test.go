package version_test

import (
	"regexp"
	"testing"

	"github.com/minifleet/minifleet/internal/version"
)

func TestString(t *testing.T) {
	line := regexp.MustCompile(`^minifleet \S+( commit [0-9a-f]{12})? go\S+ [a-z0-9]+/[a-z0-9]+$`)
	if got := version.String(); !line.MatchString(got) {
		t.Errorf("got %q", got)
	}
}
