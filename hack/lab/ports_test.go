package lab_test

import (
	"net"
	"testing"

	"github.com/minifleet/minifleet/hack/lab"
)

// A process that is given a port keeps others from being given it, also while nothing listens there: they cannot have the
// port of UDP that goes with it.
func TestPortsAreClaimed(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		address, err := lab.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] {
			t.Errorf("%s is given twice", address)
		}
		seen[address] = true
		if claim, err := net.ListenPacket("udp", address); err == nil {
			_ = claim.Close()
			t.Errorf("another process could be given %s", address)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	}
}
