package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// OnChange says what an edit of the MiniCluster does to a run that is live.
//
// +kubebuilder:validation:Enum=AfterCompletion;Replace
type OnChange string

const (
	// AfterCompletion starts the new run when the live one has ended.
	AfterCompletion OnChange = "AfterCompletion"
	// Replace stops the live run, waits until its pods are deleted, and starts the new one.
	Replace OnChange = "Replace"
)

// FleetMiniClusterSpec is a MiniCluster and where to run it.
//
// +kubebuilder:validation:XValidation:rule="has(self.placement) != has(self.placementRef)",message="set exactly one of placement and placementRef"
type FleetMiniClusterSpec struct {
	// MiniCluster is the spec of a flux-framework.org/v1alpha2 MiniCluster.
	MiniCluster fluxv1alpha2.MiniClusterSpec `json:"miniCluster"`

	// Placement says here which members run it.
	// +optional
	Placement *PlacementSpec `json:"placement,omitempty"`

	// PlacementRef names a Placement in this namespace.
	// +optional
	PlacementRef *LocalReference `json:"placementRef,omitempty"`

	// OnChange says what an edit of the MiniCluster does to a run that is live.
	// +optional
	// +kubebuilder:default=AfterCompletion
	OnChange OnChange `json:"onChange,omitempty"`

	// Suspend starts no new run and suspends the Jobs of live ones, whose pods end. Resumed, the same runs
	// go on. What a person sets here stays, unless a file in Git sets it too.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Retries is how often the hub runs it again on a member where its run has failed, after the Job's own
	// backoffLimit. It waits 10 s before the first time, twice as long before each further one, and at most
	// 6 minutes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Retries int32 `json:"retries,omitempty"`

	// SuccessfulRunsHistoryLimit is how many runs that succeeded status.runs keeps; the latest run of each
	// member is always kept, so that it is not repeated. 0 also removes the Job of a run that succeeded, and
	// all that it needed, from its member. Default: as many as fit, with the others 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	SuccessfulRunsHistoryLimit *int32 `json:"successfulRunsHistoryLimit,omitempty"`

	// FailedRunsHistoryLimit is the same for runs that failed, were cancelled or were replaced.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	FailedRunsHistoryLimit *int32 `json:"failedRunsHistoryLimit,omitempty"`

	// TTLSecondsAfterFinished removes the Job of a run that has ended, and all that it needed, from its
	// member after this many seconds. The result stays in status.runs, and the run is not repeated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// DeletionDeadlineSeconds is how long the deletion of this object waits for a member that cannot be
	// reached. Then the object goes, and the MemberCluster's status.orphans remembers what to remove when the
	// member returns. Default: 600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DeletionDeadlineSeconds *int32 `json:"deletionDeadlineSeconds,omitempty"`

	// Priority among those of its namespace that wait for room on the same nodes: the higher one starts first; of
	// equals, the older one. Among those of other namespaces it counts no more than the annotation
	// minifleet.dev/max-priority of the Namespace allows. Nothing that runs is stopped for it.
	// +optional
	Priority int32 `json:"priority,omitempty"`
}

// DefaultDeletionDeadlineSeconds stands in for an unset DeletionDeadlineSeconds.
const DefaultDeletionDeadlineSeconds = 600

// SyncStatus says whether a member has what the hub wants, in Argo CD's terms.
//
// +kubebuilder:validation:Enum=Synced;OutOfSync;Unknown
type SyncStatus string

// Values of SyncStatus.
const (
	Synced      SyncStatus = "Synced"
	OutOfSync   SyncStatus = "OutOfSync"
	SyncUnknown SyncStatus = "Unknown"
)

// HealthStatus says how runs are doing, in Argo CD's terms.
//
// +kubebuilder:validation:Enum=Healthy;Progressing;Degraded;Suspended;Missing;Unknown
type HealthStatus string

// Values of HealthStatus, from best to worst as they are rolled up.
const (
	Healthy       HealthStatus = "Healthy"
	Suspended     HealthStatus = "Suspended"
	Progressing   HealthStatus = "Progressing"
	Missing       HealthStatus = "Missing"
	HealthUnknown HealthStatus = "Unknown"
	Degraded      HealthStatus = "Degraded"
)

