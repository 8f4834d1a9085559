package fluxtest

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/flux/curve"
	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/podhealth"
	"github.com/minifleet/minifleet/internal/render"
)

type (
	spec      = fluxv1alpha2.MiniClusterSpec
	container = fluxv1alpha2.MiniClusterContainer
)

// miniCluster is a MiniCluster called sample, of that many brokers, whose command is submitted to all.
func miniCluster(t *testing.T, size int32, command string, changes ...func(*spec)) render.Input {
	t.Helper()
	certificate, err := curve.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := spec{
		Size: size, Tasks: ptr.To(int32(0)),
		Containers: []container{{Image: "machine", Command: command, RunFlux: true}},
	}
	for _, change := range changes {
		change(&s)
	}
	return render.Input{Name: "sample", Namespace: "default", CurveCert: certificate.Encode(), Spec: s}
}

// run runs all pods to their end, of which the lead's is to be with that exit code, and the others' with
// 0. It returns what the lead wrote.
func (d *deployment) run(code int) string {
	d.t.Helper()
	var pods []*pod
	for index := range int(*d.bundle.Job.Spec.Completions) {
		pods = append(pods, d.start(index))
	}
	output, got := pods[0].runner.wait()
	if got != code {
		d.t.Errorf("the lead ended with %d, want %d", got, code)
	}
	for _, p := range pods[1:] {
		if _, got := p.runner.wait(); got != 0 {
			d.t.Errorf("%s ended with %d, want 0", p.name, got)
		}
	}
	for _, p := range pods {
		d.checkSecret(p.runner.output.String())
	}
	return output
}

var secretKey = regexp.MustCompile(`secret-key = "(.*)"`)

func (d *deployment) checkSecret(output string) {
	d.t.Helper()
	found := secretKey.FindStringSubmatch(string(d.bundle.Secret.Data["curve.cert"]))
	if found == nil || strings.Contains(output, found[1]) {
		d.t.Error("the output has the secret key")
	}
}

