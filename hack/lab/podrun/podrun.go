// Package podrun runs a container of a pod template, such as a Deployment's, from an unpacked image with runc, so that tests
// execute what is installed: the image's program under the pod's own settings, with the rights of its service account.
//
// The hub admits the pod as a dry run first: its defaults, its service account's token volume and Pod Security are the API
// server's own. Honoured are command, arguments, environment (fields of the pod, Secrets, ConfigMaps), user, groups,
// runAsNonRoot, readOnlyRootFilesystem, capabilities, allowPrivilegeEscalation, volumes (emptyDir, Secret, ConfigMap,
// downward API, projected), HTTP and TCP probes, and the grace period. What is asked for and cannot be had is an error.
//
// Not as on a node: the container uses the network of this machine, so that its ports may have to be moved (Options.Ports);
// limits of CPU and memory are not enforced; no seccomp profile is applied, RuntimeDefault neither; tokens are not bound to a
// pod and not renewed; network policies have no effect; and nothing is started again after it has ended.
package podrun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minifleet/minifleet/hack/lab"
)

// Image is what an image says besides its files, as `Unpack` reads it.
type Image struct {
	Entrypoint, Cmd []string
	// Env is KEY=VALUE each.
	Env []string
	// User is UID or UID:GID, empty for root.
	User       string
	WorkingDir string
	Labels     map[string]string
}

// Options say what to run.
type Options struct {
	// Dir holds everything that is written for this container, with Secrets of the hub in it. It is made when missing, and
	// should be removed with its content by the caller (t.TempDir()).
	Dir string
	// Rootfs is the directory with the image's files, which stays as it is.
	Rootfs string
	Image  Image
	// Hub leads to the hub with the rights of an administrator.
	Hub *rest.Config
	// Namespace is the pod's. Name is its name, by default "pod" with a random suffix.
	Namespace, Name string
	// Template is what is run. Container is the name of the container in it, by default the first.
	Template  corev1.PodTemplateSpec
	Container string
	// Ports maps names of container ports to the flag that sets the address listened at, such as health to
	// --health-probe-bind-address. Each of these gets a free port of this machine; see Pod.Address.
	Ports map[string]string
	// Flags replaces the values of flags, such as --interval-scale, or adds them.
	Flags map[string]string
	// Say is told in which respects the container differs from the template, a line each. Default: standard error.
	Say func(string)
}

// Pod is a container that was started.
type Pod struct {
	// Args is the command line that runs.
	Args []string

	spec      corev1.PodSpec
	container corev1.Container
	ports     map[string]int32
	process   *lab.Process
	dir, id   string
}

// Available returns nil where containers can be run, else why not.
func Available() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("containers run on Linux only, this is %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("running a container with runc takes root here")
	}
	for _, program := range []string{"runc", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is not installed: %w", program, err)
		}
	}
	return nil
}

// Start has the hub admit the pod, and starts the container. It does not wait until it is ready, see Pod.Ready. It is stopped
// with Pod.Stop or Pod.Kill, and dies with this process.
func Start(ctx context.Context, options Options) (*Pod, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(options.Hub)
	if err != nil {
		return nil, err
	}
	pod, err := admit(ctx, client, options)
	if err != nil {
		return nil, fmt.Errorf("the hub does not admit the pod: %w", err)
	}
	container, err := containerOf(pod, options.Container)
	if err != nil {
		return nil, err
	}
	p := &Pod{spec: pod.Spec, container: container, dir: options.Dir, id: options.Name, ports: map[string]int32{}}
	if err := p.movePorts(options); err != nil {
		return nil, err
	}
	if err := p.writeBundle(ctx, source{client: client, hub: options.Hub, pod: pod}, options); err != nil {
		return nil, err
	}
	return p, p.run()
}

func (o *Options) setDefaults() (err error) {
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return err
	}
	if o.Name == "" {
		o.Name = "pod-" + strings.ToLower(rand.Text()[:8])
	}
	if o.Say == nil {
		o.Say = func(line string) { fmt.Fprintln(os.Stderr, line) }
	}
	return os.MkdirAll(o.Dir, 0o755)
}

// admit returns the pod as the hub would create it. Its address is this machine's.
func admit(ctx context.Context, client kubernetes.Interface, options Options) (*corev1.Pod, error) {
	template := options.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name, pod.Namespace = options.Name, options.Namespace
	pod, err := client.CoreV1().Pods(options.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, err
	}
	address, err := machineAddress()
	if err != nil {
		return nil, err
	}
	pod.Status.PodIP, pod.Status.HostIP = address, address
	return pod, nil
}

