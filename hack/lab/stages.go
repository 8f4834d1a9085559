package lab

import (
	_ "embed"
	"strconv"
	"strings"
)

// What a pod may be told, as annotations or labels of the pod (so of a Job's pod template); an
// annotation wins over a label. The values are strings.
const (
	// AskSeconds is how long the pod runs before it ends, in whole seconds; "0" ends it at once.
	// Without it a Job's pod runs for ClusterSpec.PodSeconds, and any other pod runs for ever.
	AskSeconds = "lab.minifleet.dev/seconds"
	// AskHold keeps the pod running while it is "true", whatever AskSeconds says. See Cluster.Release.
	AskHold = "lab.minifleet.dev/hold"
	// AskExitCode makes every container of the pod end with this exit code instead of 0. With
	// restartPolicy Never the pod fails; otherwise its containers are restarted in place, for ever or
	// until the Job's backoffLimit, as on a real node.
	AskExitCode = "lab.minifleet.dev/exit-code"
	// AskExitIndex confines AskExitCode to the pod of an indexed Job with this completion index.
	AskExitIndex = "lab.minifleet.dev/exit-index"
	// AskFailures confines AskExitCode to the first so many times that a container ends within one pod.
	AskFailures = "lab.minifleet.dev/failures"
	// AskWaiting keeps the pod Pending, its containers waiting for this reason, e.g. ImagePullBackOff.
	AskWaiting = "lab.minifleet.dev/waiting"
	// AskEvicted makes the pod fail at once while it is "true", whatever its restartPolicy.
	AskEvicted = "lab.minifleet.dev/evicted"
	// AskLingerSeconds is how long a deleted pod keeps running until it is removed, in whole seconds.
	AskLingerSeconds = "lab.minifleet.dev/linger-seconds"
)

//go:embed stages.yaml
var stagesTemplate string

// askFunctions are the jq functions that the stages share: they answer what a pod was told (ask, asks)
// and what follows from it. endtime is a time and not a span, so that neither an update of the pod nor
// a restart of KWOK starts the pod's seconds anew.
const askFunctions = `
def ask($k): .metadata.annotations["lab.minifleet.dev/" + $k] // .metadata.labels["lab.minifleet.dev/" + $k];
def asks($k): ask($k) != null;
def phase($p): .status.phase == $p;
def deleted: .metadata.deletionTimestamp != null;
def evicted: ask("evicted") == "true";
def live: (deleted or evicted) | not;
def executing: phase("Running") and .status.containerStatuses[0].state.running != null;
def ends: ask("hold") != "true" and (asks("seconds") or any(.metadata.ownerReferences[]?; .kind == "Job"));
def fails: (ask("exit-code") // "0") != "0"
  and ((asks("exit-index") | not) or ask("exit-index") == .metadata.labels["batch.kubernetes.io/job-completion-index"])
  and ((asks("failures") | not) or (ask("failures") | tonumber) > .status.containerStatuses[0].restartCount);
def endtime: (.status.containerStatuses[0].state.running.startedAt | fromdateiso8601)
  + (ask("seconds") // "@SECONDS@" | tonumber) | todate;
`

const logsTemplate = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata:
  name: all
spec:
  logs:
    - logsFile: @LOGS@
      previousLogsFile: @PREVIOUS@
      follow: true
---
`

// kwokConfig returns KWOK's configuration: its options, and a stage for each thing that happens to a
// node or a pod. seconds is how long a Job's pod runs that does not say, logs where the logs of containers are; those
// before their last restart have .previous behind that.
func kwokConfig(seconds int, logs string) []byte {
	const options = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  manageAllNodes: true
  enableDebuggingHandlers: true
  nodeLeaseDurationSeconds: 40
  nodeLeaseParallelism: 4
  nodePlayStageParallelism: 4
  podPlayStageParallelism: 4
  podsOnNodeSyncParallelism: 4
  cidr: 10.0.0.0/16
---
`
	functions := strings.ReplaceAll(askFunctions, "@SECONDS@", strconv.Itoa(seconds))
	functions = strings.Join(strings.Fields(functions), " ")
	return []byte(options + strings.NewReplacer("@LOGS@", strconv.Quote(logs), "@PREVIOUS@", strconv.Quote(logs+".previous")).Replace(logsTemplate) + strings.ReplaceAll(stagesTemplate, "@ASK@", functions))
}