func TestModes(t *testing.T) {
	allHosts := []string{"sample-0\n", "sample-1\n"}
	launcher := func(s *spec) { s.Containers[0].Launcher = true }
	tests := map[string]struct {
		size    int32
		command string
		change  func(*spec)
		code    int
		want    []string // in the lead's output
		wantNot []string
	}{
		"submit":            {command: "hostname", want: allHosts},
		"one broker":        {size: 1, command: "hostname", want: allHosts[:1]},
		"four brokers":      {size: 4, command: "hostname", want: []string{"sample-0\n", "sample-1\n", "sample-2\n", "sample-3\n"}},
		"a failing command": {command: "bash -c 'exit 7'", code: 7},
		"no such command":   {command: "/no/such/command", code: 127},
		"killed":            {command: "bash -c 'kill -KILL $$'", code: 137},
		"ended with 143":    {command: "bash -c 'exit 143'", code: 1},
		"launcher":          {command: "flux run -N 2 hostname", change: launcher, want: allHosts},
		"launcher fails":    {command: "bash -c 'flux run -N 2 hostname; exit 9'", change: launcher, want: allHosts, code: 9},
		"launcher reads what nobody types": {
			command: "bash -c 'read -r -t 1 line; echo status $?'", change: launcher, want: []string{"status 142"},
		},
		"tasks": {command: "hostname", change: func(s *spec) { s.Tasks = ptr.To(int32(4)) }, want: allHosts},
		"environment and directory": {
			command: `printf '%s\n' "$GREETING" "$FLUX_JOB_SIZE" "$FLUX_OUTPUT_DIR"; pwd`,
			change: func(s *spec) {
				s.Containers[0].Environment = map[string]string{"GREETING": "hello $(HOME) 'you'"}
				s.Containers[0].WorkingDir = "/var/tmp"
			},
			want: []string{"hello $(HOME) 'you'\n2\n/tmp/fluxout\n/var/tmp\n"},
		},
		"batch": {
			command: "echo one\necho two\n",
			change: func(s *spec) {
				s.Containers[0].Batch = true
				s.Containers[0].Commands.Post = `cat "${FLUX_OUTPUT_DIR}"/job-*.out`
			},
			want: []string{"one\n", "two\n"},
		},
		"batch fails": {
			command: "true\nfalse\n", change: func(s *spec) { s.Containers[0].Batch = true }, code: 1,
		},
		"batch raw": {
			command: "flux run -N 2 hostname > out\nexit 5\n",
			change: func(s *spec) {
				s.Containers[0].Batch, s.Containers[0].BatchRaw = true, true
				s.Containers[0].Commands.Post = "cat out"
			},
			want: allHosts, code: 1,
		},
		"script": {
			change: func(s *spec) {
				s.Containers[0].Commands.Script = "#!/bin/bash\necho $GREETING from \\$(hostname)\nexit 3\n"
				s.Containers[0].Commands.Pre = "GREETING=hello"
			},
			want: []string{"hello from sample-0\n"}, code: 3,
		},
		"quiet": {
			command: "hostname", change: func(s *spec) { s.Logging.Quiet = true },
			want: allHosts, wantNot: []string{"minifleet", "broker"},
		},
		"strict": {command: "hostname", change: func(s *spec) { s.Logging.Strict = true }, want: allHosts},
		"timed": {
			command: "hostname", change: func(s *spec) { s.Logging.Timed = true },
			want: append([]string{"FLUXTIME fluxstart wall time 0:", "FLUXTIME fluxsubmit wall time 0:"}, allHosts...),
		},
		"debug and zeromq": {
			command: "hostname",
			change:  func(s *spec) { s.Logging.Debug, s.Logging.Zeromq, s.Flux.LogLevel = true, true, 7 },
			want:    append([]string{"debug[0]"}, allHosts...),
		},
		"topology": {
			size: 4, command: "bash -c 'flux getattr tbon.topo; flux getattr tbon.maxlevel'",
			change: func(s *spec) { s.Flux.Topology, s.Containers[0].Launcher = "kary:1", true },
			want:   []string{"kary:1\n3\n"},
		},
		"wide": {
			size: 4, command: "bash -c 'flux getattr tbon.topo; flux getattr tbon.maxlevel'",
			change: launcher, want: []string{"kary:256\n1\n"},
		},
		"minimal service":  {command: "hostname", change: func(s *spec) { s.Flux.MinimalService = true }, want: allHosts},
		"connect timeout":  {command: "flux getattr tbon.connect_timeout", change: func(s *spec) { s.Flux.ConnectTimeout = "9s" }, want: []string{"9s\n"}},
		"wrap":             {command: "hostname", change: func(s *spec) { s.Flux.Wrap = "env,WRAPPED=1" }, want: allHosts},
		"option flags":     {command: "pwd", change: func(s *spec) { s.Flux.OptionFlags = `--cwd="/var/tmp" --env=-*` }, want: []string{"/var/tmp\n"}},
		"submit command":   {command: "hostname", change: func(s *spec) { s.Flux.SubmitCommand = "flux submit --wait" }, want: allHosts},
		"prefix":           {command: "hostname", change: func(s *spec) { s.Containers[0].Commands.Prefix = "env A=b" }, want: allHosts},
		"own Flux":         {command: "hostname", change: func(s *spec) { s.Flux.Container.Disable = true }, want: allHosts},
		"other mount path": {command: "hostname", change: func(s *spec) { s.Flux.Container.MountPath = "/mnt/other" }, want: allHosts},
		"no socket": {
			command: "bash -c 'ls /mnt/flux/config/run/flux; flux getattr local-uri; flux run -N 2 hostname'",
			change:  func(s *spec) { s.Flux.DisableSocket, s.Containers[0].Launcher = true, true },
			want:    allHosts,
		},
		"sched-simple": {
			command: "flux module list", change: func(s *spec) { s.Flux.Scheduler.Simple, s.Containers[0].Launcher = true, true },
			want: []string{"sched-simple"}, wantNot: []string{"fluxion-qmanager"},
		},
		"own Flux with sched-simple": {
			command: "flux module list", change: func(s *spec) {
				s.Flux.Scheduler.Simple, s.Containers[0].Launcher, s.Flux.Container.Disable = true, true, true
			},
			want: []string{"sched-simple"}, wantNot: []string{"fluxion-qmanager"},
		},
		"as another user": {
			command: "id -u",
			change:  func(s *spec) { s.Pod.SecurityContext.RunAsUser = ptr.To(int64(4711)) },
			want:    []string{"4711\n4711\n"},
		},
		"a lead that fails before Flux": {
			size: 1, command: "true",
			change: func(s *spec) { s.Logging.Strict, s.Containers[0].Commands.Pre = true, "exit 6" }, code: 6,
		},
		"a broker that fails": {
			size: 1, command: "true", change: func(s *spec) { s.Flux.BrokerConfig = "not toml" }, code: 1,
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			size := test.size
			if size == 0 {
				size = 2
			}
			var changes []func(*spec)
			if test.change != nil {
				changes = append(changes, test.change)
			}
			output := newNetwork(t).deploy(miniCluster(t, size, test.command, changes...)).run(test.code)
			for _, text := range test.want {
				if !strings.Contains(output, text) {
					t.Errorf("the output has no %q", text)
				}
			}
			for _, text := range test.wantNot {
				if strings.Contains(output, text) {
					t.Errorf("the output has %q", text)
				}
			}
		})
	}
}

