// Package sshd runs OpenSSH's sshd and ssh-keygen for tests and the demo, on 127.0.0.1 and without rights of root.
package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
)

// privilegeSeparation is where sshd wants an empty folder when it is run by root.
const privilegeSeparation = "/run/sshd"

// Available says why sshd cannot be run here; nil where it can.
func Available() error {
	if _, err := program(); err != nil {
		return err
	}
	_, err := exec.LookPath("ssh-keygen")
	return err
}

// program is the full path of sshd, which is no folder of PATH everywhere. sshd wants to be started by that.
func program() (string, error) {
	if path, err := exec.LookPath("sshd"); err == nil {
		return filepath.Abs(path)
	}
	const usual = "/usr/sbin/sshd"
	if _, err := os.Stat(usual); err != nil {
		return "", errors.New("OpenSSH's sshd is not installed (apt-get install openssh-server)")
	}
	return usual, nil
}

// Options are those of a Server. Its zero value has one host key of type ed25519, and lets nobody in.
type Options struct {
	// HostKeys are the types of host keys, as ssh-keygen names them: ed25519, ecdsa, rsa.
	HostKeys []string
	// HostCertificate is the private key of an authority that signs the host keys; empty for none.
	HostCertificate []byte
	// AuthorizedKeys are lines of authorized_keys.
	AuthorizedKeys []string
	// Config are more lines of sshd_config.
	Config []string
}

// Server lets those who have a key in run commands as the user who has started it. Each connection has an sshd of its own,
// which ends with the connection.
type Server struct {
	dir, sshd, user string
	hostKeys        []string // public ones, as TYPE KEY
	listener        net.Listener

	mu       sync.Mutex
	accepted int
	running  int
	ended    sync.Cond // of mu: an sshd has ended
	log      bytes.Buffer
}

// Start serves at a free port. Keys and configuration are in dir.
func Start(dir string, o Options) (*Server, error) {
	sshd, err := program()
	if err != nil {
		return nil, err
	}
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	if me.Uid == "0" {
		if err := os.MkdirAll(privilegeSeparation, 0o755); err != nil {
			return nil, err
		}
	}
	s := &Server{dir: dir, sshd: sshd, user: me.Username}
	s.ended.L = &s.mu
	if err := s.configure(o); err != nil {
		return nil, err
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	go s.serve()
	return s, nil
}

func (s *Server) configure(o Options) error {
	lines := []string{
		"PidFile none", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"PermitRootLogin prohibit-password", "LogLevel ERROR", "AuthorizedKeysFile " + filepath.Join(s.dir, "authorized_keys"),
	}
	if len(o.HostKeys) == 0 {
		o.HostKeys = []string{"ed25519"}
	}
	for _, kind := range o.HostKeys {
		private, public, err := NewKey(filepath.Join(s.dir, "host-"+kind), kind)
		if err != nil {
			return err
		}
		s.hostKeys = append(s.hostKeys, public)
		lines = append(lines, "HostKey "+private)
		if len(o.HostCertificate) > 0 {
			certificate, err := s.certify(private, o.HostCertificate)
			if err != nil {
				return err
			}
			lines = append(lines, "HostCertificate "+certificate)
		}
	}
	lines = append(lines, o.Config...)
	if err := s.write("sshd_config", lines); err != nil {
		return err
	}
	return s.write("authorized_keys", o.AuthorizedKeys)
}

func (s *Server) write(name string, lines []string) error {
	return os.WriteFile(filepath.Join(s.dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// certify has an authority sign a host key for 127.0.0.1.
func (s *Server) certify(private string, authority []byte) (certificate string, err error) {
	path := filepath.Join(s.dir, "authority")
	if err := os.WriteFile(path, authority, 0o600); err != nil {
		return "", err
	}
	return private + "-cert.pub", keygen("-q", "-s", path, "-I", "host", "-h", "-n", "127.0.0.1", private+".pub")
}

func (s *Server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // stopped
		}
		s.mu.Lock()
		s.accepted++
		s.running++
		s.mu.Unlock()
		go s.handle(conn)
	}
}

// done says that an sshd has ended.
func (s *Server) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.ended.Broadcast()
}

// handle has an sshd talk over conn.
func (s *Server) handle(conn net.Conn) {
	defer s.done()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return // a listener of TCP accepts nothing else
	}
	file, err := tcp.File()
	_ = conn.Close() // the file is another descriptor of it
	if err != nil {
		return
	}
	var stderr bytes.Buffer
	command := exec.Command(s.sshd, "-i", "-e", "-f", filepath.Join(s.dir, "sshd_config"))
	command.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	command.Stdin, command.Stdout, command.Stderr = file, file, &stderr
	err = errors.Join(command.Run(), file.Close())
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.log, "%s%v\n", stderr.String(), err)
}

// Address is HOST:PORT.
func (s *Server) Address() string { return s.listener.Addr().String() }

// User is who one has to be.
func (s *Server) User() string { return s.user }

// URL is that of a path of this machine.
func (s *Server) URL(path string) string { return "ssh://" + s.user + "@" + s.Address() + path }

// HostKeys are the public host keys, as TYPE KEY, in the order of the options.
func (s *Server) HostKeys() []string { return s.hostKeys }

// KnownHosts are the lines of known_hosts that name this server and all of its keys.
func (s *Server) KnownHosts() []byte {
	var out bytes.Buffer
	for _, key := range s.hostKeys {
		fmt.Fprintf(&out, "%s %s\n", s.Name(), key)
	}
	return out.Bytes()
}

// Name is what known_hosts calls this server.
func (s *Server) Name() string {
	host, port, _ := net.SplitHostPort(s.Address()) // it listens there
	return "[" + host + "]:" + port
}

// Accepted is how many connections there were.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Wait returns when no sshd runs any more, and with it nothing that one has run. Connections may come meanwhile and
// afterwards, which a WaitGroup would not allow.
func (s *Server) Wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running > 0 {
		s.ended.Wait()
	}
}

// Log is what those sshds said that have ended.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// Stop accepts no connection any more. Those that are there stay until their client ends them.
func (s *Server) Stop() error { return s.listener.Close() }

// NewKey makes a key of a type without a passphrase, unless args say something else, and returns the path of the private one
// and the public one as TYPE KEY.
func NewKey(path, kind string, args ...string) (private, public string, err error) {
	options := append([]string{"-q", "-t", kind, "-f", path, "-C", ""}, args...)
	if !strings.Contains(strings.Join(args, " "), "-N ") {
		options = append(options, "-N", "")
	}
	if err := keygen(options...); err != nil {
		return "", "", err
	}
	data, err := os.ReadFile(path + ".pub")
	return path, strings.TrimSpace(string(data)), err
}

func keygen(args ...string) error {
	if output, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}
