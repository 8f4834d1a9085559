package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Keys of a GitSource's credentials Secret, those of Flux CD's GitRepository.
const (
	GitUsernameKey    = "username"
	GitPasswordKey    = "password"
	GitBearerTokenKey = "bearerToken"
	GitCAKey          = "ca.crt"
)

// GitRef names a commit in one way.
//
// +kubebuilder:validation:XValidation:rule="[has(self.branch), has(self.tag), has(self.semver), has(self.commit)].filter(x, x).size() == 1",message="set exactly one of branch, tag, semver and commit"
type GitRef struct {
	// Branch to follow.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Branch string `json:"branch,omitempty"`
	// Tag to use; when it moves, the source follows it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Tag string `json:"tag,omitempty"`
	// SemVer is a version range; the highest tag in it is used, e.g. ">=1.2.0 <2.0.0".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	SemVer string `json:"semver,omitempty"`
	// Commit is a full commit hash.
	// +optional
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{40}|[0-9a-f]{64})$`
	Commit string `json:"commit,omitempty"`
}

// GitSourceSpec says where manifests come from.
type GitSourceSpec struct {
	// URL of the repository, over HTTPS. Plain HTTP is accepted where nothing is allowed (spec.allow, and the
	// namespace's annotation minifleet.dev/allow), but no credentials are sent over it, except to a loopback address.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^@]+$`
	URL string `json:"url"`

	// Ref to use. Without it, the repository's default branch.
	// +optional
	Ref *GitRef `json:"ref,omitempty"`

	// Path is the directory to read, with all below it. Without it, the whole repository.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="path is relative to the root of the repository and cannot leave it: remove the leading / and every .."
	Path string `json:"path,omitempty"`

	// Interval between two fetches from the repository; a tenth of it is added or taken away at random.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="interval is at least 1s"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="interval is at most 24h"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Interval metav1.Duration `json:"interval,omitempty"`

	// Timeout of one reconciliation: from the first byte of the repository to the last object on the hub.
	// +optional
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="timeout is at least 1s"
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('10m')",message="timeout is at most 10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	Timeout metav1.Duration `json:"timeout,omitempty"`

	// SecretRef names a Secret in this namespace with `username` and `password`, or `bearerToken`, and
	// optionally `ca.crt`.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// ServiceAccountName names a service account of this namespace: what this source creates, updates and deletes on the
	// hub is done as that account, so that its rights bound it. Without it, MiniFleet does it as itself, or as the
	// account that --default-service-account names.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// DefaultPlacement names the Placement of MiniClusters that carry no label minifleet.dev/placement.
	// +optional
	DefaultPlacement *LocalReference `json:"defaultPlacement,omitempty"`

	// Prune deletes what this source created and what was removed from Git.
	// +optional
	// +kubebuilder:default=true
	Prune *bool `json:"prune,omitempty"`

	// Allow lists the permissions that MiniClusters of this source may use. Without any, one that sets a
	// dangerous field is refused.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Allow []Permission `json:"allow,omitempty"`

	// Suspend stops reading the repository. What was applied stays.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// FileProblem is something in Git that could not be applied.
type FileProblem struct {
	// Path of the file in the repository.
	Path string `json:"path"`
	// Line in the file, from 1; 0 where it is not known.
	// +optional
	Line int32 `json:"line,omitempty"`
	// Object is KIND/NAME, where it is known.
	// +optional
	Object string `json:"object,omitempty"`
	// Field of the object, where it is known.
	// +optional
	Field string `json:"field,omitempty"`
	// Message says what is wrong and how to correct it.
	Message string `json:"message"`
	// Warning says that the object is applied nevertheless.
	// +optional
	Warning bool `json:"warning,omitempty"`
}

// MaxBlocked is how many of those that wait for approval a GitSource names.
const MaxBlocked = 100

// MaxCommits is how many commits a GitSource remembers.
const MaxCommits = 20

// Commit is a commit that was applied.
type Commit struct {
	// Hash is the full hash.
	Hash string `json:"hash"`
	// Revision is REF@SHORTHASH, as runs name it.
	Revision string `json:"revision"`
	// Subject is the first line of its message, at most 120 characters.
	// +optional
	Subject string `json:"subject,omitempty"`
	// Author is the name of its author, at most 80 characters.
	// +optional
	Author string `json:"author,omitempty"`
	// Time is that of the author.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}

// GitSourceStatus is what became of the repository's manifests.
type GitSourceStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready, and PruneBlocked and RunsBlocked while they are true.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Revision is REF@SHORTHASH of the commit that is applied.
	// +optional
	Revision string `json:"revision,omitempty"`

	// Commit is the full hash of the commit that is applied.
	// +optional
	Commit string `json:"commit,omitempty"`

	// Commits are the last 20 that were applied, latest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Commits []Commit `json:"commits,omitempty"`

	// LastHandledReconcileAt is the value of the annotation minifleet.dev/reconcile-at that was last acted on.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// MiniClusters is how many MiniClusters this source declares.
	// +optional
	MiniClusters int32 `json:"miniClusters"`

	// Problems are what is wrong in the files, at most 50, those that could not be applied first.
	// +optional
	// +listType=atomic
	Problems []FileProblem `json:"problems,omitempty"`

	// ProblemCount is how many problems there are, warnings not counted.
	// +optional
	ProblemCount int32 `json:"problemCount,omitempty"`

	// Prune is what a blocked prune would delete, as KIND/NAME: the first 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Prune []string `json:"prune,omitempty"`

	// RunsAnew is what would run anew and waits for approval, as KIND/NAME: the first 100.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	RunsAnew []string `json:"runsAnew,omitempty"`

	// Needs are the MiniClusters of this source that need permissions, at most 1000. They are written
	// before the MiniClusters are, and by the controller alone: that a FleetMiniCluster is what Git declares
	// is believed for what stands here, and not for a label.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Needs []DeclaredNeed `json:"needs,omitempty"`
}

// GitSource is a Git repository whose MiniClusters are to run.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gs,categories=minifleet
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="MiniClusters",type=integer,JSONPath=`.status.miniClusters`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type GitSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GitSourceSpec   `json:"spec"`
	Status GitSourceStatus `json:"status,omitempty"`
}

// GitSourceList is a list of GitSources.
//
// +kubebuilder:object:root=true
type GitSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GitSource `json:"items"`
}
