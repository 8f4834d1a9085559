package v1alpha1_test

import (
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

func TestRequestedAfter(t *testing.T) {
	cases := map[string]struct {
		token, other string
		want         bool
	}{
		"later":                        {"2026-05-04T12:00:01Z", "2026-05-04T12:00:00Z", true},
		"earlier":                      {"2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z", false},
		"the same":                     {"2026-05-04T12:00:00Z", "2026-05-04T12:00:00Z", false},
		"by nanoseconds":               {"2026-05-04T12:00:00.000000002Z", "2026-05-04T12:00:00.000000001Z", true},
		"in another zone":              {"2026-05-04T12:00:00+02:00", "2026-05-04T11:00:00Z", false},
		"seconds since 1970":           {"1777896001", "2026-05-04T12:00:00Z", true},
		"milliseconds since 1970":      {"1777896001000", "2026-05-04T12:00:00Z", true},
		"microseconds since 1970":      {"1777896001000000", "2026-05-04T12:00:00Z", true},
		"nanoseconds since 1970":       {"1777896001000000000", "2026-05-04T12:00:00Z", true},
		"earlier, in seconds":          {"1777895999", "2026-05-04T12:00:00Z", false},
		"no time":                      {"again", "2026-05-04T12:00:00Z", false},
		"after what is no time":        {"2026-05-04T12:00:00Z", "again", false},
		"empty":                        {"", "", false},
		"a number that is too large":   {"99999999999999999999", "1", false},
		"a number below zero, hostile": {"-9223372036854775808", "1", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := v1alpha1.RequestedAfter(c.token, c.other); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
