package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition types. Ready, Reconciling and Stalled follow kstatus, so that tools which know Flux CD or
// kstatus understand MiniFleet's objects; Complete and Failed follow Job, so that `kubectl wait` works.
const (
	// ConditionReady says that what was asked for is in place, and nothing about it has failed.
	ConditionReady = "Ready"
	// ConditionReconciling says that work is under way.
	ConditionReconciling = "Reconciling"
	// ConditionStalled says that nothing more will happen until a person changes something.
	ConditionStalled = "Stalled"

	// ConditionHealthy says that no run has failed or was cancelled, and every member has been heard from.
	ConditionHealthy = "Healthy"
	// ConditionComplete says that the runs of the current digest have succeeded on every chosen member.
	ConditionComplete = "Complete"
	// ConditionFailed says that all runs of the current digest have ended and at least one has failed.
	ConditionFailed = "Failed"

	// ConditionDrained says of a MemberCluster that is drained or deleted whether all runs there have ended.
	ConditionDrained = "Drained"

	// ConditionUnownedJobs says of a MemberCluster that Jobs of this fleet are live there that no FleetMiniCluster owns.
	ConditionUnownedJobs = "UnownedJobs"

	// ConditionNotShared says of a MemberCluster that spec.namespaces does not say who may use it, so that nobody may.
	ConditionNotShared = "NotShared"

	// ConditionPruneBlocked says that objects were removed from Git, and that so many of them did at once that a
	// person has to approve it (AnnotationApprovePrune).
	ConditionPruneBlocked = "PruneBlocked"
	// ConditionRunsBlocked says that a commit would run so many MiniClusters anew at once that a person has to approve
	// it (AnnotationApproveRuns).
	ConditionRunsBlocked = "RunsBlocked"

	// ConditionSourceVerified says of the commit of a GitSource that was last checked whether it bears the signatures that
	// spec.verify asks for; absent where it does not ask.
	ConditionSourceVerified = "SourceVerified"
	// ConditionReceiverFailed says of a GitSource that no webhook reaches it, and why. It is read at its interval.
	ConditionReceiverFailed = "ReceiverFailed"
)

