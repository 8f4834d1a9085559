package build

import (
	"fmt"
	"os"
	"testing"
)

// The test program is its own child, as minifleet is.
const (
	beChild = "be-child"
	beProbe = "be-probe"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case beChild:
			if err := Child(os.Args[2:], os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case beProbe:
			probe()
			os.Exit(0)
		case beMute:
			mute(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func self(t testing.TB, as ...string) []string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{path}, as...)
}
