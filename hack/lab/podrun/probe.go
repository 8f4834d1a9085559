package podrun

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Ready waits until the container's readiness probe succeeds, or returns at once where it has none. It fails when the
// container ends, with the end of its log, or ctx does. Probes are more frequent than the template says.
func (p *Pod) Ready(ctx context.Context) error {
	if p.container.ReadinessProbe == nil {
		return nil
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := p.probe(ctx, p.container.ReadinessProbe)
		if err == nil {
			return nil
		}
		select {
		case <-p.Exited():
			return fmt.Errorf("%s ended before it was ready: %s", p.id, p.process.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w; %s", p.id, ctx.Err(), err, p.process.LogTail())
		case <-tick.C:
		}
	}
}

// Live probes once whether the container lives. Where it has no liveness probe, it lives while it runs.
func (p *Pod) Live(ctx context.Context) error {
	select {
	case <-p.Exited():
		return fmt.Errorf("%s has ended: %s", p.id, p.process.LogTail())
	default:
	}
	if p.container.LivenessProbe == nil {
		return nil
	}
	return p.probe(ctx, p.container.LivenessProbe)
}

func (p *Pod) probe(ctx context.Context, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	switch {
	case probe.HTTPGet != nil:
		return p.get(ctx, probe.HTTPGet)
	case probe.TCPSocket != nil:
		address, err := p.addressOf(probe.TCPSocket.Port)
		if err != nil {
			return err
		}
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
	return errors.New("this kind of probe is not supported here")
}

func (p *Pod) get(ctx context.Context, action *corev1.HTTPGetAction) error {
	address, err := p.addressOf(action.Port)
	if err != nil {
		return err
	}
	url := strings.ToLower(first(string(action.Scheme), "HTTP")) + "://" + address + action.Path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	unverified := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // kubelets do not verify certificates either
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: unverified}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// addressOf returns where a port is, which may have been moved, whether it is named or not.
func (p *Pod) addressOf(port intstr.IntOrString) (string, error) {
	for _, declared := range p.container.Ports {
		if port.Type == intstr.String && declared.Name == port.StrVal || port.Type == intstr.Int && declared.ContainerPort == port.IntVal {
			return p.Address(declared.Name), nil
		}
	}
	if port.Type == intstr.String {
		return "", fmt.Errorf("the container has no port %s", port.StrVal)
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(port.IntVal)), nil
}
