package cli

import (
	"strings"
	"testing"
)

func TestMetricsOfEverybodyAreRefused(t *testing.T) {
	for address, tc := range map[string]struct{ secure, refused bool }{
		"0":              {},
		"127.0.0.1:8080": {},
		"[::1]:8080":     {},
		"localhost:8080": {},
		":8080":          {refused: true},
		"0.0.0.0:8080":   {refused: true},
		"10.0.0.1:8080":  {refused: true},
		"example.org:80": {refused: true},
		"nonsense":       {refused: true},
		"0.0.0.0:8443":   {secure: true},
	} {
		t.Run(address, func(t *testing.T) {
			err := checkMetrics(address, tc.secure)
			if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "--metrics-bind-address") {
				t.Errorf("got %v", err)
			}
		})
	}
}
