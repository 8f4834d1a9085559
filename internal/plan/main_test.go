package plan_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// Most of the time of these tests would go to collecting garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	os.Exit(m.Run())
}