// TestFluxion wants flux-sched in the view.
func TestFluxion(t *testing.T) {
	n := newNetwork(t)
	if !n.has("lib/flux/modules/sched-fluxion-qmanager.so") {
		t.Skip("none of the prefixes in MINIFLEET_TEST_FLUX has flux-sched")
	}
	t.Run("loaded by hand", func(t *testing.T) {
		lead := newNetwork(t).deploy(miniCluster(t, 1, "", interactive)).start(0)
		lead.runner.until("quorum-full")
		lead.mustExec("bash /mnt/flux/load-fluxion.sh", "")
		lead.mustExec("flux module list", "sched-fluxion-qmanager")
		lead.mustExec("flux run hostname", "sample-0\n")
	})
	output := n.deploy(miniCluster(t, 2, "bash -c 'flux module list; flux run -N 2 hostname; flux config get sched-fluxion-qmanager'", func(s *spec) {
		s.Containers[0].Launcher, s.Flux.Scheduler.QueuePolicy = true, "easy"
	})).run(0)
	for _, text := range []string{"sched-fluxion-qmanager", "sched-fluxion-resource", "sample-1\n", `"queue-policy":"easy"`} {
		if !strings.Contains(output, text) {
			t.Errorf("the output has no %q", text)
		}
	}
	if strings.Contains(output, "sched-simple") {
		t.Error("sched-simple is loaded besides")
	}
}

func (n *network) has(file string) bool {
	for _, prefix := range n.prefixes {
		if _, err := os.Stat(filepath.Join(prefix, file)); err == nil {
			return true
		}
	}
	return false
}

func interactive(s *spec) { s.Interactive = true }

// mustExec runs a command beside a broker, connected to it, and checks that its output has the text.
func (p *pod) mustExec(command, want string) {
	p.t.Helper()
	output, code := p.exec(". /mnt/flux/flux-view.sh; flux proxy ${fluxsocket} " + command)
	if code != 0 || !strings.Contains(output, want) {
		p.t.Fatalf("in %s, %s ended with %d; want %q in its output:\n%s", p.name, command, code, want, output)
	}
}

// untilUp waits until as many brokers can run jobs.
func (p *pod) untilUp(brokers int) {
	p.t.Helper()
	poll(p.t, fmt.Sprint(brokers, " brokers"), func() bool {
		output, _ := p.exec(". /mnt/flux/flux-view.sh; flux proxy ${fluxsocket} flux resource list -s free,allocated -n -o 'up={nnodes}'")
		up := 0
		for _, found := range regexp.MustCompile("up=([0-9]+)").FindAllStringSubmatch(output, -1) {
			nodes, _ := strconv.Atoi(found[1])
			up += nodes
		}
		return up == brokers
	})
}

func (p *pod) mustEnd(code int) {
	p.t.Helper()
	if _, got := p.runner.wait(); got != code {
		p.t.Errorf("%s ended with %d, want %d", p.name, got, code)
	}
}

// People connect to an interactive MiniCluster from a second shell, and shut it down.
func TestInteractive(t *testing.T) {
	for title, change := range map[string]func(*spec){
		"with the view":              interactive,
		"own Flux":                   func(s *spec) { s.Interactive, s.Flux.Container.Disable = true, true },
		"without a command":          func(*spec) {},
		"an environment of the view": func(s *spec) { s.Interactive, s.Flux.Environment = true, map[string]string{"PATH": "/extra:$PATH"} },
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			d := newNetwork(t).deploy(miniCluster(t, 2, "", change))
			lead, follower := d.start(0), d.start(1)
			lead.runner.until("quorum-full")
			lead.mustExec("flux run -N 2 hostname", "sample-1\n")
			follower.mustExec("flux getattr rank", "1\n")
			connect := lead.terminal("bash /mnt/flux/flux-connect.sh")
			connect.input("flux run -N 2 echo hello-$((40 + 2)); exit\n")
			if output, code := connect.wait(); code != 0 || strings.Count(output, "hello-42\n") != 2 {
				t.Errorf("flux-connect.sh ended with %d:\n%s", code, output)
			}
			if output, code := lead.exec(". /mnt/flux/flux-view.sh; flux proxy ${fluxsocket} flux shutdown --quiet"); code != 0 {
				t.Logf("flux shutdown ended with %d: %s", code, output)
			}
			lead.mustEnd(0)
			follower.mustEnd(0)
		})
	}
}

