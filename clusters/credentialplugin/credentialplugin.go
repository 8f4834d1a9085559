// Package credentialplugin runs credential plugins of Kubernetes (client.authentication.k8s.io): programs of the administrator
// of the hub that print credentials for a cluster. What comes in is a Command, what comes out is a Credential.
//
// It is not done with client-go's own support of them, which has no timeout, hands on the whole environment, remembers every
// command that there ever was, and prints to the standard error stream of the controller what a plugin complains of.
package credentialplugin

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
)

// Versions are the API versions of plugins. Both have the same fields.
var Versions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

// execInfo is the variable in which a plugin finds the ExecCredential that it is to answer.
const execInfo = "KUBERNETES_EXEC_INFO"

const (
	// DefaultTimeout is how long a plugin may take. Those of clouds ask a server or two.
	DefaultTimeout = 30 * time.Second
	// waitDelay is how long pipes may stay open behind a plugin that has ended.
	waitDelay = time.Second
	// maxOutput is the most bytes of output that are read: a certificate and its key are less than 10 KiB.
	maxOutput = 256 << 10
	// slots is how many processes of one provider there are at once, so that a hub that starts with many members has memory
	// for them.
	slots = 16
)

// Command is how to run a plugin for one cluster. Nothing of it is secret.
type Command struct {
	// Provider is the name of the plugin in the administrator's file.
	Provider string
	// APIVersion is one of Versions.
	APIVersion string
	// Path is that of the program, or its name, to be found in PATH.
	Path string
	Args []string
	// Env is added to the environment, NAME=VALUE.
	Env []string
	// Cluster is handed to the plugin; nil where it is configured to do without.
	Cluster *clientauthenticationv1.Cluster
}

// Credential is what a plugin has printed: a token, or a certificate with its key, or all of these.
type Credential struct {
	Token string
	// Certificate and Key are PEM data that belong together.
	Certificate, Key []byte
	// Expires is zero where the plugin does not say it.
	Expires time.Time
}

// Runner runs plugins. It is safe for concurrent use.
type Runner struct {
	// Environment is what every plugin gets, NAME=VALUE. The controller's own is not handed on.
	Environment []string
	// Timeout is how long a plugin may take; 0 is DefaultTimeout.
	Timeout time.Duration
	// Now is the clock, by which a credential that has expired already is refused.
	Now func() time.Time

	mu       sync.Mutex
	occupied map[string]chan struct{}
}

// Run runs a plugin, and kills it when it takes too long. The error says what to do, and has nothing of what was printed, which
// may be secret.
func (r *Runner) Run(ctx context.Context, c Command) (Credential, error) {
	release, err := r.acquire(ctx, c.Provider)
	if err != nil {
		return Credential{}, err
	}
	defer release()
	out, err := r.run(ctx, c)
	if err != nil {
		return Credential{}, fmt.Errorf("the credential plugin of provider %s (%s) %w", c.Provider, c.Path, err)
	}
	credential, err := read(c.APIVersion, out, r.Now())
	if err != nil {
		return Credential{}, fmt.Errorf("the credential plugin of provider %s (%s) has printed %w", c.Provider, c.Path, err)
	}
	return credential, nil
}

