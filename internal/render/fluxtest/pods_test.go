package fluxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minifleet/minifleet/internal/render"
)

// patience bounds each wait for Flux. It is long, since it only ends tests that hang.
const patience = 2 * time.Minute

// gateway is the address of the switch. Flux takes the interface of the default route for the brokers of a
// batch job, so pods have one.
const gateway = "10.244.255.254"

// network is a switch that pods are plugged into, and the names that they find each other by.
type network struct {
	t        *testing.T
	prefixes []string // of Flux, the first of which is flux-core's
	dir      string
	hub      *exec.Cmd // holds the network namespace of the switch
	pods     int
}

// newNetwork makes a switch. The test is skipped where it cannot be.
func newNetwork(t *testing.T) *network {
	t.Helper()
	prefixes := strings.Split(os.Getenv("MINIFLEET_TEST_FLUX"), ":")
	if prefixes[0] == "" {
		t.Skip("MINIFLEET_TEST_FLUX is not set to the prefix of a flux-core, so no real Flux runs")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can make the namespaces of pods")
	}
	for _, program := range []string{"ip", "nsenter", "unshare", "script", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("pods need iproute2 and util-linux: ", err)
		}
	}
	n := &network{t: t, prefixes: prefixes, dir: t.TempDir()}
	n.write("hosts", "127.0.0.1 localhost\n", 0o644)
	n.hub = n.namespace(syscall.CLONE_NEWNET)
	n.inNetwork(n.hub, "ip", "link", "add", "switch", "type", "bridge")
	n.inNetwork(n.hub, "ip", "address", "add", gateway+"/16", "dev", "switch")
	n.inNetwork(n.hub, "ip", "link", "set", "switch", "up")
	return n
}

// namespace starts a process that does nothing but hold namespaces open until the test ends.
func (n *network) namespace(flags uintptr) *exec.Cmd {
	n.t.Helper()
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	if err := holder.Start(); err != nil {
		n.t.Fatal("cannot make namespaces: ", err)
	}
	n.t.Cleanup(func() {
		_ = holder.Process.Kill()
		_ = holder.Wait()
	})
	return holder
}

func (n *network) inNetwork(holder *exec.Cmd, command ...string) {
	n.t.Helper()
	command = append([]string{"--net", "--uts", "--target", strconv.Itoa(holder.Process.Pid)}, command...)
	if out, err := exec.Command("nsenter", command...).CombinedOutput(); err != nil {
		n.t.Fatalf("nsenter %v: %v\n%s", command, err, out)
	}
}

func (n *network) write(name, text string, mode fs.FileMode) string {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		n.t.Fatal(err)
	}
	return path
}

// deployment is a MiniCluster in a network.
type deployment struct {
	*network
	bundle *render.Bundle
	view   bool
	shared map[string]string // more to mount in each pod: where, and what
}

// deploy renders a MiniCluster, and starts nothing.
func (n *network) deploy(in render.Input) *deployment {
	n.t.Helper()
	bundle, err := render.Render(in)
	if err != nil {
		n.t.Fatal(err)
	}
	return &deployment{
		network: n, bundle: bundle, view: !in.Spec.Flux.Container.Disable, shared: map[string]string{},
	}
}

// pod is what the containers of a pod share.
type pod struct {
	*deployment
	name, dir string
	index     int
	holder    *exec.Cmd
	volumes   map[string]string // the directory of each, by name
	runner    *process
}

