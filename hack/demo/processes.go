package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/minifleet/minifleet/hack/lab"
)

const (
	controllerName = "controller"
	supervisorName = "supervisor"
	gitName        = "git"
	// startTimeout limits how long one process may take until it answers.
	startTimeout = 30 * time.Second
)

// process returns a background process of the demo, ready to be started.
func process(at layout, name, path string, args ...string) *lab.Process {
	return &lab.Process{Name: name, Path: path, Args: args, Dir: at.root, PidsDir: at.pids(), LogsDir: at.logs(), Detach: true}
}

// startController starts the controller, under a supervisor that starts it again when it ends, and waits until it
// answers. The process is the supervisor; the URL is that of the dashboard.
func startController(ctx context.Context, at layout) (p *lab.Process, dashboard string, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	addresses := make([]string, 3)
	for i := range addresses {
		address, err := lab.FreeAddress()
		if err != nil {
			return nil, "", err
		}
		addresses[i] = address
	}
	p = process(at, supervisorName, self, superviseCommand, controllerName, at.bin("minifleet"), "controller",
		"--kubeconfig", at.hub(), "--namespace", systemNamespace,
		"--metrics-bind-address", addresses[0], "--health-probe-bind-address", addresses[1],
		"--dashboard-bind-address", addresses[2], "--dashboard-writes",
		"--git-allowed-cidrs", "127.0.0.0/8,::1/128")
	if err := start(p); err != nil {
		return nil, "", err
	}
	if err := await(ctx, p, func() bool { return answers(ctx, "http://"+addresses[1]+"/healthz") }); err != nil {
		return p, "", fmt.Errorf("%w\n%s", err, controllerLog(at))
	}
	return p, "http://" + addresses[2], nil
}

// controllerLog is the end of the controller's log, however often it was started.
func controllerLog(at layout) string { return process(at, controllerName, "").LogTail() }

// startGit starts the Git server with an empty repository, and returns it and the repository's URL.
func startGit(ctx context.Context, at layout) (*lab.Process, string, error) {
	dir := at.in("git")
	if err := buildGitServer(ctx, at.root, at.in("bin", "gitserver")); err != nil {
		return nil, "", err
	}
	p := process(at, gitName, at.in("bin", "gitserver"), "-dir", dir, "-create", repositoryName)
	if err := start(p); err != nil {
		return nil, "", err
	}
	address := ""
	err := await(ctx, p, func() bool {
		data, err := os.ReadFile(filepath.Join(dir, "address"))
		address = strings.TrimSpace(string(data))
		return err == nil
	})
	p.Args = append(p.Args, "-address", address) // should it be started again
	return p, "http://" + address + "/" + repositoryName + ".git", err
}

// start starts a process. One that ends at once may do so before it is known to have started.
func start(p *lab.Process) error {
	if err := p.Start(); err != nil {
		return fmt.Errorf("%w; %s", err, p.LogTail())
	}
	return nil
}

// await waits until a process is ready, and fails with the end of its log when it ends or takes too long.
func await(ctx context.Context, p *lab.Process, ready func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for !ready() {
		if !p.Running() {
			return ended(p)
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("waiting for the process %s: %w; %s", p.Name, err, p.LogTail())
		}
	}
	return nil
}

func ended(p *lab.Process) error {
	return fmt.Errorf("the process %s has ended; %s", p.Name, p.LogTail())
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// command is how a process is started.
type command struct {
	Path string   `json:"path"`
	Args []string `json:"args"`
}

// writeCommands records how each process is started, for start.
func writeCommands(at layout, processes []*lab.Process) error {
	commands := map[string]command{}
	for _, p := range processes {
		commands[p.Name] = command{Path: p.Path, Args: p.Args}
	}
	data, err := json.MarshalIndent(commands, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(at.commands(), append(data, '\n'), 0o600)
}

func readCommands(at layout) (map[string]command, error) {
	data, err := os.ReadFile(at.commands())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNone
	}
	if err != nil {
		return nil, err
	}
	commands := map[string]command{}
	return commands, json.Unmarshal(data, &commands)
}
