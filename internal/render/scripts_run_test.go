package render_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/scripttest"
)

// stubFlux stands in for flux: it records its arguments, and runs what the real one would run. Without
// a program, as for a follower, a broker ends with the next of the exit codes in the file codes.
const stubFlux = `#!/bin/bash
echo "flux $*" >> "$RECORD"
command="$1"
shift
case "$command" in
start)
  echo "$PWD|$FLUX_OUTPUT_DIR|$STATE_DIR|$PATH|${PYTHONPATH:-}|${FLUX_MODULE_PATH:-}|${FLUX_RC_EXTRA:-}" > "$RECORD.start"
  while [ "${1:-}" = -o ] || [[ "${1:-}" = --wrap=* ]]; do
    if [ "$1" = -o ]; then shift; fi
    shift
  done
  if [ $# -gt 0 ]; then
    "$@"
    exit $?
  fi
  if [ -n "${HANG:-}" ]; then
    trap 'echo asked >> "$HANG.asked"; if [ -z "${DEAF:-}" ]; then exit "${HANG_CODE:-7}"; fi' TERM
    echo started > "$HANG"
    while [ -e "$RECORD" ] && [ ! -e "$HANG.end" ]; do sleep 0.05; done
    exit 0
  fi
  code=$(head -n 1 "$CODES")
  sed -i 1d "$CODES"
  exit "${code:-0}"
  ;;
submit)
  for argument; do
    shift
    if [ "$argument" = --watch ]; then break; fi
  done
  "$@"
  ;;
batch) bash "${!#}" ;;
job) exit "${WAIT_CODE:-0}" ;;
R) echo '{"version": 1}' ;;
esac
`

// stubTime stands in for GNU time, which images need not have.
const stubTime = `#!/bin/bash
shift
what="${1%% wall*}"
shift
"$@"
code=$?
echo "$what: measured" >&2
exit "$code"
`

// stubSleep stands in for sleep where the time matters: it is over when there is a file of that name.
const stubSleep = `#!/bin/bash
case "$1" in
15|25) while [ -e "$RECORD" ] && [ ! -e "$RECORD.$1" ]; do /bin/sleep 0.05; done ;;
*) exec /bin/sleep "$1" ;;
esac
`

// pod is a directory in place of a pod's root, with the files that its volumes would hold.
type pod struct {
	t    *testing.T
	root string
	in   render.Input
	env  []string
}