// Reasons of conditions and events.
const (
	ReasonSucceeded   = "Succeeded"
	ReasonProgressing = "Progressing"
	ReasonSuspended   = "Suspended"
	ReasonDeleting    = "Deleting"

	// FleetMiniCluster.
	ReasonInvalidSpec          = "InvalidSpec"
	ReasonPolicyDenied         = "PolicyDenied"
	ReasonPlacementNotFound    = "PlacementNotFound"
	ReasonNoClusterMatches     = "NoClusterMatches"
	ReasonNotEnoughClusters    = "NotEnoughClusters"
	ReasonInsufficientCapacity = "InsufficientCapacity"
	ReasonInvalidOverride      = "InvalidOverride"
	ReasonPlaced               = "Placed"
	ReasonSynced               = "Synced"
	ReasonWaitingForCompletion = "WaitingForCompletion"
	ReasonMemberUnreachable    = "MemberUnreachable"
	ReasonMemberRemoved        = "MemberRemoved"
	ReasonConflict             = "NameConflict"
	ReasonApplyFailed          = "ApplyFailed"
	ReasonRunStarting          = "RunStarting"
	ReasonRunStarted           = "RunStarted"
	ReasonPodsNotReady         = "PodsNotReady"
	ReasonRunSucceeded         = "RunSucceeded"
	ReasonRunFailed            = "RunFailed"
	ReasonRunReplaced          = "RunReplaced"
	ReasonRunCancelled         = "RunCancelled"
	ReasonRunAdopted           = "RunAdopted"
	ReasonRunDrained           = "RunDrained"
	ReasonRunWithdrawn         = "RunWithdrawn"
	ReasonRunLost              = "RunLost"
	ReasonRunHeardOf           = "RunHeardOf"
	ReasonRunPending           = "RunPending"
	ReasonMemberClosed         = "MemberClosed"
	ReasonRetryWaiting         = "RetryWaiting"
	ReasonJobDeleted           = "JobDeleted"
	ReasonResized              = "Resized"
	ReasonResumed              = "Resumed"
	ReasonDriftRepaired        = "DriftRepaired"
	ReasonCleanedUp            = "CleanedUp"
	ReasonNamespacesNotSaid    = "NamespacesNotSaid"
	ReasonNamespaceDenied      = "NamespaceDenied"
	ReasonReferenceMissing     = "ReferenceMissing"
	ReasonBindingMissing       = "BindingMissing"
	ReasonReferenceUpdated     = "ReferenceUpdated"
	ReasonReferenceWithdrawn   = "ReferenceWithdrawn"
	ReasonHealthy              = "Healthy"
	ReasonSucceededBefore      = "SucceededBefore"
	ReasonMemberNotAsked       = "MemberNotAsked"
	ReasonRunRestored          = "RunRestored"
	ReasonNotRecorded          = "NotRecorded"
	ReasonInvalidMaxPriority   = "InvalidMaxPriority"

	// MemberCluster.
	ReasonConnected         = "Connected"
	ReasonConnecting        = "Connecting"
	ReasonUnreachable       = "Unreachable"
	ReasonAuthFailed        = "AuthFailed"
	ReasonForbidden         = "Forbidden"
	ReasonWrongCluster      = "WrongCluster"
	ReasonKubeconfigMissing = "KubeconfigMissing"
	ReasonKubeconfigInvalid = "KubeconfigInvalid"
	ReasonKubeconfigRefused = "KubeconfigRefused"
	// ReasonClusterProfilesOff says that the controller was started without credential plugins.
	ReasonClusterProfilesOff     = "ClusterProfilesOff"
	ReasonClusterProfileMissing  = "ClusterProfileMissing"
	ReasonClusterProfileRefused  = "ClusterProfileRefused"
	ReasonCredentialPluginFailed = "CredentialPluginFailed"
	ReasonCertificateUntrusted   = "CertificateUntrusted"
	ReasonDuplicateCluster       = "DuplicateCluster"
	ReasonIdentityClaimed        = "IdentityClaimed"
	ReasonQuarantined            = "Quarantined"
	ReasonRedirectRefused        = "RedirectRefused"
	ReasonFenced                 = "Fenced"
	ReasonEpochRaised            = "EpochRaised"
	// ReasonOtherShard says that the controller of another shard has what this one would need.
	ReasonOtherShard = "OtherShard"
	// Of the admission policy that says who may write spec.allow of GitSources.
	ReasonAdmissionPolicyMissing   = "AdmissionPolicyMissing"
	ReasonAdmissionPolicyInstalled = "AdmissionPolicyInstalled"
	ReasonOwnerNotFound            = "OwnerNotFound"
	ReasonOrphaned                 = "Orphaned"
	ReasonOrphanRemoved            = "OrphanRemoved"
	ReasonDrained                  = "Drained"
	ReasonRunsLive                 = "RunsLive"
	ReasonInvalidAnnotation        = "InvalidAnnotation"

	// GitSource.
	ReasonFetchFailed     = "FetchFailed"
	ReasonProblemsFound   = "ProblemsFound"
	ReasonPruneBlocked    = "PruneBlocked"
	ReasonPruned          = "Pruned"
	ReasonRunsBlocked     = "RunsBlocked"
	ReasonDeletionPending = "DeletionPending"
	ReasonRevisionApplied = "RevisionApplied"
	ReasonSecretInvalid   = "SecretInvalid"
	// ReasonVerificationFailed says that a commit or tag does not bear the signature that spec.verify asks for, and that it
	// is not applied.
	ReasonVerificationFailed = "VerificationFailed"
	ReasonTimedOut           = "TimedOut"
	ReasonWaitingForTurn     = "WaitingForTurn"
	ReasonDryRun             = "DryRun"
	ReasonReceiverOff        = "ReceiverOff"
	ReasonWebhookPing        = "WebhookPing"
	// ReasonImpersonationForbidden says that the hub may not act as the service account that a source names.
	ReasonImpersonationForbidden = "ImpersonationForbidden"
	ReasonAllowUnenforced        = "AllowUnenforced"

	// Notification.
	ReasonAddressRefused       = "AddressRefused"
	ReasonDeliveryFailed       = "DeliveryFailed"
	ReasonNotificationsOff     = "NotificationsOff"
	ReasonTooManyNotifications = "TooManyNotifications"
)

// GetConditions returns the conditions of the status.
func (f *FleetMiniCluster) GetConditions() []metav1.Condition { return f.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (f *FleetMiniCluster) SetConditions(conditions []metav1.Condition) {
	f.Status.Conditions = conditions
}

// GetConditions returns the conditions of the status.
func (s *GitSource) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (s *GitSource) SetConditions(conditions []metav1.Condition) { s.Status.Conditions = conditions }

// GetConditions returns the conditions of the status.
func (m *MemberCluster) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (m *MemberCluster) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
}
