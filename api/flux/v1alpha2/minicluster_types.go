package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MiniCluster is a Flux cluster, as an indexed Job: one pod per broker, of which index 0 leads.
//
// It has no status here: what became of it is told by the FleetMiniCluster that carries its spec.
//
// +kubebuilder:object:root=true
// +kubebuilder:skipversion
type MiniCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MiniClusterSpec `json:"spec,omitempty"`
}

// MiniClusterList is a list of MiniClusters.
//
// +kubebuilder:object:root=true
type MiniClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MiniCluster `json:"items"`
}

// MiniClusterSpec says what a MiniCluster runs, and on how many pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSize) || self.maxSize == 0 || self.size <= self.maxSize",message="size must not be above maxSize: raise maxSize or lower size"
// +kubebuilder:validation:XValidation:rule="!has(self.minSize) || self.minSize <= self.size",message="minSize must not be above size: lower minSize or raise size"
// +kubebuilder:validation:XValidation:rule="size(self.containers) == 1 || self.containers.filter(c, has(c.runFlux) && c.runFlux).size() == 1",message="exactly one container runs Flux: set runFlux: true on one"
// +kubebuilder:validation:XValidation:rule="size(self.containers) == 1 || self.containers.all(c, (has(c.runFlux) && c.runFlux) || has(c.name) && c.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(c.name) <= 63)",message="every container but the one that runs Flux needs a name: use a DNS label of at most 63 characters"
// +kubebuilder:validation:XValidation:rule="self.containers.all(c, !(has(c.launcher) && c.launcher && has(c.batch) && c.batch))",message="launcher and batch exclude each other: choose one"
// +kubebuilder:validation:XValidation:rule="self.containers.all(c, !(size(self.containers) == 1 || has(c.runFlux) && c.runFlux) || !has(c.command) || size(c.command) == 0 || !has(c.commands) || !has(c.commands.script) || size(c.commands.script) == 0)",message="command and commands.script exclude each other in the container that runs Flux: choose one"
// +kubebuilder:validation:XValidation:rule="!has(self.services) || self.services.all(c, has(c.name) && c.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(c.name) <= 63)",message="every service needs a name: use a DNS label of at most 63 characters"
// +kubebuilder:validation:XValidation:rule="!has(self.services) || self.services.all(c, !has(c.runFlux) || !c.runFlux)",message="a service runs beside Flux: move it to containers, or remove runFlux"
// +kubebuilder:validation:XValidation:rule="!has(self.services) || self.services.all(c, !has(c.commands) || (!has(c.commands.pre) || size(c.commands.pre) == 0) && (!has(c.commands.brokerPre) || size(c.commands.brokerPre) == 0) && (!has(c.commands.workerPre) || size(c.commands.workerPre) == 0))",message="a service has no broker: use commands.servicePre in place of pre, brokerPre and workerPre"
type MiniClusterSpec struct {
	// Containers of every pod. Exactly one runs Flux: the only one, or the one with runFlux.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Containers []MiniClusterContainer `json:"containers"`

	// Services are containers of one more pod, NAME-services, beside the cluster's own.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Services []MiniClusterContainer `json:"services,omitempty"`

	// Network of the cluster's pods.
	// +optional
	Network Network `json:"network,omitzero"`

	// JobLabels are labels of the Job, not of its pods.
	// +optional
	JobLabels map[string]string `json:"jobLabels,omitempty"`

	// Interactive starts the brokers with no command, so that people connect and submit work.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	Interactive bool `json:"interactive,omitempty"`

	// Flux configures the brokers.
	// +optional
	Flux FluxSpec `json:"flux,omitzero"`

	// Logging chooses what is written to the pods' logs.
	// +optional
	Logging LoggingSpec `json:"logging,omitzero"`

	// Archive of Flux's content store, loaded by the lead broker when it starts.
	// +optional
	Archive MiniClusterArchive `json:"archive,omitzero"`

	// ShareProcessNamespace lets the containers of a pod see each other's processes.
	// +optional
	ShareProcessNamespace bool `json:"shareProcessNamespace,omitempty"`

	// Cleanup removes what the MiniCluster created when it has completed.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	Cleanup bool `json:"cleanup,omitempty"`

	// Size is the number of pods, and so of brokers. In Go, 0 stands for unset.
	// +kubebuilder:default=1
	// +default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	// +optional
	Size int32 `json:"size,omitempty"`

	// MaxSize is the largest size that the cluster may be resized to while it runs. 0: it has one size.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	// +optional
	MaxSize int32 `json:"maxSize,omitempty"`

	// BackoffLimit is the number of failed pods after which the Job fails. 0: 100.
	// +kubebuilder:validation:Minimum=0
	// +optional
	BackoffLimit int32 `json:"backoffLimit,omitempty"`

	// MinSize is the number of brokers that must be up before Flux runs anything. 0: size of them.
	// +kubebuilder:validation:Minimum=0
	// +optional
	MinSize int32 `json:"minSize,omitempty"`

	// Tasks is the total number of tasks that the command is submitted with (flux submit -n). 0 asks for
	// nodes and not for tasks.
	// +kubebuilder:default=1
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	Tasks *int32 `json:"tasks,omitempty"`

	// DeadlineSeconds is how long, in seconds, the Job may run. The default is about a year.
	// +kubebuilder:default=31500000
	// +default=31500000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9223372036
	// +optional
	DeadlineSeconds int64 `json:"deadlineSeconds,omitempty"`

	// Pod says how the pods are scheduled and secured.
	// +optional
	Pod PodSpec `json:"pod,omitzero"`
}

// Network of the cluster's pods.
type Network struct {
	// HeadlessName is the name of the headless Service, the pods' subdomain. Default: the MiniCluster's name.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label that begins with a letter, for it is the name of a Service"
	// +optional
	HeadlessName string `json:"headlessName,omitempty"`

	// DisableAffinity drops the preference for one pod per node, and for nodes in one zone.
	// +optional
	DisableAffinity bool `json:"disableAffinity,omitempty"`
}

// MiniClusterArchive is a dump of Flux's content store.
type MiniClusterArchive struct {
	// Path of the archive in the container that runs Flux. It is restored from when it exists.
	// +kubebuilder:validation:MaxLength=4095
	// +kubebuilder:validation:XValidation:rule="self == '' || self.startsWith('/')",message="must be an absolute path: begin it with /"
	// +kubebuilder:validation:XValidation:rule="!self.contains(',')",message="must not contain a comma, at which Flux splits options"
	// +optional
	Path string `json:"path,omitempty"`
}

// LoggingSpec chooses what is written to the pods' logs.
type LoggingSpec struct {
	// Quiet keeps only the output of the command.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	Quiet bool `json:"quiet,omitempty"`

	// Strict makes any failing line of the entrypoint end it.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	Strict bool `json:"strict,omitempty"`

	// Debug makes Flux's submission verbose.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	Debug bool `json:"debug,omitempty"`

	// Zeromq logs the messages of the brokers' overlay network.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	Zeromq bool `json:"zeromq,omitempty"`

	// Timed measures flux start and the submitted command with /usr/bin/time.
	// +kubebuilder:default=false
	// +default=false
	// +optional
	Timed bool `json:"timed,omitempty"`
}