// start makes pod INDEX of the Job, runs its init container, and starts the one that runs Flux.
func (d *deployment) start(index int) *pod {
	d.t.Helper()
	d.pods++
	p := &pod{deployment: d, index: index, name: fmt.Sprintf("%s-%d", d.bundle.Job.Name, index), volumes: map[string]string{}}
	p.dir = filepath.Join(d.dir, fmt.Sprintf("%s.%d", p.name, d.pods))
	address := fmt.Sprintf("10.244.0.%d", d.pods)
	p.holder = d.namespace(syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC)
	port := fmt.Sprintf("pod%d", d.pods)
	d.inNetwork(d.hub, "ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(p.holder.Process.Pid))
	d.inNetwork(d.hub, "ip", "link", "set", port, "master", "switch", "up")
	d.inNetwork(p.holder, "ip", "address", "add", address+"/16", "dev", "eth0")
	d.inNetwork(p.holder, "ip", "link", "set", "eth0", "up")
	d.inNetwork(p.holder, "ip", "link", "set", "lo", "up")
	d.inNetwork(p.holder, "ip", "route", "add", "default", "via", gateway)
	d.inNetwork(p.holder, "hostname", p.name)
	d.publish(p.name, index, address)
	p.makeVolumes()

	spec := &d.bundle.Job.Spec.Template.Spec
	if output, code := p.enter(&spec.InitContainers[0], true, spec.InitContainers[0].Command...).wait(); code != 0 {
		d.t.Fatalf("the init container of %s ended with %d:\n%s", p.name, code, output)
	}
	p.restart()
	return p
}

// restart starts the container that runs Flux.
func (p *pod) restart() {
	p.t.Helper()
	p.runner = p.sidecar(p.bundle.Job.Name)
}

// kill ends the pod as a node does that loses its power.
func (p *pod) kill() {
	p.t.Helper()
	p.inNetwork(p.holder, "ip", "link", "delete", "eth0")
	p.runner.signal(syscall.SIGKILL)
	p.runner.wait()
}

// publish names a pod as the headless Service does, in a file that is /etc/hosts of all pods.
func (d *deployment) publish(name string, index int, address string) {
	d.t.Helper()
	service := d.bundle.Services[0]
	if only, ok := service.Spec.Selector[batchv1.JobCompletionIndexAnnotation]; ok && only != strconv.Itoa(index) {
		return
	}
	file, err := os.OpenFile(filepath.Join(d.dir, "hosts"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(file, "%s %s.%s.%s.svc.cluster.local\n", address, name, service.Name, service.Namespace); err != nil {
		d.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// makeVolumes makes a directory for each volume of the pod, and fills those of ConfigMaps and Secrets.
func (p *pod) makeVolumes() {
	p.t.Helper()
	for _, volume := range p.bundle.Job.Spec.Template.Spec.Volumes {
		dir := filepath.Join(p.dir, "volumes", volume.Name)
		p.volumes[volume.Name] = dir
		if err := os.MkdirAll(dir, 0o755); err != nil {
			p.t.Fatal(err)
		}
		if volume.Projected == nil {
			if err := os.Chmod(dir, 0o777); err != nil { // the umask may have taken some of it
				p.t.Fatal(err)
			}
			continue
		}
		below := strings.TrimPrefix(dir, p.network.dir+"/") + "/"
		for _, source := range volume.Projected.Sources {
			if source.ConfigMap != nil {
				for name, text := range p.bundle.ConfigMap.Data {
					p.write(below+name, text, 0o555)
				}
			}
			if source.Secret != nil {
				for _, item := range source.Secret.Items {
					p.write(below+item.Path, string(p.bundle.Secret.Data[item.Key]), fs.FileMode(*item.Mode))
				}
			}
		}
	}
}

// enter runs a command in a container like that one, with its volumes, environment and directory.
func (p *pod) enter(c *corev1.Container, initial bool, command ...string) *process {
	p.t.Helper()
	root, err := os.MkdirTemp(p.dir, "root")
	if err != nil {
		p.t.Fatal(err)
	}
	script := p.write(strings.TrimPrefix(root, p.network.dir+"/")+".sh", p.setup(root, c, initial, command), 0o755)
	return startProcess(p.t, p.name, fmt.Sprintf("exec nsenter --net --uts --ipc --target %d unshare --mount --pid --fork --kill-child bash %s",
		p.holder.Process.Pid, script))
}

// setup is a script that makes the container's root, and becomes its command.
func (p *pod) setup(root string, c *corev1.Container, initial bool, command []string) string {
	var s strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&s, format+"\n", values...) }
	line("set -eu")
	line("mount --make-rprivate /")
	mounts := map[string]string{"/etc/hosts": filepath.Join(p.network.dir, "hosts")}
	for _, prefix := range p.prefixes {
		mounts[prefix] = prefix
	}
	for _, mount := range c.VolumeMounts {
		mounts[mount.MountPath] = p.volumes[mount.Name]
	}
	for path, source := range p.shared {
		mounts[path] = source
	}
	// A root within the pod's directory, of which the sources of the mounts are not hidden by those below.
	line("mount -t tmpfs tmpfs %s", root)
	line("cd %s", root)
	line("mkdir upper work root")
	line("mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root")
	line("cd root")
	line("mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys")
	line("mount -t tmpfs tmpfs tmp && mkdir -p work var/tmp && chmod 1777 tmp work")
	line("touch etc/hosts")
	for path, source := range mounts {
		line("[ -e .%s ] || mkdir -p .%s", path, path)
		line("mount --bind %s .%s", source, path)
	}
	if initial && p.view {
		// The view is built of links to what is installed elsewhere, as Spack does.
		line("rm -rf opt/view opt/views && mkdir -p opt/view")
		for _, prefix := range p.prefixes {
			line("cp -rsn .%s/. opt/view/ 2> /dev/null || cp -rsn %s/. opt/view/", prefix, prefix)
		}
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if !p.view {
		path = p.prefixes[0] + "/bin:" + path
	}
	line("environment=(PATH=%s HOME=/root TERM=dumb HOSTNAME=%s JOB_COMPLETION_INDEX=%d)", path, p.name, p.index)
	for _, variable := range c.Env {
		line("environment+=(%s)", shellWord(variable.Name+"="+variable.Value))
	}
	directory := c.WorkingDir
	if directory == "" {
		directory = "/work"
	}
	user := ""
	if id := p.user(c); id != "" {
		user = fmt.Sprintf("setpriv --reuid=%s --regid=0 --clear-groups ", id)
		line("environment+=(HOME=/)")
	}
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = shellWord(word)
	}
	line(`exec chroot . env -i "${environment[@]}" %sbash -c 'cd %s && exec "$@"' - %s`, user, directory, strings.Join(words, " "))
	return s.String()
}

func (p *pod) user(c *corev1.Container) string {
	if s := c.SecurityContext; s != nil && s.RunAsUser != nil {
		return strconv.FormatInt(*s.RunAsUser, 10)
	}
	if s := p.bundle.Job.Spec.Template.Spec.SecurityContext; s != nil && s.RunAsUser != nil {
		return strconv.FormatInt(*s.RunAsUser, 10)
	}
	return ""
}

func shellWord(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// sidecar starts the container of that name.
func (p *pod) sidecar(name string) *process {
	p.t.Helper()
	c := p.called(name)
	return p.enter(c, false, c.Command...)
}

func (p *pod) called(name string) *corev1.Container {
	p.t.Helper()
	spec := &p.bundle.Job.Spec.Template.Spec
	for i := range spec.Containers {
		if spec.Containers[i].Name == name {
			return &spec.Containers[i]
		}
	}
	p.t.Fatalf("no container %s", name)
	return nil
}

// terminal starts a shell command beside the one that runs Flux, as kubectl exec does.
func (p *pod) terminal(command string) *process {
	p.t.Helper()
	return p.enter(p.called(p.bundle.Job.Name), false, "bash", "-c", command)
}

func (p *pod) exec(command string) (output string, code int) {
	p.t.Helper()
	return p.terminal(command).wait()
}

// process is a container that runs, with a terminal.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	output locked
	done   chan struct{}
}

func startProcess(t *testing.T, name, command string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command("script", "-qefc", command, "/dev/null"), done: make(chan struct{})}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil { // nobody need type, but the terminal is open
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the exit code is read where it is wanted
		close(p.done)
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.done
		_ = p.stdin.Close()
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, p.output.String())
		}
	})
	return p
}

