package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
)

// FluxSpec configures the brokers.
type FluxSpec struct {
	// Container holds a copy of Flux, the view, that is shared with the container that runs Flux.
	// +optional
	Container FluxContainer `json:"container,omitzero"`

	// Arch is the architecture of the nodes that pods are put on (kubernetes.io/arch), e.g. arm64.
	// +optional
	Arch string `json:"arch,omitempty"`

	// SubmitCommand stands in for `flux submit`.
	// +optional
	SubmitCommand string `json:"submitCommand,omitempty"`

	// Wrap is given to flux start as --wrap: a command to run the broker under.
	// +optional
	Wrap string `json:"wrap,omitempty"`

	// ConnectTimeout is how long a broker waits for its parent before it tries again.
	// +kubebuilder:default="5s"
	// +default="5s"
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[0-9]+([.][0-9]+)?(ms|s|m|h|d)?$')",message="must be a duration as Flux writes it, such as 5s"
	// +optional
	ConnectTimeout string `json:"connectTimeout,omitempty"`

	// OptionFlags are more flags for the submission, e.g. -ompi=openmpi@5.
	// +optional
	OptionFlags string `json:"optionFlags,omitempty"`

	// MinimalService makes the Service select the lead broker only, which spares the DNS.
	// +optional
	MinimalService bool `json:"minimalService,omitempty"`

	// DisableSocket has Flux choose the place of the local socket.
	// +optional
	DisableSocket bool `json:"disableSocket,omitempty"`

	// Topology of the overlay network (tbon.topo), e.g. kary:2.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z0-9:._/+=,-]+$')",message="must be a topology as Flux writes it, such as kary:2"
	// +optional
	Topology string `json:"topology,omitempty"`

	// NoWaitSocket starts sidecars without waiting for the broker's socket.
	// +optional
	NoWaitSocket bool `json:"noWaitSocket,omitempty"`

	// CompleteWorkers lets a worker whose broker failed complete instead of trying again.
	// +optional
	CompleteWorkers bool `json:"completeWorkers,omitempty"`

	// LogLevel of the brokers, as in syslog: 7 is debug.
	// +kubebuilder:default=6
	// +default=6
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=7
	// +optional
	LogLevel int32 `json:"logLevel,omitempty"`

	// CurveCert is a CURVE certificate to use in place of a generated one. It is readable by all who can
	// read the MiniCluster.
	// +optional
	CurveCert string `json:"curveCert,omitempty"`

	// Scheduler of the brokers.
	// +optional
	Scheduler FluxScheduler `json:"scheduler,omitzero"`

	// MungeSecret is the name of a Secret that holds a munge key, munge.key. It is mounted at /etc/munge in the
	// container that runs Flux.
	// +optional
	MungeSecret string `json:"mungeSecret,omitempty"`

	// Bursting joins brokers of other clusters to this one.
	// +optional
	Bursting Bursting `json:"bursting,omitzero"`

	// BrokerConfig replaces the generated broker.toml.
	// +optional
	BrokerConfig string `json:"brokerConfig,omitempty"`

	// Environment is set where the view is used.
	// +optional
	Environment map[string]string `json:"environment,omitempty"`
}

// FluxContainer is the container that Flux is copied from.
type FluxContainer struct {
	// Disable says that the container that runs Flux brings its own. Configuration is still prepared.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	Disable bool `json:"disable,omitempty"`

	// Name of the container and of the volume that holds the view.
	// +kubebuilder:default="flux-view"
	// +default="flux-view"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label, for it names a container and a volume"
	// +optional
	Name string `json:"name,omitempty"`

	// WorkingDir of the container.
	// +kubebuilder:validation:MaxLength=4095
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="must be an absolute path: begin it with /"
	// +optional
	WorkingDir string `json:"workingDir,omitempty"`

	// PythonPath replaces the view's site-packages on PYTHONPATH.
	// +optional
	PythonPath string `json:"pythonPath,omitempty"`

	// Resources of the container. The pod is Guaranteed only when they are set for cpu and memory.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// ImagePullSecret is the name of a Secret in the namespace to pull the image with.
	// +optional
	ImagePullSecret string `json:"imagePullSecret,omitempty"`

	// Image with a view of Flux at /opt/view, for an operating system like that of the application.
	// +kubebuilder:default="ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"
	// +default="ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"
	// +optional
	Image string `json:"image,omitempty"`

	// PullAlways pulls the image though the node has it.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	PullAlways bool `json:"pullAlways,omitempty"`

	// SecurityContext of the container.
	// +optional
	SecurityContext corev1.SecurityContext `json:"securityContext,omitzero"`

	// MountPath is where the view and the brokers' files are mounted.
	// +kubebuilder:default="/mnt/flux"
	// +default="/mnt/flux"
	// +kubebuilder:validation:MaxLength=4095
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="must be an absolute path: begin it with /"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[:,]') && !self.matches('^/+$')",message="must be neither the root nor contain ':' or ','"
	// +optional
	MountPath string `json:"mountPath,omitempty"`
}

// FluxScheduler configures the scheduler of the brokers.
type FluxScheduler struct {
	// Simple uses sched-simple, which knows no GPUs, in place of Fluxion.
	// +optional
	Simple bool `json:"simple,omitempty"`

	// QueuePolicy of Fluxion: fcfs (the default), easy, and others that it knows.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[A-Za-z0-9_-]+$')",message="must be a policy of Fluxion, such as fcfs or easy"
	// +optional
	QueuePolicy string `json:"queuePolicy,omitempty"`
}

// Bursting joins brokers of other clusters to this one. All clusters must list the same hosts, in the
// same order, so that ranks agree.
//
// +kubebuilder:validation:XValidation:rule="!has(self.hostlist) || size(self.hostlist) == 0 || !has(self.clusters) || size(self.clusters) == 0",message="hostlist and clusters exclude each other: choose one"
type Bursting struct {
	// LeadBroker is the broker to join. It is not set on the cluster that leads.
	// +optional
	LeadBroker FluxBroker `json:"leadBroker,omitzero"`

	// Hostlist of all brokers, in Flux's notation, when the names cannot be derived from clusters.
	// +optional
	Hostlist string `json:"hostlist,omitempty"`

	// Clusters that are burst to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Clusters []BurstedCluster `json:"clusters,omitempty"`
}

// BurstedCluster is a cluster that is burst to.
type BurstedCluster struct {
	// Name that its brokers' hostnames start with. Default: burst-N, N being its place in the list.
	// +optional
	Name string `json:"name,omitempty"`

	// Size is its number of brokers. Default: the size of this cluster.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Size int32 `json:"size,omitempty"`
}

// FluxBroker is the lead broker of another cluster.
type FluxBroker struct {
	// Address (IP address or hostname) that this cluster's brokers can reach it at.
	Address string `json:"address"`

	// Name of the MiniCluster that it leads.
	Name string `json:"name"`

	// Size of the MiniCluster that it leads.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Size int32 `json:"size"`

	// Port that it listens on.
	// +kubebuilder:default=8050
	// +default=8050
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	// +optional
	Port int32 `json:"port,omitempty"`
}