// newPod renders the MiniCluster for the pod's root, and runs its init container.
func newPod(t *testing.T, in render.Input, index string) *pod {
	t.Helper()
	p := &pod{t: t, root: t.TempDir(), in: in}
	mount := p.in.Spec.Flux.Container.MountPath
	if mount == "" || mount == fluxv1alpha2.DefaultMountPath {
		mount = "/flux"
	}
	p.in.Spec.Flux.Container.MountPath = p.root + mount
	for _, directory := range []string{"flux_operator", "flux", "bin", "dev", "work", "tmp", "home", "opt/view/bin", "opt/view/lib/python3.11/site-packages"} {
		if err := os.MkdirAll(p.path(directory), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.write("bin/flux", stubFlux)
	p.write("time", stubTime)
	p.write("codes", "")
	bundle := mustRender(t, p.in)
	for name, text := range bundle.ConfigMap.Data {
		for _, directory := range []string{"/flux_operator", "/opt/", "/tmp/custom", "/tmp/flux", "/dev/termination"} {
			text = strings.ReplaceAll(text, directory, p.root+directory)
		}
		text = strings.ReplaceAll(text, "/usr/bin/time", p.path("time"))
		p.write("flux_operator/"+name, text)
	}
	p.write("flux_operator/curve.cert", string(bundle.Secret.Data["curve.cert"]))
	p.env = []string{
		"PATH=" + p.path("bin") + ":" + os.Getenv("PATH"), "HOME=" + p.path("home"), "RECORD=" + p.path("record"),
		"CODES=" + p.path("codes"), "JOB_COMPLETION_INDEX=" + index, "TOKEN=from-the-pod",
	}
	if output, code := p.run("flux-init.sh"); code != 0 {
		t.Fatalf("flux-init.sh: exit code %d\n%s", code, output)
	}
	return p
}

func (p *pod) path(name string) string {
	return filepath.Join(p.root, name)
}

func (p *pod) write(name, text string) {
	p.t.Helper()
	scripttest.Write(p.t, p.path(name), text)
}

func (p *pod) read(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(p.path(name))
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return string(text)
}

// command is one of the pod's scripts. The time limit only ends a script that hangs.
func (p *pod) command(script string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "bash", p.path("flux_operator/"+script))
	cmd.Dir, cmd.Env = p.path("work"), p.env
	cmd.WaitDelay = time.Minute // what a script has left in the background may need it on a busy machine
	return cmd
}

func (p *pod) run(script string) (output string, code int) {
	p.t.Helper()
	out, err := p.command(script).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(out), code
}

// recorded is what flux was called with, without the options of the broker.
func (p *pod) recorded() []string {
	var calls []string
	for line := range strings.Lines(p.read("record")) {
		words := strings.Fields(line)
		var kept []string
		for i := 0; i < len(words); i++ {
			if words[i] == "-o" && words[1] == "start" {
				i++
				continue
			}
			kept = append(kept, words[i])
		}
		calls = append(calls, strings.ReplaceAll(strings.Join(kept, " "), p.root, ""))
	}
	return calls
}

func TestWaitScript(t *testing.T) {
	type runner = fluxv1alpha2.MiniClusterContainer
	encode := "flux R encode --hosts=lammps-[0-1] --local"
	tests := map[string]struct {
		index   string
		command string
		change  func(*fluxv1alpha2.MiniClusterSpec, *runner)
		codes   string   // of a broker without a program, one per line
		want    []string // calls of flux
		output  []string // parts of the output
		none    []string // what the output does not have
		code    int
	}{
		"submit": {
			command: "echo a 'b c' $TOKEN",
			want: []string{
				encode, "flux start flux submit -n 1 --quiet --watch echo a b c from-the-pod",
				"flux submit -n 1 --quiet --watch echo a b c from-the-pod",
			},
			output: []string{"a b c from-the-pod\n"},
		},
		"submit fails": {
			command: "ls /none",
			want: []string{
				encode, "flux start flux submit -n 1 --quiet --watch ls /none", "flux submit -n 1 --quiet --watch ls /none",
			},
			code: 2,
		},
		"a command that is a shell's": {
			command: "echo 'it''s'; exit 5",
			want: []string{
				encode, "flux start flux submit -n 1 --quiet --watch /bin/bash -c echo 'it''s'; exit 5",
				"flux submit -n 1 --quiet --watch /bin/bash -c echo 'it''s'; exit 5",
			},
			output: []string{"its\n"},
			code:   5,
		},
		"a command that is no shell": {
			command: "echo 'open",
			want:    []string{encode, "flux start flux submit -n 1 --quiet --watch /bin/bash -c echo 'open", "flux submit -n 1 --quiet --watch /bin/bash -c echo 'open"},
			code:    2,
		},
		"nodes and flags": {
			command: "true",
			change: func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) {
				four := int32(4)
				s.Tasks, s.Flux.OptionFlags, s.Logging.Debug = &four, `--cwd="$(touch owned)" -x ;`, true
			},
			want: []string{
				encode, "flux start flux submit -N 2 -n 4 --cwd=$(touch owned) -x ; -vvv --quiet --watch true",
				"flux submit -N 2 -n 4 --cwd=$(touch owned) -x ; -vvv --quiet --watch true",
			},
		},
		"prefix and wrap and submit command": {
			command: "true",
			change: func(s *fluxv1alpha2.MiniClusterSpec, c *runner) {
				c.Commands.Prefix, s.Flux.Wrap, s.Flux.SubmitCommand = "env A=b", "strace,-f", "flux run"
			},
			want: []string{encode, "flux start --wrap=strace,-f env A=b flux run -n 1 --quiet --watch true", "flux run -n 1 --quiet --watch true"},
		},
		"launcher": {
			command: "bash -c 'exit 9'",
			change:  func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Launcher = true },
			want:    []string{encode, "flux start bash -c exit 9"},
			code:    9,
		},
		"batch": {
			command: "echo 1\n# no job\necho \"2  3\"\n",
			change:  func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Batch = true },
			want: []string{
				encode, "flux start sh -c flux batch -n 1 --flags=waitable ./flux-job.batch && flux job wait --all",
				"flux batch -n 1 --flags=waitable ./flux-job.batch",
				"flux submit --flags=waitable --error=/tmp/fluxout/job-0.err --output=/tmp/fluxout/job-0.out echo 1",
				"flux submit --flags=waitable --error=/tmp/fluxout/job-2.err --output=/tmp/fluxout/job-2.out echo 2 3",
				"flux queue idle", "flux jobs -a", "flux job wait --all", "flux job wait --all",
			},
		},
		"batch fails": {
			command: "false",
			change:  func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Batch, c.BatchRaw = true, true },
			want: []string{
				encode, "flux start sh -c flux batch -n 1 --flags=waitable ./flux-job.batch && flux job wait --all",
				"flux batch -n 1 --flags=waitable ./flux-job.batch",
			},
			code: 1,
		},
		"script": {
			change: func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) {
				c.Commands.Script = "echo $TOKEN \\${TOKEN}\nTOKEN=task\necho \\${TOKEN}\nEND\nexit 4\n"
			},
			want: []string{
				encode, "flux start flux submit -n 1 --quiet --watch /bin/bash /tmp/custom-entrypoint.sh",
				"flux submit -n 1 --quiet --watch /bin/bash /tmp/custom-entrypoint.sh",
			},
			output: []string{"from-the-pod from-the-pod\ntask\n"},
			code:   4,
		},
		"interactive": {
			change: func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) { s.Interactive = true },
			want:   []string{encode, "flux start"},
		},
		"a broker that fails": {
			codes: "3\n",
			want:  []string{encode, "flux start"},
			code:  3,
		},
		"pieces in their order": {
			command: "pwd",
			change: func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) {
				c.Commands = fluxv1alpha2.Commands{
					Init: "echo one", Pre: "# only\necho two\nmkdir there", BrokerPre: "cd there", WorkerPre: "echo no", Post: "echo three",
				}
			},
			want:   []string{encode, "flux start flux submit -n 1 --quiet --watch pwd", "flux submit -n 1 --quiet --watch pwd"},
			output: []string{"one\n", "two\n", "/there\nthree\n"},
		},
		"post after a failure keeps the exit code": {
			command: "bash -c 'exit 6'",
			change:  func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Commands.Post = "echo afterwards" },
			want:    []string{encode, "flux start flux submit -n 1 --quiet --watch bash -c exit 6", "flux submit -n 1 --quiet --watch bash -c exit 6"},
			output:  []string{"afterwards\n"},
			code:    6,
		},
		"strict stops at what fails": {
			command: "true",
			change: func(s *fluxv1alpha2.MiniClusterSpec, c *runner) {
				s.Logging.Strict, c.Commands.Pre = true, "bash -c 'exit 8'\n"
			},
			want: []string{encode},
			code: 8,
		},
		"not strict goes on": {
			command: "true",
			change:  func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Commands.Pre = "if" },
			want:    []string{encode, "flux start flux submit -n 1 --quiet --watch true", "flux submit -n 1 --quiet --watch true"},
		},
		"strict keeps the exit code": {
			command: "bash -c 'exit 6'",
			change:  func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) { s.Logging.Strict = true },
			want:    []string{encode, "flux start flux submit -n 1 --quiet --watch bash -c exit 6", "flux submit -n 1 --quiet --watch bash -c exit 6"},
			code:    6,
		},
		"a follower": {
			index:   "1",
			command: "echo no",
			change: func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) {
				c.Commands.WorkerPre, c.Commands.BrokerPre = "echo worker", "echo no"
			},
			want:   []string{encode, "flux start"},
			output: []string{"worker\n"},
		},
		"a follower that completes though it fails": {
			index:   "1",
			command: "true",
			change:  func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) { s.Flux.CompleteWorkers = true },
			codes:   "1\n",
			want:    []string{encode, "flux start"},
		},
		"quiet": {
			command: "echo said",
			change: func(s *fluxv1alpha2.MiniClusterSpec, c *runner) {
				s.Logging.Quiet, c.Commands.Pre, c.Commands.BrokerPre = true, "echo no", "echo no"
			},
			want:   []string{encode, "flux start flux submit -n 1 --quiet --watch echo said", "flux submit -n 1 --quiet --watch echo said"},
			output: []string{"said\n"}, none: []string{"minifleet"},
		},
		"timed": {
			command: "bash -c 'exit 3'",
			change:  func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) { s.Logging.Timed = true },
			want: []string{
				encode, "flux start /time -f FLUXTIME fluxsubmit wall time %E flux submit -n 1 --quiet --watch bash -c exit 3",
				"flux submit -n 1 --quiet --watch bash -c exit 3",
			},
			output: []string{"FLUXTIME fluxsubmit: measured\n", "FLUXTIME fluxstart: measured\n"}, code: 3,
		},
		"batch with a name of its own for the output": {
			command: "echo 1",
			change:  func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Batch, c.Logs = true, "/tmp/flux $(touch owned)" },
			want: []string{
				encode, "flux start sh -c flux batch -n 1 --flags=waitable ./flux-job.batch && flux job wait --all",
				"flux batch -n 1 --flags=waitable ./flux-job.batch",
				"flux submit --flags=waitable --error=/tmp/flux $(touch owned)/job-0.err --output=/tmp/flux $(touch owned)/job-0.out echo 1",
				"flux queue idle", "flux jobs -a", "flux job wait --all", "flux job wait --all",
			},
		},
		"an archive that is not there": {
			command: "true",
			change:  func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) { s.Archive.Path = "/none/archive.tgz" },
			want:    []string{encode, "flux start flux submit -n 1 --quiet --watch true", "flux submit -n 1 --quiet --watch true"},
			none:    []string{"Restoring"},
		},
		"pod 0 of a cluster that is burst to": {
			command: "echo no",
			change: func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) {
				s.Flux.Bursting.LeadBroker = fluxv1alpha2.FluxBroker{Name: "lead", Address: "192.0.2.1", Size: 2}
				s.Flux.Bursting.Clusters = []fluxv1alpha2.BurstedCluster{{Name: "lammps", Size: 2}}
			},
			want: []string{"flux R encode --hosts=lead-[0-1],lammps-[0-1] --local", "flux start"},
		},
		"a follower of a broker that fails once": {
			index: "1", command: "true", codes: "1\n",
			want: []string{encode, "flux start", "flux start"},
		},
		"a view that is disabled": {
			command: "true",
			change:  func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) { s.Flux.Container.Disable = true },
			want:    []string{encode, "flux start flux submit -n 1 --quiet --watch true", "flux submit -n 1 --quiet --watch true"},
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			in := minimal(test.command)
			in.Spec = *in.Spec.DeepCopy()
			if test.change != nil {
				test.change(&in.Spec, &in.Spec.Containers[0])
			}
			index := test.index
			if index == "" {
				index = "0"
			}
			p := newPod(t, in, index)
			p.write("codes", test.codes)
			p.write("bin/sleep", "#!/bin/sh\n") // between attempts of a follower
			output, code := p.run("wait-0.sh")
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if diff := cmp.Diff(test.want, p.recorded()); diff != "" {
				t.Errorf("calls of flux (-want +got):\n%s", diff)
			}
			for _, part := range test.output {
				if !strings.Contains(output, part) {
					t.Errorf("the output has no %q", part)
				}
			}
			for _, part := range test.none {
				if strings.Contains(output, part) {
					t.Errorf("the output has %q", part)
				}
			}
			if strings.Contains(output, "secret-key") || strings.Contains(output, "\nno\n") {
				t.Error("the output has what it must not have")
			}
			if _, err := os.Stat(p.path("work/owned")); err == nil {
				t.Error("a value of the spec was run as shell")
			}
			if t.Failed() {
				t.Logf("output:\n%s", output)
			}
		})
	}
}