// wait returns what the container wrote, and its exit code, once it has ended.
func (p *process) wait() (output string, code int) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s still runs", p.name)
	}
	return p.output.String(), p.cmd.ProcessState.ExitCode()
}

// input types text at the terminal.
func (p *process) input(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, text); err != nil {
		p.t.Fatal(err)
	}
}

// until waits for text in the container's output.
func (p *process) until(text string) {
	p.t.Helper()
	poll(p.t, fmt.Sprintf("%q in the output of %s", text, p.name), func() bool {
		return strings.Contains(p.output.String(), text)
	})
}

// poll waits for a condition.
func poll(t *testing.T, what string, met func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !met(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain for ", what)
		}
	}
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal to the container's first process, as a kubelet does.
func (p *process) signal(signal syscall.Signal) {
	if p.running() {
		if id := first(p.cmd.Process.Pid); id != 0 {
			_ = syscall.Kill(id, signal)
		}
	}
}

var firstOfNamespace = regexp.MustCompile(`(?m)^NSpid:(\s+[0-9]+)+\s+1$`)

// first is the process below that one which is the first of its namespace, or 0.
func first(id int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", id))
	if err == nil && firstOfNamespace.Match(status) {
		return id
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", id, id))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	for _, child := range strings.Fields(string(children)) {
		if number, err := strconv.Atoi(child); err == nil {
			if found := first(number); found != 0 {
				return found
			}
		}
	}
	return 0
}

// locked is a buffer that is read while it is written.
type locked struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *locked) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(data)
}

// String is what was written, without the terminal's carriage returns.
func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ReplaceAll(l.buffer.String(), "\r", "")
}
