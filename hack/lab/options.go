package lab

import (
	"fmt"
	"path/filepath"
	"regexp"
	"time"
)

// StandInEnv names the environment variable that holds kubeconfig paths, separated by colons (the
// system's list separator): the clusters that they lead to are used in order instead of started ones.
const StandInEnv = "MINIFLEET_TEST_KUBECONFIGS"

// Hasty is an environment (Options.Env) in which processes save time of the processors at the cost of memory: they
// collect garbage less often. API servers spend a good part of their time on that, above all when they start.
var Hasty = []string{"GOGC=400"}

// Options say what to start.
type Options struct {
	// Dir holds everything that the lab writes: data, certificates, kubeconfigs, logs, pid files. It
	// is made when missing and not removed by Stop.
	Dir string
	// Clusters are started in parallel; names must be unique.
	Clusters []ClusterSpec
	// Detach leaves the processes running when this process ends. They are stopped by Lab.Stop, or
	// from any process by StopAll(Options.PidsDir). Otherwise they die with this process.
	Detach bool
	// PidsDir gets a file per process named after it (etcd, hub-apiserver, alpine-scheduler, ...)
	// that holds its pid. Default: Dir/pids.
	PidsDir string
	// LogsDir gets a file per process with its output, named like the pid file. Default: Dir/logs.
	LogsDir string
	// Env (KEY=VALUE) is added to the environment of each process.
	Env []string
	// Progress is told, in a short text each, what has been reached. It may be called from several
	// goroutines, though never from two at once.
	Progress func(string)
	// ReadyTimeout limits how long Start waits for each thing it starts. Default: 5 minutes, for machines that
	// are very busy; what ends meanwhile is not waited for.
	ReadyTimeout time.Duration
}

// ClusterSpec describes one cluster.
type ClusterSpec struct {
	// Name is part of process and file names: lower-case letters, digits and hyphens.
	Name string
	// Nodes, when there are any, are played by KWOK, and the cluster gets a scheduler and a controller
	// manager: Jobs run.
	Nodes []Node
	// Controllers starts the controller manager also when there are no nodes: namespaces go away when
	// deleted, owned objects are collected.
	Controllers bool
	// PodSeconds is how long a Job's pod runs that does not say (AskSeconds). Default: 3.
	PodSeconds int
	// AuditLevel is the level of the audit log: Metadata (the default), Request or RequestResponse.
	AuditLevel string
	// Logs lets the logs of pods be read through the API server, as from real kubelets. All containers have the one that
	// Cluster.WriteLog writes.
	Logs bool
	// APIServerArgs are further arguments for the API server.
	APIServerArgs []string
}

// Node describes one node.
type Node struct {
	Name string
	// CPU and Memory are quantities, e.g. "64" and "256Gi". GPUs counts nvidia.com/gpu.
	CPU    string
	Memory string
	GPUs   int
	Labels map[string]string
}

var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func (o *Options) setDefaults() error {
	if o.Dir == "" {
		return fmt.Errorf("lab: Options.Dir is empty")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	o.Dir = dir
	if o.PidsDir == "" {
		o.PidsDir = filepath.Join(dir, "pids")
	}
	if o.LogsDir == "" {
		o.LogsDir = filepath.Join(dir, "logs")
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.ReadyTimeout == 0 {
		o.ReadyTimeout = 5 * time.Minute
	}
	seen := map[string]bool{}
	for i := range o.Clusters {
		spec := &o.Clusters[i]
		if !clusterName.MatchString(spec.Name) || spec.Name == etcdName || seen[spec.Name] {
			return fmt.Errorf("lab: cluster %d: name %q is no DNS label, or taken", i, spec.Name)
		}
		seen[spec.Name] = true
		if spec.PodSeconds == 0 {
			spec.PodSeconds = 3
		}
		if spec.AuditLevel == "" {
			spec.AuditLevel = "Metadata"
		}
		spec.Controllers = spec.Controllers || len(spec.Nodes) > 0
	}
	return nil
}