func TestWaitScriptPreparesTheBroker(t *testing.T) {
	in := minimal("true")
	p := newPod(t, in, "0")
	if output, code := p.run("wait-0.sh"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, output)
	}
	info, err := os.Stat(p.path("flux/config/curve/curve.cert"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the broker's certificate: %v, %v; want mode 0600", info, err)
	}
	for file, want := range map[string]string{
		"flux/config/etc/flux/system/R":           `{"version": 1}` + "\n",
		"flux/config/etc/flux/system/hostlist":    "lammps-[0-1]\n",
		"flux/config/etc/flux/config/broker.toml": p.read("flux_operator/broker.toml"),
		"flux/config/curve/curve.cert":            string(in.CurveCert),
		"flux/flux-view.sh":                       p.read("flux_operator/flux-view.sh"),
	} {
		if got := p.read(file); got != want {
			t.Errorf("%s = %q, want %q", file, got, want)
		}
	}
	if options := p.read("record"); !strings.Contains(options, "-o --config-path="+p.path("flux/config/etc/flux/config")) {
		t.Errorf("the broker is not told of its configuration: %s", options)
	}
}

// Followers run a broker and nothing else, whatever the lead does.
func TestFollowersOfEachMode(t *testing.T) {
	type runner = fluxv1alpha2.MiniClusterContainer
	for mode, change := range map[string]func(*fluxv1alpha2.MiniClusterSpec, *runner){
		"submit":   func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Command = "echo no" },
		"launcher": func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Command, c.Launcher = "echo no", true },
		"batch":    func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Command, c.Batch = "echo no", true },
		"batch raw": func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) {
			c.Command, c.Batch, c.BatchRaw = "echo no", true, true
		},
		"script":      func(_ *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Commands.Script = "echo no" },
		"interactive": func(s *fluxv1alpha2.MiniClusterSpec, _ *runner) { s.Interactive = true },
		"strict":      func(s *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Command, s.Logging.Strict = "echo no", true },
		"quiet":       func(s *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Command, s.Logging.Quiet = "echo no", true },
		"timed":       func(s *fluxv1alpha2.MiniClusterSpec, c *runner) { c.Command, s.Logging.Timed = "echo no", true },
		"own Flux": func(s *fluxv1alpha2.MiniClusterSpec, c *runner) {
			c.Command, s.Flux.Container.Disable = "echo no", true
		},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			in := minimal("")
			in.Spec = *in.Spec.DeepCopy()
			change(&in.Spec, &in.Spec.Containers[0])
			in.Spec.Containers[0].Commands.WorkerPre, in.Spec.Containers[0].Commands.Post = "cd /", "pwd"
			p := newPod(t, in, "1")
			output, code := p.run("wait-0.sh")
			if diff := cmp.Diff([]string{"flux R encode --hosts=lammps-[0-1] --local", "flux start"}, p.recorded()); diff != "" || code != 0 {
				t.Errorf("exit code %d, calls of flux (-want +got):\n%s", code, diff)
			}
			if !strings.Contains(output, "/\n") || strings.Contains(output, "no\n") || p.read("work/flux-job.batch") != "" {
				t.Errorf("a follower does what is for the lead, or not its own: %s", output)
			}
			if started := p.read("record.start"); !strings.HasPrefix(started, "/|") {
				t.Errorf("the broker does not run where workerPre went: %s", started)
			}
		})
	}
}

