package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/minifleet/minifleet/hack/bench/record"
)

// machineOf describes this machine, and the tree at root.
func machineOf(ctx context.Context, root string) record.Machine {
	m := record.Machine{
		CPU: "unknown CPU", Cores: runtime.NumCPU(), Go: runtime.Version(), Kubernetes: "Kubernetes " + kubernetesOf(root),
		Began: time.Now(), LoadBefore: loads(),
	}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		m.CPU = model
	}
	kib, _ := strconv.ParseFloat(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 64)
	m.Memory = fmt.Sprintf("%.1f GiB", kib/(1<<20))
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel = strings.TrimSpace("Linux " + string(release))
	commit, err := exec.CommandContext(ctx, "git", "-C", root, "log", "-1", "--format=%H (%cs)").Output()
	m.Commit = strings.TrimSpace(string(commit))
	changes, failed := exec.CommandContext(ctx, "git", "-C", root, "status", "--porcelain").Output()
	m.Clean = err == nil && failed == nil && len(changes) == 0
	return m
}

// field is the value of the first line of a file that is called name.
func field(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, found := strings.Cut(lines.Text(), ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// kubernetesOf is the version that bin/testcluster is built of.
func kubernetesOf(root string) string {
	text, err := os.ReadFile(filepath.Join(root, "hack", "testcluster", "go.mod"))
	if err != nil {
		return "of unknown version"
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == "k8s.io/kubernetes" {
			return fields[1]
		}
	}
	return "of unknown version"
}

// loads are the machine's loads of 1, 5 and 15 minutes.
func loads() string {
	text, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// loadNow is the machine's load of one minute.
func loadNow() float64 {
	first, _, _ := strings.Cut(loads(), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}
