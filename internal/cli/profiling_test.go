package cli

import (
	"strings"
	"testing"
)

func TestPprofAddress(t *testing.T) {
	for name, c := range map[string]struct{ address, want string }{
		"none":           {"", ""},
		"turned off":     {"0", ""},
		"IPv4":           {"127.0.0.1:6060", ""},
		"IPv6":           {"[::1]:6060", ""},
		"by name":        {"localhost:6060", ""},
		"everywhere":     {":6060", "no loopback address"},
		"all of IPv4":    {"0.0.0.0:6060", "no loopback address"},
		"of the pod":     {"10.1.2.3:6060", "no loopback address"},
		"another name":   {"controller.example.org:6060", "no loopback address"},
		"without a port": {"127.0.0.1", "missing port"},
	} {
		err := checkPprof(c.address)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--pprof-bind-address")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