// What a broker, and so the jobs, find in their environment, and where they run.
func TestBrokerEnvironment(t *testing.T) {
	type change = func(*fluxv1alpha2.MiniClusterSpec)
	view := "/flux/view/lib/python3.11/site-packages|/flux/view/lib/flux/modules|"
	tests := map[string]struct {
		change change
		want   string
	}{
		"with the view": {func(*fluxv1alpha2.MiniClusterSpec) {}, "/work|/tmp/fluxout|/flux/config/var/lib/flux|PATH:/flux/view/bin|" + view},
		"own Flux":      {func(s *fluxv1alpha2.MiniClusterSpec) { s.Flux.Container.Disable = true }, "/work|/tmp/fluxout|/flux/config/var/lib/flux|PATH|||"},
		"logs": {
			func(s *fluxv1alpha2.MiniClusterSpec) { s.Containers[0].Logs = "/tmp/flux logs" },
			"/work|/tmp/flux logs|/flux/config/var/lib/flux|PATH:/flux/view/bin|" + view,
		},
		"Fluxion": {
			func(s *fluxv1alpha2.MiniClusterSpec) { s.Flux.Scheduler.QueuePolicy = "easy" },
			"/work|/tmp/fluxout|/flux/config/var/lib/flux|PATH:/flux/view/bin|" + view + "/flux/view/etc/flux",
		},
		"sched-simple": {
			func(s *fluxv1alpha2.MiniClusterSpec) {
				s.Flux.Scheduler = fluxv1alpha2.FluxScheduler{Simple: true, QueuePolicy: "easy"}
			},
			"/work|/tmp/fluxout|/flux/config/var/lib/flux|PATH:/flux/view/bin|" + view,
		},
		"Python": {
			func(s *fluxv1alpha2.MiniClusterSpec) { s.Flux.Container.PythonPath = "/my path" },
			"/work|/tmp/fluxout|/flux/config/var/lib/flux|PATH:/flux/view/bin|/my path|/flux/view/lib/flux/modules|",
		},
	}
	for title, test := range tests {
		for _, index := range []string{"0", "1"} {
			t.Run(title+" in pod "+index, func(t *testing.T) {
				t.Parallel()
				in := minimal("true")
				in.Spec = *in.Spec.DeepCopy()
				test.change(&in.Spec)
				p := newPod(t, in, index)
				if output, code := p.run("wait-0.sh"); code != 0 {
					t.Fatalf("exit code %d\n%s", code, output)
				}
				got := strings.ReplaceAll(p.read("record.start"), p.path("bin")+":"+os.Getenv("PATH"), "PATH")
				if diff := cmp.Diff(test.want+"\n", strings.ReplaceAll(got, p.root, "")); diff != "" {
					t.Errorf("the broker's directory and environment (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Flux pastes the path of an archive into a shell command, so it gets a plain name.
func TestArchive(t *testing.T) {
	in := minimal("true")
	p := newPod(t, in, "0")
	archive := p.path("it's $(touch owned).tgz")
	p.write("it's $(touch owned).tgz", "archive")
	in.Spec.Archive.Path = archive
	p = newPod(t, in, "0")
	if output, code := p.run("wait-0.sh"); code != 0 {
		t.Fatalf("exit code %d\n%s", code, output)
	}
	link := p.path("tmp/flux-archive")
	if target, err := os.Readlink(link); err != nil || target != archive {
		t.Errorf("the link to the archive is to %q (%v)", target, err)
	}
	if options := p.read("record"); !strings.Contains(options, "-o -Scontent.restore="+link) {
		t.Errorf("the broker is not told of the archive: %s", options)
	}
}

// Sidecars wait for a file that says that Flux has ended, and would wait for ever where it never started.
func TestWaitScriptAlwaysCompletes(t *testing.T) {
	for title, change := range map[string]func(*pod){
		"succeeds":           func(*pod) {},
		"fails":              func(p *pod) { p.write("flux_operator/command-0.sh", "program=(false)\n") },
		"has no certificate": func(p *pod) { _ = os.Remove(p.path("flux_operator/curve.cert")) },
		"exits the script":   func(p *pod) { p.write("flux_operator/command-0.sh", "exit 3\n") },
	} {
		t.Run(title, func(t *testing.T) {
			p := newPod(t, minimal("true"), "0")
			change(p)
			output, _ := p.run("wait-0.sh")
			if _, err := os.Stat(p.path("flux/flux-operator-complete.txt")); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

func TestWaitScriptWithoutTheView(t *testing.T) {
	p := newPod(t, minimal("true"), "0")
	if err := os.Remove(p.path("flux/flux-operator-done.txt")); err != nil {
		t.Fatal(err)
	}
	output, code := p.run("wait-0.sh")
	if code != 1 || !strings.Contains(output, "the init container did not finish") {
		t.Errorf("exit code %d, output %q", code, output)
	}
}

// hang starts the pod's script, and returns once its broker runs.
func (p *pod) hang() *exec.Cmd {
	p.t.Helper()
	p.write("bin/sleep", stubSleep)
	p.env = append(p.env, "HANG="+p.path("started"))
	return p.startUntil("started")
}

// startUntil starts the pod's script, and returns once it has made a file.
func (p *pod) startUntil(file string) *exec.Cmd {
	p.t.Helper()
	cmd := p.command("wait-0.sh")
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.await(file)
	return cmd
}

func (p *pod) await(file string) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); p.read(file) == ""; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("there is no %s", file)
		}
	}
}

func (p *pod) interrupt(cmd *exec.Cmd) {
	p.t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

func (p *pod) mustBeInterrupted(cmd *exec.Cmd) {
	p.t.Helper()
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 143 {
		p.t.Errorf("after SIGTERM: %v, want exit code 143", err)
	}
}

// A broker that is asked to end may do so with 0, and yet the pod has not done what it was for.
func TestWaitScriptPassesSignalsOn(t *testing.T) {
	for _, index := range []string{"0", "1"} {
		for _, code := range []string{"7", "0"} {
			for _, timed := range []bool{false, true} {
				t.Run(fmt.Sprintf("pod %s ends with %s timed %t", index, code, timed), func(t *testing.T) {
					t.Parallel()
					in := minimal("")
					in.Spec.Logging.Timed = timed
					p := newPod(t, in, index)
					p.env = append(p.env, "HANG_CODE="+code)
					cmd := p.hang()
					p.write("record.15", "over")
					p.interrupt(cmd)
					p.mustBeInterrupted(cmd)
					if p.read("started.asked") == "" {
						t.Error("the broker was not asked to end")
					}
				})
			}
		}
	}
}

// Where all pods are asked to end, the lead ends the followers' brokers.
func TestFollowersWaitForTheLead(t *testing.T) {
	p := newPod(t, minimal("true"), "1")
	cmd := p.hang()
	p.interrupt(cmd)
	time.Sleep(200 * time.Millisecond)
	p.write("started.end", "the lead has ended")
	p.mustBeInterrupted(cmd)
	if p.read("started.asked") != "" {
		t.Error("the broker was asked to end before the lead had")
	}
}

// Where the lead is in another cluster, it goes on.
func TestFollowersOfAnotherClusterDoNotWait(t *testing.T) {
	in := minimal("true")
	in.Spec = *in.Spec.DeepCopy()
	in.Spec.Flux.Bursting.LeadBroker = fluxv1alpha2.FluxBroker{Name: "lead", Address: "192.0.2.1", Size: 2}
	in.Spec.Flux.Bursting.Clusters = []fluxv1alpha2.BurstedCluster{{Name: "lammps", Size: 2}}
	p := newPod(t, in, "1")
	cmd := p.hang()
	p.interrupt(cmd)
	p.mustBeInterrupted(cmd)
}

// A pod that takes too long ends before it is killed, whose exit code would fail its Job.
func TestWaitScriptEndsInTime(t *testing.T) {
	const forLong = "touch \"$RECORD\"; echo here > \"$RECORD.here\"; /bin/sleep 30"
	for title, test := range map[string]struct {
		pieces fluxv1alpha2.Commands
		strict bool
		deaf   string // the broker does not heed signals
		until  string // the file that is there once it takes long
	}{
		"init":            {pieces: fluxv1alpha2.Commands{Init: forLong}},
		"pre":             {pieces: fluxv1alpha2.Commands{Pre: forLong}},
		"strict pre":      {pieces: fluxv1alpha2.Commands{Pre: forLong}, strict: true},
		"a broker":        {deaf: "true", until: "started.asked"},
		"post":            {pieces: fluxv1alpha2.Commands{Post: forLong}, until: "record.here"},
		"a shell in post": {pieces: fluxv1alpha2.Commands{Post: "while :; do " + forLong + "; done"}, until: "record.here"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			in := minimal("")
			in.Spec = *in.Spec.DeepCopy()
			in.Spec.Containers[0].Commands, in.Spec.Logging.Strict = test.pieces, test.strict
			p := newPod(t, in, "0")
			p.write("bin/sleep", stubSleep)
			p.env = append(p.env, "DEAF="+test.deaf, "HANG="+p.path("started"))
			if test.until == "" {
				cmd := p.startUntil("record.here")
				p.interrupt(cmd)
				p.mustBeInterrupted(cmd) // at once
				return
			}
			cmd := p.startUntil("started")
			p.interrupt(cmd)
			p.await(test.until)
			p.write("record.25", "over")
			p.mustBeInterrupted(cmd)
			if _, err := os.Stat(p.path("flux/flux-operator-complete.txt")); err != nil {
				t.Error(err)
			}
		})
	}
}

// Exit code 143 is kept for pods that were asked to end, which their Job does not count as a failure.
func TestWaitScriptKeepsItsOwnExitCode(t *testing.T) {
	p := newPod(t, minimal("bash -c 'exit 143'"), "0")
	if output, code := p.run("wait-0.sh"); code != 1 {
		t.Errorf("exit code %d, want 1; output %q", code, output)
	}
}

func TestStartScript(t *testing.T) {
	tests := map[string]struct {
		sidecar fluxv1alpha2.MiniClusterContainer
		strict  bool
		output  string
		code    int
	}{
		"a command": {
			sidecar: fluxv1alpha2.MiniClusterContainer{Command: "echo ${fluxsocket##*/} && exit 3"},
			output:  "local\n", code: 3,
		},
		"a command that replaces the shell": {
			sidecar: fluxv1alpha2.MiniClusterContainer{Command: "exec bash -c 'exit 5'"}, code: 5,
		},
		"pieces in their order": {
			sidecar: fluxv1alpha2.MiniClusterContainer{Command: "echo 4; false", Commands: fluxv1alpha2.Commands{
				Init: "echo 1", Pre: "echo 2", ServicePre: "echo 3", Post: "echo 5",
			}},
			output: "1\n2\n3\n4\n5\n", code: 1,
		},
		"post only": {
			sidecar: fluxv1alpha2.MiniClusterContainer{Commands: fluxv1alpha2.Commands{Post: "echo served; false"}},
			output:  "served\n", code: 1,
		},
		"strict": {
			sidecar: fluxv1alpha2.MiniClusterContainer{Command: "bash -c 'exit 4'\necho no"},
			strict:  true, code: 4,
		},
		"a script": {
			sidecar: fluxv1alpha2.MiniClusterContainer{Commands: fluxv1alpha2.Commands{Script: "echo here\nexit 2"}},
			output:  "here\n", code: 2,
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			in := minimal("true")
			in.Spec.Containers[0].RunFlux = true
			in.Spec.Flux.NoWaitSocket = true
			in.Spec.Logging.Strict = test.strict
			test.sidecar.Name = "side"
			in.Spec.Containers = append(in.Spec.Containers, test.sidecar)
			output, code := newPod(t, in, "0").run("start-1.sh")
			if code != test.code || output != test.output {
				t.Errorf("exit code %d, output %q; want %d, %q", code, output, test.code, test.output)
			}
		})
	}
}

func TestServicesScript(t *testing.T) {
	tests := map[string]struct {
		service fluxv1alpha2.MiniClusterContainer
		strict  bool
		output  string
		code    int
	}{
		"a command": {
			service: fluxv1alpha2.MiniClusterContainer{Command: "echo serving; bash -c 'exit 3'"}, output: "serving\n", code: 3,
		},
		"pieces in their order": {
			service: fluxv1alpha2.MiniClusterContainer{Command: "echo 3; false", Commands: fluxv1alpha2.Commands{
				Init: "echo 1", ServicePre: "echo 2", Post: "echo 4",
			}},
			output: "1\n2\n3\n4\n", code: 1,
		},
		"strict": {
			service: fluxv1alpha2.MiniClusterContainer{Command: "bash -c 'exit 4'\necho no"}, strict: true, code: 4,
		},
		"a script": {
			service: fluxv1alpha2.MiniClusterContainer{Commands: fluxv1alpha2.Commands{Script: "echo here\nexit 2"}},
			output:  "here\n", code: 2,
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			in := minimal("true")
			in.Spec.Logging.Strict = test.strict
			test.service.Name = "service"
			in.Spec.Services = append(in.Spec.Services, test.service)
			p := newPod(t, in, "0")
			output, code := p.run("services-0.sh")
			if code != test.code || output != test.output {
				t.Errorf("exit code %d, output %q; want %d, %q", code, output, test.code, test.output)
			}
		})
	}
}

func TestFluxView(t *testing.T) {
	in := minimal("true")
	in.Spec.Flux.Environment = map[string]string{
		"A": `it's "so" $(touch owned) ` + "`touch owned` \\", "B": "/b:$TOKEN:${TOKEN}:$", "C": "line\nline",
	}
	p := newPod(t, in, "0")
	p.write("flux_operator/show.sh", `. "`+p.path("flux/flux-view.sh")+`"; printf '%s|' "$A" "$B" "$C" "$fluxsocket"`)
	output, code := p.run("show.sh")
	want := `it's "so" $(touch owned) ` + "`touch owned` \\|/b:from-the-pod:from-the-pod:$|line\nline|local://" +
		p.path("flux/config/run/flux/local") + "|"
	if code != 0 || output != want {
		t.Errorf("exit code %d, output %q; want %q", code, output, want)
	}
}
