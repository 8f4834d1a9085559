package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/hack/lab"
)

// defaultTimeout is how long the MiniClusters may take until all have completed.
const defaultTimeout = 3 * time.Minute

var (
	errInterrupted = errors.New("interrupted")
	errRunning     = errors.New("a demo runs already: show it with `go run ./hack/demo status`, or end it with `make demo-down`")
)

// runUp starts the demo. Should that fail, or be interrupted, nothing is left of it. Once everything
// runs, a MiniCluster that does not complete is an error too, but everything keeps running, to be
// inspected.
func runUp(ctx context.Context, at layout, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	timeout := flags.Duration("timeout", defaultTimeout, "how long the MiniClusters may take")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		return errUsage
	}
	if err := checkPrograms(at); err != nil {
		return err
	}
	unlock, err := at.lock()
	if err != nil {
		return err
	}
	defer unlock()
	running, err := lab.Running(at.pids())
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return errRunning
	}
	if err := at.clear(); err != nil {
		return err
	}
	u := &up{at: at, out: &console{out: out}, started: time.Now()}
	defer context.AfterFunc(ctx, func() { u.step("interrupted: stopping everything") })()
	names, err := u.all(ctx)
	if err != nil {
		return u.abandon(ctx, err)
	}
	err = u.show(ctx, names, *timeout)
	if ctx.Err() != nil {
		return u.abandon(ctx, err)
	}
	u.say("")
	u.say("%s", nextSteps(kubectlName(at)))
	u.say("")
	u.say("The dashboard: %s%s", u.dashboard, pageMissing(ctx, u.dashboard))
	u.say("Log in with the token in .demo/token, which lets you do everything with MiniFleet's objects here:")
	if token, tokenErr := os.ReadFile(at.token()); tokenErr == nil {
		u.say("%s", strings.TrimSpace(string(token)))
	}
	return err
}

// checkPrograms makes sure that all programs are there before anything is started.
func checkPrograms(at layout) error {
	for _, name := range []string{"minifleet", "testcluster"} {
		if _, err := os.Stat(at.bin(name)); err != nil {
			return fmt.Errorf("bin/%s is missing: run `make demo`, which builds it first", name)
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		return fmt.Errorf("git is needed: %w", err)
	}
	return nil
}

// up is a demo that is being started.
type up struct {
	at         layout
	out        *console
	started    time.Time
	lab        *lab.Lab
	hub        client.Client
	supervisor *lab.Process // of the controller
	dashboard  string       // its URL
	git        *lab.Process
	gitURL     string
}

func (u *up) say(format string, args ...any) { fmt.Fprintf(u.out, format+"\n", args...) }

// step tells, with the seconds since the start, what has been reached.
func (u *up) step(format string, args ...any) {
	u.say("%6.1fs  %s", time.Since(u.started).Seconds(), fmt.Sprintf(format, args...))
}

// all starts everything and returns the names of the MiniClusters that are in Git.
func (u *up) all(ctx context.Context) ([]string, error) {
	names, err := manifestNames()
	if err != nil {
		return nil, err
	}
	// Members connect while the Git server is built.
	for _, do := range []func(context.Context) error{
		u.startClusters, u.prepareHub, u.startController, u.registerMembers, u.serveGit, u.awaitMembers, u.declareFleet, u.openDashboard,
	} {
		if err := do(ctx); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (u *up) startClusters(ctx context.Context) error {
	specs := clusterSpecs()
	u.step("starting %d clusters: a hub and %d members", len(specs), len(members))
	var err error
	u.lab, err = lab.Start(ctx, lab.Options{
		Dir: u.at.in("clusters"), PidsDir: u.at.pids(), LogsDir: u.at.logs(),
		Clusters: specs, Detach: true,
		Progress: func(text string) { u.step("%s", text) },
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(u.at.in("members"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(u.at.hub(), u.lab.Cluster(hubName).Kubeconfig(), 0o600); err != nil {
		return err
	}
	for _, m := range members {
		if err := u.lab.Cluster(m.name).WriteLog(podLog(m.name)...); err != nil {
			return err
		}
		if err := os.WriteFile(u.at.member(m.name), u.lab.Cluster(m.name).Kubeconfig(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (u *up) prepareHub(ctx context.Context) error {
	cluster := u.lab.Cluster(hubName)
	if err := cluster.ApplyCRDs(ctx, u.at.crds()); err != nil {
		return err
	}
	if err := cluster.ApplyPolicies(ctx, u.at.policies()); err != nil {
		return err
	}
	var err error
	if u.hub, err = clusterClient(cluster); err != nil {
		return err
	}
	if err := createSystemNamespace(ctx, u.hub); err != nil {
		return err
	}
	u.step("hub: MiniFleet's kinds and its admission policy are installed")
	return nil
}

func (u *up) startController(ctx context.Context) error {
	var err error
	if u.supervisor, u.dashboard, err = startController(ctx, u.at); err != nil {
		return err
	}
	u.step("the controller runs")
	return nil
}

func (u *up) registerMembers(ctx context.Context) error {
	for _, m := range members {
		kubeconfig, err := admit(ctx, u.lab.Cluster(m.name))
		if err != nil {
			return fmt.Errorf("giving MiniFleet its rights on %s: %w", m.name, err)
		}
		if err := register(ctx, u.hub, m, kubeconfig); err != nil {
			return fmt.Errorf("registering %s: %w", m.name, err)
		}
	}
	return nil
}

func (u *up) awaitMembers(ctx context.Context) error {
	if err := awaitMembers(ctx, u.hub, u.step); err != nil {
		return fmt.Errorf("%w\n%s", err, controllerLog(u.at))
	}
	return nil
}

func (u *up) serveGit(ctx context.Context) error {
	var err error
	if u.git, u.gitURL, err = startGit(ctx, u.at); err != nil {
		return err
	}
	if err := makeClone(ctx, u.at.clone(), u.gitURL); err != nil {
		return err
	}
	if err := pushClone(ctx, u.at.clone()); err != nil {
		return err
	}
	u.step("Git: MiniClusters are pushed to %s", u.gitURL)
	return nil
}

func (u *up) declareFleet(ctx context.Context) error {
	if err := declareFleet(ctx, u.hub, u.gitURL); err != nil {
		return err
	}
	u.step("hub: GitSource %s and Placements gpu-one and south-all are there", repositoryName)
	return u.recordCommands()
}

// recordCommands records how processes are started, for start.
func (u *up) recordCommands() error {
	processes := []*lab.Process{u.supervisor, u.git}
	for _, cluster := range u.lab.Clusters() {
		for _, component := range []string{lab.APIServer, lab.ControllerManager, lab.Scheduler, lab.Kwok} {
			if p := cluster.Component(component); p != nil {
				processes = append(processes, p)
			}
		}
	}
	return writeCommands(u.at, processes)
}

// abandon removes what there is of a demo that could not be started, and says why it could not.
func (u *up) abandon(ctx context.Context, cause error) error {
	if ctx.Err() != nil {
		cause = errInterrupted // and it has been said
	} else {
		u.step("that failed: stopping everything")
	}
	return errors.Join(cause, remove(u.at))
}