func TestSidecar(t *testing.T) {
	in := miniCluster(t, 2, "flux run -N 2 sleep 3", func(s *spec) {
		s.Containers[0].Launcher = true
		s.Containers = append(s.Containers, container{
			Name: "side", Image: "machine", Command: "flux proxy ${fluxsocket} flux getattr size; exit 4",
		})
	})
	d := newNetwork(t).deploy(in)
	lead := d.start(0)
	side := lead.sidecar("side")
	d.start(1)
	if output, code := side.wait(); code != 4 || !strings.Contains(output, "2\n") {
		t.Errorf("the sidecar ended with %d: %s", code, output)
	}
	lead.mustEnd(0)
}

// A pod that is asked to end says so with 143, also when its Flux ends well.
func TestSignals(t *testing.T) {
	for title, change := range map[string]func(*spec){
		"plain":       func(*spec) {},
		"timed":       func(s *spec) { s.Logging.Timed = true },
		"interactive": func(s *spec) { s.Interactive, s.Containers[0].Command = true, "" },
	} {
		t.Run("lead, "+title, func(t *testing.T) {
			t.Parallel()
			d := newNetwork(t).deploy(miniCluster(t, 2, "sleep 600", change))
			lead, follower := d.start(0), d.start(1)
			lead.runner.until("quorum-full")
			lead.runner.signal(syscall.SIGTERM)
			lead.mustEnd(143)
			if !strings.Contains(lead.runner.output.String(), "rc3-success") {
				t.Error("the lead's broker did not end in order")
			}
			_ = follower
		})
		t.Run("follower, "+title, func(t *testing.T) {
			t.Parallel()
			d := newNetwork(t).deploy(miniCluster(t, 2, "sleep 600", change))
			lead, follower := d.start(0), d.start(1)
			lead.runner.until("quorum-full")
			follower.runner.signal(syscall.SIGTERM)
			follower.mustEnd(143)
		})
	}
}