// machineAddress is an address of this machine that others could use, else a loopback one.
func machineAddress() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.IsGlobalUnicast() && network.IP.To4() != nil {
			return network.IP.String(), nil
		}
	}
	return "127.0.0.1", nil
}

func containerOf(pod *corev1.Pod, name string) (corev1.Container, error) {
	if len(pod.Spec.InitContainers) > 0 {
		return corev1.Container{}, errors.New("init containers are not run here")
	}
	for _, container := range pod.Spec.Containers {
		if name == "" || container.Name == name {
			return container, nil
		}
	}
	return corev1.Container{}, fmt.Errorf("the template has no container %q", name)
}

// movePorts notes where each port of the container is, and replaces the values of flags.
func (p *Pod) movePorts(options Options) error {
	flags := maps.Clone(options.Flags)
	if flags == nil {
		flags = map[string]string{}
	}
	for _, port := range p.container.Ports {
		p.ports[port.Name] = port.ContainerPort
		flag, moved := options.Ports[port.Name]
		if !moved {
			continue
		}
		address, err := lab.FreeAddress()
		if err != nil {
			return err
		}
		_, number, err := net.SplitHostPort(address)
		if err != nil {
			return err
		}
		var free int32
		if _, err := fmt.Sscan(number, &free); err != nil {
			return err
		}
		p.ports[port.Name], flags[flag] = free, ":"+number
	}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		p.container.Args = withFlag(p.container.Args, flag, flags[flag])
		options.Say(fmt.Sprintf("container %s runs with %s=%s, unlike its template", p.container.Name, flag, flags[flag]))
	}
	return nil
}

// withFlag returns the arguments with --flag=value in place of what they say of the flag, or besides.
func withFlag(args []string, flag, value string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if strings.HasPrefix(arg, flag+"=") {
			args[i] = flag + "=" + value
			return args
		}
	}
	return append(args, flag+"="+value)
}

// run starts the container in a process namespace that ends with this process, so that nothing outlives a test.
func (p *Pod) run() error {
	p.process = &lab.Process{
		Name: p.id, Path: "unshare",
		Args:    []string{"--pid", "--fork", "--kill-child", "--mount-proc", "--", "runc", "--root", p.state(), "run", "--bundle", p.bundle(), p.id},
		PidsDir: filepath.Join(p.dir, "pids"), LogsDir: filepath.Join(p.dir, "logs"),
	}
	return p.process.Start()
}

func (p *Pod) state() string  { return filepath.Join(p.dir, "runc") }
func (p *Pod) bundle() string { return filepath.Join(p.dir, "bundle") }

// ID is the container's id, and the pod's name.
func (p *Pod) ID() string { return p.id }

// Address is HOST:PORT at which a named port of the container is, from this machine.
func (p *Pod) Address(port string) string {
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(p.ports[port]))
}

// LogPath is the file with what the container has printed.
func (p *Pod) LogPath() string { return p.process.LogPath() }

// Logs is what the container has printed.
func (p *Pod) Logs() (string, error) {
	data, err := os.ReadFile(p.process.LogPath())
	return string(data), err
}

// Exited is closed when the container has ended.
func (p *Pod) Exited() <-chan struct{} { return p.process.Exited() }

// Stop ends the container as a kubelet does: SIGTERM, and SIGKILL after the pod's grace period. It is an error if it took
// that. Stopping what has ended is none.
func (p *Pod) Stop() error {
	grace := 30 * time.Second
	if seconds := p.spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	if err := p.process.Signal(syscall.SIGTERM); err == nil {
		select {
		case <-p.Exited():
		case <-time.After(grace):
			return errors.Join(fmt.Errorf("%s did not end within %s; %s", p.id, grace, p.process.LogTail()), p.Kill())
		}
	}
	return p.Kill()
}

// Kill ends the container at once.
func (p *Pod) Kill() error {
	if err := p.process.Kill(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(p.state(), p.id)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// What runc notes of a container that was killed. Process ids in it are of a namespace that has ended, and mean nothing
	// in this new one.
	cmd := exec.Command("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "runc", "--root", p.state(), "delete", "--force", p.id)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("removing container %s: %w: %s", p.id, err, output)
	}
	return nil
}
