package lab_test

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/hack/lab"
)

// echoServer answers each line with the same line, and returns its address and the lines it got.
func echoServer(t *testing.T) (address string, got <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	lines := make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for reader := bufio.NewReader(conn); ; {
					line, err := reader.ReadString('\n')
					if err != nil {
						return
					}
					lines <- line
					if _, err := io.WriteString(conn, line); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), lines
}

func proxyTo(t *testing.T, address string) *lab.Proxy {
	t.Helper()
	proxy, err := lab.NewProxy(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

func setMode(t *testing.T, proxy *lab.Proxy, mode lab.ProxyMode) {
	t.Helper()
	if err := proxy.SetMode(mode); err != nil {
		t.Fatal(err)
	}
}

func dial(t *testing.T, proxy *lab.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// say sends a line and returns what comes back within the time.
func say(t *testing.T, conn net.Conn, line string, within time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(conn, line); err != nil {
		return "", err
	}
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, len(line))
	n, err := io.ReadFull(conn, answer)
	return string(answer[:n]), err
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	address, _ := echoServer(t)
	proxy := proxyTo(t, address)
	answer, err := say(t, dial(t, proxy), "hello\n", time.Minute)
	if answer != "hello\n" || err != nil {
		t.Errorf("answer %q, error %v", answer, err)
	}
	if proxy.Accepted() != 1 {
		t.Errorf("%d connections, want 1", proxy.Accepted())
	}
}

func TestProxyRefusesAndComesBack(t *testing.T) {
	t.Parallel()
	address, _ := echoServer(t)
	proxy := proxyTo(t, address)
	open := dial(t, proxy)
	if _, err := say(t, open, "hello\n", time.Minute); err != nil {
		t.Fatal(err)
	}
	setMode(t, proxy, lab.Refuse)
	if answer, err := say(t, open, "hello\n", time.Minute); err == nil {
		t.Errorf("an open connection still answers %q", answer)
	}
	if _, err := net.Dial("tcp", proxy.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling: %v, want refused", err)
	}
	setMode(t, proxy, lab.Forward)
	if _, err := say(t, dial(t, proxy), "hello\n", time.Minute); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestProxyHangsThenGoesOn(t *testing.T) {
	t.Parallel()
	address, got := echoServer(t)
	proxy := proxyTo(t, address)
	setMode(t, proxy, lab.Hang)
	conn := dial(t, proxy)
	if answer, err := say(t, conn, "hello\n", 200*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("answer %q, error %v, want none in time", answer, err)
	}
	setMode(t, proxy, lab.Forward)
	if line := <-got; line != "hello\n" {
		t.Errorf("the server got %q", line)
	}
}

func TestProxySlow(t *testing.T) {
	t.Parallel()
	address, _ := echoServer(t)
	proxy := proxyTo(t, address)
	setMode(t, proxy, lab.Slow)
	conn := dial(t, proxy)
	if answer, err := say(t, conn, "a\n", lab.SlowDelay); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("answer %q, error %v, want none in time", answer, err)
	}
	if answer, err := say(t, conn, "b\n", time.Minute); answer != "a\n" || err != nil {
		t.Errorf("answer %q, error %v", answer, err)
	}
}

func TestProxyTrickles(t *testing.T) {
	t.Parallel()
	address, _ := echoServer(t)
	proxy := proxyTo(t, address)
	setMode(t, proxy, lab.Trickle)
	answer, err := say(t, dial(t, proxy), "0123456789\n", 2500*time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) || len(answer) > 2 {
		t.Errorf("answer %q, error %v, want at most two bytes", answer, err)
	}
}

func TestProxyDropsReplies(t *testing.T) {
	t.Parallel()
	address, got := echoServer(t)
	proxy := proxyTo(t, address)
	conn := dial(t, proxy)
	if _, err := say(t, conn, "first\n", time.Minute); err != nil {
		t.Fatal(err)
	}
	<-got
	setMode(t, proxy, lab.DropReplies)
	answer, err := say(t, conn, "second\n", time.Minute)
	if answer != "" || !errors.Is(err, io.EOF) {
		t.Errorf("answer %q, error %v, want the end of the connection", answer, err)
	}
	if line := <-got; line != "second\n" {
		t.Errorf("the server got %q", line)
	}
}

func TestProxyLosesTheReplyToACreate(t *testing.T) {
	t.Parallel()
	member := shared.Cluster("member")
	proxy := proxyTo(t, member.Address())
	kubeconfig, err := lab.WithServer(member.Kubeconfig(), proxy.Address())
	if err != nil {
		t.Fatal(err)
	}
	client := clientWith(t, kubeconfig)
	if _, err := client.ServerVersion(); err != nil {
		t.Fatal(err)
	}
	setMode(t, proxy, lab.DropReplies)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "reply-lost-" + strings.ToLower(rand.Text())}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), object, metav1.CreateOptions{}); err == nil {
		t.Error("the client got the reply")
	}
	setMode(t, proxy, lab.Forward)
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), object.Name, metav1.GetOptions{}); err != nil {
		t.Errorf("the server has not acted: %v", err)
	}
}