// A suspension ends all pods at once. They end in order, well within the 30 s that a kubelet gives them; a launcher that
// waits for a job that does not heed signals is ended in time.
func TestSuspension(t *testing.T) {
	const deaf = "bash -c 'trap : TERM HUP INT; while :; do sleep 1; done'"
	launcher := func(s *spec) { s.Containers[0].Launcher = true }
	for title, test := range map[string]struct {
		size    int32
		command string
		change  func(*spec)
		within  time.Duration
	}{
		"submit":                 {2, "sleep 600", func(*spec) {}, 20 * time.Second},
		"four brokers":           {4, "sleep 600", func(*spec) {}, 20 * time.Second},
		"a job without ears":     {2, deaf, func(*spec) {}, 20 * time.Second},
		"launcher":               {2, "flux run -N 2 sleep 600", launcher, 20 * time.Second},
		"launcher without ears":  {2, "flux run -N 2 " + deaf, launcher, 29 * time.Second},
		"batch":                  {2, "sleep 600", func(s *spec) { s.Containers[0].Batch = true }, 20 * time.Second},
		"timed":                  {2, "sleep 600", func(s *spec) { s.Logging.Timed = true }, 20 * time.Second},
		"interactive":            {2, "", interactive, 20 * time.Second},
		"brokers below a broker": {4, "sleep 600", func(s *spec) { s.Flux.Topology = "kary:1" }, 20 * time.Second},
	} {
		t.Run(title, func(t *testing.T) {
			d := newNetwork(t).deploy(miniCluster(t, test.size, test.command, test.change))
			var pods []*pod
			for index := range int(test.size) {
				pods = append(pods, d.start(index))
			}
			pods[0].runner.until("quorum-full")
			time.Sleep(3 * time.Second) // the command runs
			begun := time.Now()
			for _, p := range pods {
				p.runner.signal(syscall.SIGTERM)
			}
			for _, p := range pods {
				p.mustEnd(143)
			}
			if took := time.Since(begun); took > test.within {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// A follower that comes when the lead has ended tries until it is asked to end, as the Job does then.
func TestFollowerThatComesWhenAllIsDone(t *testing.T) {
	d := newNetwork(t).deploy(miniCluster(t, 3, "hostname", func(s *spec) { s.MinSize, s.Tasks = 2, ptr.To(int32(1)) }))
	lead, first := d.start(0), d.start(1)
	lead.mustEnd(0)
	first.mustEnd(0)
	second := d.start(2)
	second.runner.until("broker.info")
	second.runner.signal(syscall.SIGTERM)
	second.mustEnd(143)
}

// What is left of the lead's log when its pod has ended says why it failed.
func TestWhyItFailed(t *testing.T) {
	for title, test := range map[string]struct {
		command string
		change  func(*spec)
		want    string
	}{
		"a configuration that is none": {"hostname", func(s *spec) { s.Flux.BrokerConfig = "no = toml = at all" }, "broker.toml:1: "},
		"a job that can never run":     {"hostname", func(s *spec) { s.Tasks, s.Flux.OptionFlags = ptr.To(int32(2)), "--cores-per-task=4096" }, "unsatisfiable request"},
		"a program that is not there":  {"/no/such/command", func(*spec) {}, "No such file or directory"},
		"a program with an error":      {"bash -c 'echo the lattice is open >&2; exit 3'", func(*spec) {}, "the lattice is open"},
		"a launcher with an error": {
			"bash -c 'flux run -N 2 hostname; echo the lattice is open; exit 3'", func(s *spec) { s.Containers[0].Launcher = true }, "the lattice is open",
		},
		"a long script": {
			"true; " + strings.Repeat("echo step; ", 40) + "echo the lattice is open >&2; exit 3", func(*spec) {}, "the lattice is open",
		},
		"no Flux": {"hostname", func(s *spec) {
			s.Containers[0].Commands.Init = "flux() { echo ImportError: libpython3.11.so >&2; return 1; }"
		}, "ImportError: libpython3.11.so; flux R encode"},
	} {
		t.Run(title, func(t *testing.T) {
			d := newNetwork(t).deploy(miniCluster(t, 2, test.command, test.change))
			lead := d.start(0)
			d.start(1)
			output, _ := lead.runner.wait()
			if len(output) > 2048 { // as a kubelet keeps it
				output = output[len(output)-2048:]
			}
			got := podhealth.Cause(output)
			t.Logf("%q", got)
			if !strings.Contains(got, test.want) {
				t.Errorf("it says nothing of %q:\n%s", test.want, output)
			}
		})
	}
}

// More brokers than at first may join, up to maxSize, and quit.
func TestElastic(t *testing.T) {
	d := newNetwork(t).deploy(miniCluster(t, 2, "", interactive, func(s *spec) { s.MaxSize = 4 }))
	lead := d.start(0)
	d.start(1)
	lead.runner.until("quorum->run")
	lead.mustExec("flux run -N 2 hostname", "sample-1\n")
	third := d.start(2)
	lead.untilUp(3)
	lead.mustExec("flux run -N 3 hostname", "sample-2\n")
	third.runner.signal(syscall.SIGTERM)
	third.mustEnd(143)
	lead.mustExec("flux run -N 2 hostname", "sample-1\n")
}

func TestMinSize(t *testing.T) {
	d := newNetwork(t).deploy(miniCluster(t, 3, "hostname", func(s *spec) { s.MinSize, s.Tasks = 1, ptr.To(int32(1)) }))
	d.start(0).mustEnd(0)
}

// The others wait for a lead that starts after them, and the lead for them.
func TestBrokersInAnyOrder(t *testing.T) {
	for title, order := range map[string][]int{"lead": {1, 0}, "follower": {0, 1}} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			d := newNetwork(t).deploy(miniCluster(t, 2, "hostname"))
			first := d.start(order[0])
			first.runner.until("broker.info")
			time.Sleep(10 * time.Second) // longer than connectTimeout: what is tested is that it passes
			d.start(order[1]).mustEnd(0)
			first.mustEnd(0)
		})
	}
}

// A follower whose node is lost is replaced, and its broker joins again.
func TestLostFollower(t *testing.T) {
	d := newNetwork(t).deploy(miniCluster(t, 2, "", interactive))
	lead, follower := d.start(0), d.start(1)
	lead.runner.until("quorum-full")
	follower.kill()
	lead.untilUp(1)
	d.start(1)
	lead.untilUp(2)
	lead.mustExec("flux run -N 2 hostname", "sample-1\n")
}

// A lead that is lost is replaced: the command runs once more, with the remaining brokers.
func TestLostLead(t *testing.T) {
	d := newNetwork(t).deploy(miniCluster(t, 2, "sleep 5"))
	lead, follower := d.start(0), d.start(1)
	lead.runner.until("quorum-full")
	lead.runner.signal(syscall.SIGKILL)
	lead.runner.wait()
	d.start(0).mustEnd(0)
	follower.mustEnd(0)
}

// With restartPolicy OnFailure, the container starts again in its pod, on what its broker had stored.
func TestRestartedContainer(t *testing.T) {
	d := newNetwork(t).deploy(miniCluster(t, 2, "sleep 5", func(s *spec) { s.Pod.RestartPolicy = "OnFailure" }))
	lead, follower := d.start(0), d.start(1)
	lead.runner.until("quorum-full")
	lead.runner.signal(syscall.SIGKILL)
	lead.runner.wait()
	lead.restart()
	lead.mustEnd(0)
	follower.mustEnd(0)
}

func TestBursting(t *testing.T) {
	certificate := miniCluster(t, 1, "").CurveCert
	burst := []fluxv1alpha2.BurstedCluster{{Name: "burst", Size: 2}}
	for title, change := range map[string]func(leader, follower *spec){
		"clusters": func(leader, follower *spec) {
			leader.Flux.Bursting.Clusters, follower.Flux.Bursting.Clusters = burst, burst
		},
		"hostlist": func(leader, follower *spec) {
			hostlist := "sample-[0-1],burst-[0-1]"
			leader.Flux.Bursting.Hostlist, follower.Flux.Bursting.Hostlist = hostlist, hostlist
			leader.MinSize = 2
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t)
			leader, follower := miniCluster(t, 2, "", interactive), miniCluster(t, 2, "")
			leader.CurveCert, follower.CurveCert = certificate, certificate
			follower.Name, follower.Namespace = "burst", "elsewhere"
			// The first pod of a network.
			follower.Spec.Flux.Bursting.LeadBroker = fluxv1alpha2.FluxBroker{Name: "sample", Address: "10.244.0.1", Port: 8050, Size: 2}
			change(&leader.Spec, &follower.Spec)
			d := n.deploy(leader)
			lead := d.start(0)
			d.start(1)
			lead.runner.until("quorum->run")
			lead.mustExec("flux run -N 2 hostname", "sample-1\n")
			bursted := n.deploy(follower)
			bursted.start(0)
			last := bursted.start(1)
			lead.untilUp(4)
			lead.mustExec("flux run -N 4 hostname", "burst-1\n")
			lead.mustExec("flux shutdown --quiet || true", "")
			lead.mustEnd(0)
			last.mustEnd(0)
		})
	}
}

