package fleet_test

import (
	"math"
	"testing"

	"github.com/minifleet/minifleet/internal/fleet"
)

func TestCores(t *testing.T) {
	for milli, want := range map[int64]string{
		0: "0", 1: "0.001", 100: "0.1", 1000: "1", 1500: "1.5", 452000: "452", 404350: "404.35", 12345678: "12345.678", -1500: "-1.5",
	} {
		if got := fleet.Cores(milli); got != want {
			t.Errorf("%d: got %s, want %s", milli, got, want)
		}
	}
}

func TestBytes(t *testing.T) {
	for name, c := range map[string]struct {
		n        int64
		down, up string
	}{
		"nothing":              {0, "0Mi", "0Mi"},
		"less than can be had": {1, "0Mi", "1Mi"},
		"Mi":                   {512 << 20, "512Mi", "512Mi"},
		"just below one Gi":    {1<<30 - 1, "1023Mi", "1Gi"},
		"whole Gi":             {2 << 30, "2Gi", "2Gi"},
		"half a Gi more":       {1536 << 20, "1.5Gi", "1.5Gi"},
		"with a rest":          {394<<30 + 1, "394Gi", "394.01Gi"},
		"more than there is":   {-(1536 << 20), "-1.5Gi", "-1.5Gi"},
	} {
		if down, up := fleet.Bytes(c.n, math.Floor), fleet.Bytes(c.n, math.Ceil); down != c.down || up != c.up {
			t.Errorf("%s: got %s and %s, want %s and %s", name, down, up, c.down, c.up)
		}
	}
}