// RunState is how far a run is.
//
// +kubebuilder:validation:Enum=Starting;Running;Stopping;Succeeded;Failed;Replaced;Cancelled
type RunState string

const (
	// RunStarting is on record before the Job is created, and stays until the Job is released: no pod of it has been made,
	// as far as is known. JobUID is there once the Job was seen.
	RunStarting RunState = "Starting"
	// RunRunning says that the Job was seen on the member.
	RunRunning RunState = "Running"
	// RunStopping is written before the hub stops a live run, so that its end is not taken for a failure.
	RunStopping RunState = "Stopping"
	// RunSucceeded says that the Job completed. It stays true when the Job is deleted.
	RunSucceeded RunState = "Succeeded"
	// RunFailed says that the Job failed, or that somebody deleted it before it ended.
	RunFailed RunState = "Failed"
	// RunReplaced says that the hub stopped the run, or gave it up, for a reason that Run.Stop tells. What it
	// was for is to run anew.
	RunReplaced RunState = "Replaced"
	// RunCancelled says that the hub stopped the run because a person asked for that.
	RunCancelled RunState = "Cancelled"
)

// Ended says whether a run in this state will never be live again.
func (s RunState) Ended() bool {
	return s == RunSucceeded || s == RunFailed || s == RunReplaced || s == RunCancelled
}

// StopReason says why a run was stopped that had not ended, by the hub unless it says otherwise.
//
// +kubebuilder:validation:Enum=Changed;Cancelled;Drained;NotStarted;Lost;DeclaredGone;Deleted
type StopReason string

const (
	// StopChanged says that the MiniCluster or its placement has changed.
	StopChanged StopReason = "Changed"
	// StopCancelled says that a person has cancelled the run.
	StopCancelled StopReason = "Cancelled"
	// StopDrained says that its member is drained.
	StopDrained StopReason = "Drained"
	// StopNotStarted says that its pods did not all run within the placement's pendingTimeout.
	StopNotStarted StopReason = "NotStarted"
	// StopLost says that it was lost with its nodes, or with its member (failover).
	StopLost StopReason = "Lost"
	// StopDeclaredGone says that a person has declared it gone while its member could not be asked.
	StopDeclaredGone StopReason = "DeclaredGone"
	// StopDeleted says that somebody has deleted its Job on the member. It is not retried.
	StopDeleted StopReason = "Deleted"
)

// RunExit is how the first pod of a run that failed ended.
type RunExit struct {
	// Pod is its name on the member.
	Pod string `json:"pod"`
	// Container that failed first in it.
	// +optional
	Container string `json:"container,omitempty"`
	// ExitCode of the container.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Reason is the member's own for it, e.g. Error, OOMKilled or Evicted.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message is what the container wrote to its termination log, or what the member says of the pod; at most
	// 500 characters.
	// +optional
	Message string `json:"message,omitempty"`
}

// RunCommit is the commit in Git of what a run runs.
type RunCommit struct {
	// Hash is the full hash.
	Hash string `json:"hash"`
	// Author is the name of its author, at most 80 characters.
	// +optional
	Author string `json:"author,omitempty"`
	// Subject is the first line of its message, at most 120 characters.
	// +optional
	Subject string `json:"subject,omitempty"`
}

