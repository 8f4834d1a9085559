package v1alpha2

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ownPodLabels are labels of pods that MiniFleet sets, as the Flux Operator does.
var ownPodLabels = []string{"app", "app.kubernetes.io/name", "hpa-selector", "namespace"}

// Warnings are what a valid MiniCluster says without effect, or hardly with the one that was meant. It runs
// nevertheless, as it does under the Flux Operator. The paths start at path, the spec's own; each warning
// says what to do.
func Warnings(spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	spec = spec.DeepCopy()
	spec.Default()
	var w warnings
	for i := range spec.Containers {
		c, at := &spec.Containers[i], path.Child("containers").Index(i)
		if c.RunFlux {
			w.runner(c, at)
		} else {
			w.beside(c, at)
			w.tell(!c.NoWrapEntrypoint && c.Command == "" && !c.Commands.runAnything(), at.Child("command"),
				"the container has none, and ends at once: add it, or set noWrapEntrypoint: true to run what its image runs")
		}
		w.container(c, at)
	}
	for i := range spec.Services {
		c, at := &spec.Services[i], path.Child("services").Index(i)
		w.beside(c, at)
		w.tell(!c.NoWrapEntrypoint && c.Command == "" && c.Commands.Script == "" && c.Commands.runAnything(), at.Child("commands"),
			"run in place of what the image runs, and nothing comes after them: add command, or remove them")
		w.container(c, at)
	}
	w.ports(spec.Containers, path.Child("containers"))
	w.flux(&spec.Flux, path.Child("flux"))
	for _, label := range ownPodLabels {
		_, set := spec.Pod.Labels[label]
		w.tell(set, key(path.Child("pod", "labels"), label), "MiniFleet sets this label to a value of its own: choose another")
	}
	w.tell(spec.Network.DisableAffinity && len(spec.Pod.NodeAffinity) > 0, path.Child("pod", "nodeAffinity"),
		"has no effect with network.disableAffinity: use pod.nodeSelector, or allow affinity")
	return field.ErrorList(w)
}

type warnings field.ErrorList

// tell adds a warning if it applies.
func (w *warnings) tell(applies bool, path *field.Path, detail string) {
	if applies {
		*w = append(*w, field.Forbidden(path, detail))
	}
}

const noRunner = "is for the container that runs Flux, and has no effect here: remove it"

// beside is about a container that does not run Flux.
func (w *warnings) beside(c *MiniClusterContainer, path *field.Path) {
	w.tell(c.Launcher, path.Child("launcher"), noRunner)
	w.tell(c.Batch, path.Child("batch"), noRunner)
	w.tell(c.Logs != "", path.Child("logs"), noRunner)
	w.tell(c.Commands.Prefix != "", path.Child("commands", "prefix"), noRunner)
	w.tell(c.Commands.BrokerPre != "", path.Child("commands", "brokerPre"), noRunner)
	w.tell(c.Commands.WorkerPre != "", path.Child("commands", "workerPre"), noRunner)
	own := "has no effect with noWrapEntrypoint, which leaves the image its entrypoint: remove one of the two"
	w.tell(c.NoWrapEntrypoint && c.Command != "", path.Child("command"), own)
	w.tell(c.NoWrapEntrypoint && c.Commands != (Commands{}), path.Child("commands"), own)
}

// runAnything says whether there is a command that containers beside Flux run.
func (c *Commands) runAnything() bool {
	return c.Script != "" || c.Init != "" || c.Pre != "" || c.ServicePre != "" || c.Post != ""
}

// runner is about the container that runs Flux.
func (w *warnings) runner(c *MiniClusterContainer, path *field.Path) {
	w.tell(c.NoWrapEntrypoint, path.Child("noWrapEntrypoint"), "has no effect on the container that runs Flux, which needs the entrypoint: remove it")
	w.tell(c.Commands.ServicePre != "", path.Child("commands", "servicePre"), "is for the containers beside Flux: use pre")
	w.tell(c.BatchRaw && !c.Batch, path.Child("batchRaw"), "has no effect without batch: set batch: true, or remove it")
	w.tell(c.Logs != "" && !c.Batch, path.Child("logs"), "is for the output of batch jobs: set batch: true, or remove it")
}

// container is about any container.
func (w *warnings) container(c *MiniClusterContainer, path *field.Path) {
	w.tell(c.PullAlways && c.ImagePullPolicy != "" && c.ImagePullPolicy != "Always", path.Child("imagePullPolicy"),
		"pullAlways wins over it: remove one of the two")
	for _, name := range slices.Sorted(maps.Keys(c.Volumes)) {
		v := c.Volumes[name]
		w.tell(v.ReadOnly && v.EmptyDir, key(path.Child("volumes"), name).Child("readOnly"),
			"an emptyDir begins empty, and can only be filled where another container mounts it to write: remove readOnly if none does")
	}
}

// ports is about ports that several containers of a pod, which share an address, say they listen on.
func (w *warnings) ports(containers []MiniClusterContainer, path *field.Path) {
	seen := map[int32]int{}
	for i := range containers {
		for j, port := range containers[i].Ports {
			first, taken := seen[port]
			w.tell(taken && first != i, path.Index(i).Child("ports").Index(j),
				"another container of the pod has this port, and one of them can listen on it: choose another")
			if !taken {
				seen[port] = i
			}
		}
	}
}

func (w *warnings) flux(f *FluxSpec, path *field.Path) {
	w.tell(f.CurveCert != "", path.Child("curveCert"),
		"can be read by all who can read this manifest, and holds a secret key: remove it, and one is made and kept in a Secret")
	known := []string{"fcfs", "easy", "conservative", "hybrid"}
	w.tell(!f.Scheduler.Simple && !slices.Contains(known, f.Scheduler.QueuePolicy), path.Child("scheduler", "queuePolicy"),
		"is none of fcfs, easy, conservative and hybrid: Fluxion may not start")
}