// What one MiniCluster's Flux held is there in the next one's, from an archive that people dump.
func TestArchive(t *testing.T) {
	n := newNetwork(t)
	shared := n.dir + "/shared"
	if err := os.Mkdir(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	archive := func(s *spec) { s.Archive.Path = "/shared/flux's archive.tar" }
	first := n.deploy(miniCluster(t, 1, "bash -c 'flux kvs put kept=42 && flux dump \"/shared/flux'\\''s archive.tar\"'", archive,
		func(s *spec) { s.Containers[0].Launcher = true }))
	first.shared["/shared"] = shared
	first.start(0).mustEnd(0)
	second := n.deploy(miniCluster(t, 1, "bash -c 'flux kvs get kept'", archive, func(s *spec) { s.Containers[0].Launcher = true }))
	second.shared["/shared"] = shared
	if output := second.run(0); !strings.Contains(output, "\n42\n") {
		t.Error("the value is not restored")
	}
}

func TestOwnBrokerConfig(t *testing.T) {
	in := miniCluster(t, 2, "flux config get mine.own", func(s *spec) { s.Containers[0].Launcher = true })
	bundle, err := render.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Spec.Flux.BrokerConfig = bundle.ConfigMap.Data["broker.toml"] + "\n[mine]\nown = \"it's \\\"$(mine)\\\"\"\n"
	if output := newNetwork(t).deploy(in).run(0); !strings.Contains(output, `it's "$(mine)"`) {
		t.Error("the broker has another configuration")
	}
}