// acquire waits for one of the processes that a provider may have.
func (r *Runner) acquire(ctx context.Context, provider string) (release func(), err error) {
	r.mu.Lock()
	if r.occupied == nil {
		r.occupied = map[string]chan struct{}{}
	}
	slot := r.occupied[provider]
	if slot == nil {
		slot = make(chan struct{}, slots)
		r.occupied[provider] = slot
	}
	r.mu.Unlock()
	select {
	case slot <- struct{}{}:
		return func() { <-slot }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run returns what a plugin has printed.
func (r *Runner) run(ctx context.Context, c Command) ([]byte, error) {
	info, err := request(c)
	if err != nil {
		return nil, err // not reachable: these are plain values
	}
	timeout := r.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, c.Path, c.Args...) //nolint:gosec // the administrator of the hub says which program
	cmd.Env = slices.Concat(r.Environment, c.Env, []string{execInfo + "=" + string(info)})
	stdout := &bounded{full: cancel}
	cmd.Stdout, cmd.WaitDelay = stdout, waitDelay
	inGroup(cmd)
	err = cmd.Run()
	endGroup(cmd)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case stdout.over:
		return nil, fmt.Errorf("prints more than %d KiB, and was killed: it is to print an ExecCredential", maxOutput>>10)
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("has not ended within %s, and was killed: run it by hand to see what it waits for", timeout)
	case err != nil:
		return nil, ended(err)
	}
	return stdout.buffer.Bytes(), nil
}

// ended says why a plugin has no output, without what it has printed.
func ended(err error) error {
	var status *exec.ExitError
	switch {
	case errors.As(err, &status):
		return fmt.Errorf("has failed (%s): run it by hand with the variables that it is given, since what it prints is not shown", status.ProcessState)
	case errors.Is(err, exec.ErrWaitDelay):
		return errors.New("has ended, and a process that it has started holds its output open: it is to end with it")
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("is not in PATH of the controller: name it with its path, or put it there")
	default:
		return fmt.Errorf("cannot be started: %w", err)
	}
}

// request is the ExecCredential that a plugin is to answer.
func request(c Command) ([]byte, error) {
	return json.Marshal(&clientauthenticationv1.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: c.APIVersion, Kind: "ExecCredential"},
		Spec:     clientauthenticationv1.ExecCredentialSpec{Cluster: c.Cluster},
	})
}

// read takes the answer of a plugin. No error quotes it.
func read(version string, out []byte, now time.Time) (Credential, error) {
	var answer clientauthenticationv1.ExecCredential
	if err := json.Unmarshal(out, &answer); err != nil || answer.Kind != "ExecCredential" {
		return Credential{}, errors.New("no JSON of kind ExecCredential")
	}
	if answer.APIVersion != version {
		return Credential{}, fmt.Errorf("an ExecCredential of another apiVersion than %s, which the file of providers says", version)
	}
	s := answer.Status
	switch {
	case s == nil || s.Token == "" && s.ClientCertificateData == "" && s.ClientKeyData == "":
		return Credential{}, errors.New("neither a token nor a certificate in status")
	case (s.ClientCertificateData == "") != (s.ClientKeyData == ""):
		return Credential{}, errors.New("a certificate without its key, or a key without its certificate")
	case !headerValue(s.Token):
		return Credential{}, errors.New("a token with characters that no token has")
	case s.ExpirationTimestamp != nil && !s.ExpirationTimestamp.After(now):
		return Credential{}, errors.New("a credential that has expired already: are the clocks right?")
	}
	if s.ClientKeyData != "" {
		if _, err := tls.X509KeyPair([]byte(s.ClientCertificateData), []byte(s.ClientKeyData)); err != nil {
			return Credential{}, errors.New("a certificate and a key that do not belong together, or are no PEM data")
		}
	}
	credential := Credential{Token: s.Token, Certificate: []byte(s.ClientCertificateData), Key: []byte(s.ClientKeyData)}
	if s.ExpirationTimestamp != nil {
		credential.Expires = s.ExpirationTimestamp.Time
	}
	return credential, nil
}

// headerValue says whether a token can be sent: it has visible characters of ASCII alone.
func headerValue(token string) bool {
	return !slices.ContainsFunc([]byte(token), func(b byte) bool { return b <= ' ' || b >= 0x7f })
}

// bounded keeps the begin of an output, and ends its process when there is more.
type bounded struct {
	buffer bytes.Buffer
	full   func()
	over   bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.buffer.Len()+len(p) > maxOutput {
		b.over = true
		b.full()
		return len(p), nil
	}
	return b.buffer.Write(p)
}
