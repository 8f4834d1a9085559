package v1alpha2

import "strconv"

// Defaults of the schema, and those that the Flux Operator gives to what is empty.
const (
	DefaultImage                 = "ghcr.io/rse-ops/accounting:app-latest"
	DefaultFluxImage             = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"
	DefaultFluxName              = "flux-view"
	DefaultMountPath             = "/mnt/flux"
	DefaultConnectTimeout        = "5s"
	DefaultLogLevel        int32 = 6
	DefaultQueuePolicy           = "fcfs"
	DefaultBrokerPort      int32 = 8050
	DefaultSize            int32 = 1
	DefaultTasks           int32 = 1
	DefaultBackoffLimit    int32 = 100
	DefaultDeadlineSeconds int64 = 31500000
)

// Default fills in what is unset: the defaults of the schema, the one container that runs Flux, and
// the names and sizes of bursted clusters. It changes nothing that is set, and nothing on a second
// call. The defaults that depend on the MiniCluster's name are given by those who know it.
func (s *MiniClusterSpec) Default() {
	setDefault(&s.Size, DefaultSize)
	setDefault(&s.DeadlineSeconds, DefaultDeadlineSeconds)
	if s.Tasks == nil {
		tasks := DefaultTasks
		s.Tasks = &tasks
	}
	if runner := s.FluxRunner(); runner >= 0 {
		s.Containers[runner].RunFlux = true
	}
	for _, containers := range [][]MiniClusterContainer{s.Containers, s.Services} {
		for i := range containers {
			setDefault(&containers[i].Image, DefaultImage)
		}
	}
	// A bursted cluster whose size is unset is as large as this one can become: its hosts are written
	// into the broker's configuration, which a resize must not change.
	s.Flux.setDefaults(s.LargestSize())
}

func (f *FluxSpec) setDefaults(size int32) {
	setDefault(&f.Container.Name, DefaultFluxName)
	setDefault(&f.Container.Image, DefaultFluxImage)
	setDefault(&f.Container.MountPath, DefaultMountPath)
	setDefault(&f.ConnectTimeout, DefaultConnectTimeout)
	setDefault(&f.LogLevel, DefaultLogLevel)
	setDefault(&f.Scheduler.QueuePolicy, DefaultQueuePolicy)
	if f.Bursting.LeadBroker != (FluxBroker{}) {
		setDefault(&f.Bursting.LeadBroker.Port, DefaultBrokerPort)
	}
	for i := range f.Bursting.Clusters {
		cluster := &f.Bursting.Clusters[i]
		setDefault(&cluster.Name, "burst-"+strconv.Itoa(i))
		setDefault(&cluster.Size, size)
	}
}

// FluxRunner returns the index of the container that runs Flux: the first with runFlux, or the only
// container. It is -1 when there is none.
func (s *MiniClusterSpec) FluxRunner() int {
	for i := range s.Containers {
		if s.Containers[i].RunFlux {
			return i
		}
	}
	if len(s.Containers) == 1 {
		return 0
	}
	return -1
}

// Elastic says whether the cluster may be resized while it runs.
func (s *MiniClusterSpec) Elastic() bool {
	return s.MaxSize > 0
}

// LargestSize is the number of brokers that Flux is told to expect: the size that a resize may reach.
func (s *MiniClusterSpec) LargestSize() int32 {
	return max(s.Size, s.MaxSize)
}

func setDefault[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}