// Run is a line of the ledger: one execution of the MiniCluster on one member. A run is written here
// before its Job is created.
type Run struct {
	// ID is the value of the label minifleet.dev/run on the Job and on its pods.
	ID string `json:"id"`
	// Cluster is the MemberCluster that the run is on.
	Cluster string `json:"cluster"`
	// ClusterUID is the identity of the cluster that had this name when the run began.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`
	// Namespace of the member that the run is in; once it has ended and everything of it was removed from there because the
	// MemberCluster says another namespace by then, that one. Runs from before this was noted are in the one that has the name of the
	// FleetMiniCluster's own, or in the only one that the MemberCluster allows.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Digest of the MiniCluster that ran.
	Digest string `json:"digest"`
	// Revision in Git of the MiniCluster that ran.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Commit says more of that revision.
	// +optional
	Commit *RunCommit `json:"commit,omitempty"`
	// RerunAt is the token of the annotation minifleet.dev/rerun-at that the run answers.
	// +optional
	RerunAt string `json:"rerunAt,omitempty"`
	// State of the run.
	State RunState `json:"state"`
	// JobUID is the UID of the Job on the member, once it was seen.
	// +optional
	JobUID types.UID `json:"jobUID,omitempty"`
	// StartTime is when the hub decided to start the run.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when the run ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// Message says why the run ended as it did.
	// +optional
	Message string `json:"message,omitempty"`
	// Attempt counts the runs before this one for the same digest and token on this member that failed and
	// were followed by another (spec.retries).
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// Stop says why the run was stopped, or is about to be.
	// +optional
	Stop StopReason `json:"stop,omitempty"`
	// RunningTime is when all of its pods (minSize of them, where that is set) were first seen running.
	// +optional
	RunningTime *metav1.Time `json:"runningTime,omitempty"`
	// SuspendedTime is when a run whose pods had been running was suspended, by MiniFleet or by the member. It is
	// taken away when they are seen running again.
	// +optional
	SuspendedTime *metav1.Time `json:"suspendedTime,omitempty"`
	// PendingSince is since when a run that has begun is live without a pod that runs: its nodes are lost, or the
	// member has put it back into a queue. One that has not begun is pending since StartTime.
	// +optional
	PendingSince *metav1.Time `json:"pendingSince,omitempty"`
	// LostTime is since when nothing has been heard of a live run, once that is longer than the placement's
	// failover allows. It is taken away when the run is seen to go on.
	// +optional
	LostTime *metav1.Time `json:"lostTime,omitempty"`
	// Exit is how the first pod of a failed run ended, where the member could still tell.
	// +optional
	Exit *RunExit `json:"exit,omitempty"`
	// RestoredTime is when this line was put back at the end of the ledger: Git asks again for what the run has
	// done, or its member has told of a run that the ledger did not know.
	// +optional
	RestoredTime *metav1.Time `json:"restoredTime,omitempty"`
}

