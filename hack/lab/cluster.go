package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// The components of a cluster that run as processes of their own.
const (
	APIServer         = "apiserver"
	ControllerManager = "controller-manager"
	Scheduler         = "scheduler"
	Kwok              = "kwok"
)

// ErrNotOwned is returned for what can only be done to clusters that the lab itself started.
var ErrNotOwned = errors.New("the cluster was not started by the lab")

// Cluster is one running cluster.
type Cluster struct {
	lab   *Lab
	spec  ClusterSpec
	owned bool
	dir   string

	ca      *authority
	admin   keyPair
	address string
	// kubeletPort is where KWOK answers for the kubelets of all nodes, 0 where it does not.
	kubeletPort int
	kubeconfig  []byte

	mu         sync.Mutex
	components map[string]*Process
}

// Name returns the cluster's name.
func (c *Cluster) Name() string { return c.spec.Name }

// Owned says whether the lab started the cluster. It has not when StandInEnv is set: then the cluster
// cannot be stopped or inspected, and has the nodes that it has.
func (c *Cluster) Owned() bool { return c.owned }

// Address returns HOST:PORT of the API server, e.g. as the target of a Proxy. It stays the same when
// the API server is restarted.
func (c *Cluster) Address() string { return c.address }

// AuditLog returns the path of the API server's audit log, to which each request is appended before it
// is answered, and which a restart continues. See ReadAudit. It is empty if the cluster is not owned.
func (c *Cluster) AuditLog() string {
	if !c.owned {
		return ""
	}
	return filepath.Join(c.dir, "audit.log")
}

// Component returns the process of a component (APIServer, ControllerManager, Scheduler, Kwok), or nil
// if the cluster has none, e.g. to pause KWOK so that pods stay as they are.
func (c *Cluster) Component(name string) *Process { return c.processes()[name] }

func (c *Cluster) processes() map[string]*Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.components)
}

func (c *Cluster) setComponent(name string, process *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.components == nil {
		c.components = map[string]*Process{}
	}
	c.components[name] = process
}

// StopAPIServer ends the API server in good order. Its etcd data stays.
func (c *Cluster) StopAPIServer() error {
	return c.onAPIServer(func(p *Process) error { return p.Stop() })
}

// KillAPIServer ends the API server with SIGKILL.
func (c *Cluster) KillAPIServer() error {
	return c.onAPIServer(func(p *Process) error { return p.Kill() })
}

// PauseAPIServer makes the API server hang: connections are accepted and never answered.
func (c *Cluster) PauseAPIServer() error {
	return c.onAPIServer(func(p *Process) error { return p.Pause() })
}

// ResumeAPIServer undoes PauseAPIServer.
func (c *Cluster) ResumeAPIServer() error {
	return c.onAPIServer(func(p *Process) error { return p.Resume() })
}

func (c *Cluster) onAPIServer(do func(*Process) error) error {
	if !c.owned {
		return ErrNotOwned
	}
	return do(c.Component(APIServer))
}

// StartAPIServer starts the API server again, on the same port and with the same data, and waits
// until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if !c.owned {
		return ErrNotOwned
	}
	process := c.Component(APIServer)
	var err error
	for range bindAttempts {
		if err = c.runAPIServer(ctx, process); err == nil || !process.bindConflict() {
			return err
		}
		time.Sleep(time.Second) // the port cannot change: wait for whoever has it
	}
	return err
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return err
	}
	if err := os.WriteFile(c.KubeconfigPath(), c.kubeconfig, 0o600); err != nil {
		return err
	}
	c.lab.progress("%s: API server is ready", c.spec.Name)
	if c.spec.Controllers {
		if err := c.startController(ControllerManager, "kube-controller-manager", controllerManagerArgs(c)); err != nil {
			return err
		}
	}
	if len(c.spec.Nodes) == 0 {
		return nil
	}
	if err := c.startController(Scheduler, "kube-scheduler", schedulerArgs()); err != nil {
		return err
	}
	if err := c.startController(Kwok, "kwok", kwokArgs(c)); err != nil {
		return err
	}
	if err := c.AddNodes(ctx, c.spec.Nodes...); err != nil {
		return err
	}
	c.lab.progress("%s: %d nodes are ready", c.spec.Name, len(c.spec.Nodes))
	return nil
}

