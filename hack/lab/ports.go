package lab

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are taken from below the range that systems use for outgoing connections (32768 on Linux,
// 49152 on macOS), so that no such connection takes a stopped server's port before it starts again.
const (
	firstPort = 20000
	lastPort  = 32000
)

var (
	portsMu    sync.Mutex
	portsGiven = map[int]net.PacketConn{}
)

// freePort returns a port of 127.0.0.1 that nothing listens on now and that neither this process nor another one with a
// lab was given before: for as long as each runs it has the port of UDP with the same number, which nobody else wants.
// A process without a lab may still take it first, so whoever binds it must be ready to try again.
func freePort() (int, error) {
	portsMu.Lock()
	defer portsMu.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if portsGiven[port] != nil {
			continue
		}
		claim, err := net.ListenPacket("udp", localAddress(port))
		if err != nil {
			continue
		}
		if !free(port) {
			_ = claim.Close()
			continue
		}
		portsGiven[port] = claim
		return port, nil
	}
	return 0, fmt.Errorf("lab: no free port on 127.0.0.1 between %d and %d", firstPort, lastPort)
}

// free says whether nothing listens on a port.
func free(port int) bool {
	listener, err := net.Listen("tcp", localAddress(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// FreeAddress returns an address HOST:PORT of this machine for a server that cannot choose a port itself. Nothing
// listens there now, and neither this process nor another one with a lab is given it; any other may still take it first.
func FreeAddress() (string, error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	return localAddress(port), nil
}

// listenLocal listens on a free port of 127.0.0.1.
func listenLocal() (net.Listener, error) {
	var lastErr error
	for range 10 {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", localAddress(port))
		if err == nil {
			return listener, nil
		}
		lastErr = err
	}
	return nil, lastErr
}

func localAddress(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