// EndedRun is what is remembered of a run that has ended, for longer than its line in the ledger is held.
type EndedRun struct {
	// ID, Cluster, Digest, RerunAt and Revision are those of the run.
	ID string `json:"id"`
	// +optional
	Cluster string `json:"cluster,omitempty"`
	Digest  string `json:"digest"`
	// +optional
	RerunAt string `json:"rerunAt,omitempty"`
	// +optional
	Revision string `json:"revision,omitempty"`
	// State that the run has ended in. Members have runs on record as well that are Running, with the stop Deleted: somebody
	// else is deleting the Job.
	State RunState `json:"state"`
	// Stop and Attempt are those of the run: what they say about retries holds for one that is remembered as well.
	// +optional
	Stop StopReason `json:"stop,omitempty"`
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// StartTime is when a run began that has not ended.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// CompletionTime is when it ended, or when its Job was first seen to be deleted.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// BeingDeleted says whether a run was live when it was put on record, for somebody else was deleting its Job.
func (e *EndedRun) BeingDeleted() bool { return e.State == RunRunning && e.Stop == StopDeleted }

// MaxEndedRuns is how many runs are remembered beside the ledger, on the hub and on each member.
const MaxEndedRuns = 50

// PodCounts are pods of one run, as its Job counts them.
type PodCounts struct {
	// Desired is the number of indexes of the Job.
	Desired int32 `json:"desired"`
	// Active pods are pending or running.
	Active int32 `json:"active"`
	// Ready pods are running and ready.
	Ready int32 `json:"ready"`
	// Succeeded pods ended with exit code 0.
	Succeeded int32 `json:"succeeded"`
	// Failed pods ended otherwise, retries included.
	Failed int32 `json:"failed"`
}

// ClusterStatus is how the MiniCluster is doing on one member.
type ClusterStatus struct {
	// Name of the MemberCluster.
	Name string `json:"name"`
	// Sync says whether the member has what the hub wants.
	Sync SyncStatus `json:"sync"`
	// Health of the run.
	Health HealthStatus `json:"health"`
	// Run is the id of the member's latest run in the ledger.
	// +optional
	Run string `json:"run,omitempty"`
	// State of that run.
	// +optional
	State RunState `json:"state,omitempty"`
	// Pods of that run, as they were last seen.
	// +optional
	Pods PodCounts `json:"pods"`
	// Reason says in one word why the member is not Synced and Healthy.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says so for people, with the member's own message where it refused something.
	// +optional
	Message string `json:"message,omitempty"`
	// LastHeardTime is when the member was last heard from. It is set only while it cannot be reached.
	// +optional
	LastHeardTime *metav1.Time `json:"lastHeardTime,omitempty"`
}

// RejectedCluster is a member that was not chosen.
type RejectedCluster struct {
	// Name of the MemberCluster.
	Name string `json:"name"`
	// Reason why it was not chosen.
	Reason string `json:"reason"`
}

// ClusterDecision is why a member was chosen, as things were when it was.
type ClusterDecision struct {
	// Name of the MemberCluster.
	Name string `json:"name"`
	// Score is the sum of weight × score over all prioritizers.
	Score int32 `json:"score"`
	// Reason tells what the score is made of.
	Reason string `json:"reason"`
	// Overrides are the names of those that apply to the member, OverridesDigest a hash of what they say. They
	// are those of the run that is there, whatever has become of the Placement since.
	// +optional
	// +listType=atomic
	Overrides []string `json:"overrides,omitempty"`
	// +optional
	OverridesDigest string `json:"overridesDigest,omitempty"`
}

// PlacementDecision is where the current digest runs. It is kept, so that an edit of the Placement moves
// new runs only.
type PlacementDecision struct {
	// Digest and RerunAt say which run this decision was made for.
	Digest string `json:"digest"`
	// +optional
	RerunAt string `json:"rerunAt,omitempty"`
	// Clusters are the chosen members, in the order in which they were preferred.
	// +listType=atomic
	Clusters []string `json:"clusters"`
	// Decisions say why each of these was chosen, and what it runs.
	// +optional
	// +listType=atomic
	Decisions []ClusterDecision `json:"decisions,omitempty"`
	// Wanted is how many members the Placement asks for.
	Wanted int32 `json:"wanted"`
	// Open says that the Placement takes every member that matches, so that one which comes to match is
	// chosen too.
	// +optional
	Open bool `json:"open,omitempty"`
	// Rejected are members that were not chosen, at most 20 of them, by name.
	// +optional
	// +listType=atomic
	Rejected []RejectedCluster `json:"rejected,omitempty"`
	// Waiting are members that would be chosen if they had room, each with what is missing there: the nearest
	// miss first, at most 20 of them. The MiniCluster starts when one of them has room.
	// +optional
	// +listType=atomic
	Waiting []RejectedCluster `json:"waiting,omitempty"`
	// NotPermitted is how many members this namespace may not use (spec.namespaces of a MemberCluster), while fewer are
	// chosen than are wanted.
	// +optional
	NotPermitted int32 `json:"notPermitted,omitempty"`
}

// Summary is for the columns of `kubectl get`.
type Summary struct {
	// Clusters is SYNCED/CHOSEN.
	Clusters string `json:"clusters"`
	// Pods is READY-OR-SUCCEEDED/DESIRED over all chosen members.
	Pods string `json:"pods"`
	// Members are the names of the chosen members, and of those that have a live run or cannot be reached.
	// +optional
	Members string `json:"members,omitempty"`
}

// State says in one word how far a FleetMiniCluster is.
//
// +kubebuilder:validation:Enum=Waiting;Starting;Running;Stopping;Suspended;Succeeded;Failed;Cancelled;Unknown;Invalid;Deleting
type State string

// Values of State.
const (
	// StateWaiting says that nothing runs yet, or runs again: it waits for room, a member, a Secret, another run, or for
	// the next attempt.
	StateWaiting State = "Waiting"
	// StateStarting says that a run has begun, and that not all of its pods have run yet.
	StateStarting State = "Starting"
	// StateRunning says that all pods of a run are, or have been, running.
	StateRunning State = "Running"
	// StateStopping says that a run is being stopped.
	StateStopping State = "Stopping"
	// StateSuspended says that nothing runs until somebody resumes it.
	StateSuspended State = "Suspended"
	// StateSucceeded says that the wanted runs have succeeded on every chosen member.
	StateSucceeded State = "Succeeded"
	// StateFailed says that all wanted runs have ended, and that one of them has failed.
	StateFailed State = "Failed"
	// StateCancelled says that all wanted runs have ended, and that a person has cancelled one of them.
	StateCancelled State = "Cancelled"
	// StateUnknown says that a run may be live on a member that cannot be reached.
	StateUnknown State = "Unknown"
	// StateInvalid says that nothing runs until somebody corrects the object.
	StateInvalid State = "Invalid"
	// StateDeleting says that the object is being deleted.
	StateDeleting State = "Deleting"
)

// FleetMiniClusterStatus is the aggregate of all members, and the ledger of runs.
type FleetMiniClusterStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready, Healthy, Reconciling, Stalled, Complete and Failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// State says in one word how far it is.
	// +optional
	State State `json:"state,omitempty"`
	// Sync is the worst of the members'.
	// +optional
	Sync SyncStatus `json:"sync,omitempty"`
	// Health is the worst of the members'.
	// +optional
	Health HealthStatus `json:"health,omitempty"`
	// Summary is for the columns of `kubectl get`.
	// +optional
	Summary *Summary `json:"summary,omitempty"`

	// Digest of the MiniCluster as it is wanted now: a hash of everything in the spec that affects a run.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Revision is REF@SHORTHASH of the commit that last changed this object.
	// +optional
	Revision string `json:"revision,omitempty"`

	// Replicas is the number of pods of the MiniCluster on each member, for `kubectl scale`.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// LastHandledRerunAt is the token of minifleet.dev/rerun-at that was last acted on.
	// +optional
	LastHandledRerunAt string `json:"lastHandledRerunAt,omitempty"`

	// Placement is where the current digest runs.
	// +optional
	Placement *PlacementDecision `json:"placement,omitempty"`

	// Clusters are the members that have, or are to have, objects of this MiniCluster.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []ClusterStatus `json:"clusters,omitempty"`

	// Runs is the ledger, oldest first: for each member its latest run, and up to 10 earlier ones in all.
	// +optional
	// +listType=map
	// +listMapKey=id
	Runs []Run `json:"runs,omitempty"`

	// Succeeded are runs that have succeeded and that Runs does not hold any more, oldest first. What they have done
	// is not done again unless a person asks for that.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Succeeded []EndedRun `json:"succeeded,omitempty"`

	// Unasked are members that may hold runs which the ledger has lost, and that could not be asked since. Nothing
	// new begins before they are.
	// +optional
	// +listType=atomic
	Unasked []string `json:"unasked,omitempty"`
}