// prepare writes the certificates and configuration files.
func (c *Cluster) prepare() error {
	var err error
	if c.ca, err = newAuthority(c.spec.Name); err != nil {
		return err
	}
	server, err := c.ca.server("kube-apiserver")
	if err != nil {
		return err
	}
	if c.admin, err = c.ca.client("admin", "system:masters"); err != nil {
		return err
	}
	public, private, err := signingKeys()
	if err != nil {
		return err
	}
	if c.spec.Logs {
		if c.kubeletPort, err = freePort(); err != nil {
			return err
		}
	}
	return writeFiles(c.dir, map[string][]byte{
		"ca.crt": c.ca.pem, "server.crt": server.cert, "server.key": server.key,
		"sa.pub": public, "sa.key": private,
		"audit-policy.yaml": auditPolicy(c.spec.AuditLevel),
		"kwok.yaml":         kwokConfig(c.spec.PodSeconds, c.logs()),
	})
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	var err error
	for range bindAttempts {
		port, portErr := freePort()
		if portErr != nil {
			return portErr
		}
		process, processErr := c.lab.process("kube-apiserver", c.spec.Name+"-"+APIServer, apiServerArgs(c, port), nil)
		if processErr != nil {
			return processErr
		}
		c.address = localAddress(port)
		c.kubeconfig, err = kubeconfigFor(c.spec.Name, "https://"+c.address, c.ca.pem, c.admin)
		if err != nil {
			return err
		}
		c.setComponent(APIServer, process)
		if err = c.runAPIServer(ctx, process); err == nil || !process.bindConflict() {
			return err
		}
	}
	return err
}

// runAPIServer starts the process and waits until the server is ready.
func (c *Cluster) runAPIServer(ctx context.Context, process *Process) error {
	client, err := tlsClient(c.ca.pem, c.admin)
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	return waitReady(ctx, process, client, "https://"+c.address+"/readyz", c.lab.options.ReadyTimeout)
}

// startController starts a component that is a client of the API server, and does not wait for it. It
// is a user of its own, named after its program, so that the audit log tells who did what.
func (c *Cluster) startController(component, program string, args []string) error {
	kubeconfig, err := c.KubeconfigFor(program, "system:masters")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.componentKubeconfig(program), kubeconfig, 0o600); err != nil {
		return err
	}
	args = append([]string{"--kubeconfig=" + c.componentKubeconfig(program)}, args...)
	process, err := c.lab.process(program, c.spec.Name+"-"+component, args, nil)
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	c.setComponent(component, process)
	return nil
}

func (c *Cluster) componentKubeconfig(program string) string {
	return filepath.Join(c.dir, program+".kubeconfig")
}

// Kubeconfig returns a self-contained kubeconfig of the user admin, who may do anything.
func (c *Cluster) Kubeconfig() []byte { return bytes.Clone(c.kubeconfig) }

// KubeconfigPath returns where Kubeconfig is on disk.
func (c *Cluster) KubeconfigPath() string { return filepath.Join(c.dir, "kubeconfig") }

// KubeconfigFor returns a self-contained kubeconfig for another user in the given groups, who has no
// rights but those that RBAC objects in the cluster give. It fails if the cluster is not owned.
func (c *Cluster) KubeconfigFor(user string, groups ...string) ([]byte, error) {
	if !c.owned {
		return nil, ErrNotOwned
	}
	pair, err := c.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return kubeconfigFor(c.spec.Name, "https://"+c.address, c.ca.pem, pair)
}

// RESTConfig returns a client configuration with the rights of Kubeconfig and no client-side limit on
// requests.
func (c *Cluster) RESTConfig() (*rest.Config, error) { return restConfig(c.kubeconfig) }

func restConfig(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}