// FleetMiniCluster is a MiniCluster that runs on members of the fleet.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=fmc,categories=minifleet
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.miniCluster.size,statuspath=.status.replicas
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 58 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name is the name of Jobs and the stem of pod host names: use a DNS label of at most 58 characters that begins with a letter"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Sync",type=string,JSONPath=`.status.sync`
// +kubebuilder:printcolumn:name="Health",type=string,JSONPath=`.status.health`
// +kubebuilder:printcolumn:name="Clusters",type=string,JSONPath=`.status.summary.clusters`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.summary.pods`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.revision`
// +kubebuilder:printcolumn:name="Author",type=string,priority=1,JSONPath=`.metadata.annotations.minifleet\.dev/source-author`
// +kubebuilder:printcolumn:name="Subject",type=string,priority=1,JSONPath=`.metadata.annotations.minifleet\.dev/source-subject`
// +kubebuilder:printcolumn:name="Members",type=string,priority=1,JSONPath=`.status.summary.members`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FleetMiniCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FleetMiniClusterSpec   `json:"spec"`
	Status FleetMiniClusterStatus `json:"status,omitempty"`
}

// FleetMiniClusterList is a list of FleetMiniClusters.
//
// +kubebuilder:object:root=true
type FleetMiniClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []FleetMiniCluster `json:"items"`
}
