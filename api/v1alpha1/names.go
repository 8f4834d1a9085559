package v1alpha1

// FleetConfigMap is the name of the ConfigMap in the manager's namespace that holds the identity of the fleet.
const FleetConfigMap = "minifleet-fleet"

// Keys of its data that `minifleet restore` writes: both hold the SHA-256 hash of the backup, in hexadecimal digits. While
// FleetRestoringKey is there not all of it is on the hub yet, and no controller starts; FleetRestoredKey says what was restored
// last.
const (
	FleetRestoringKey = "restoring"
	FleetRestoredKey  = "restored"
)

// LabelVeleroRestore is on what Velero has put back, and names its restore. Velero leaves out the status unless it is told
// otherwise, so that such an object may have had runs that it knows nothing of.
const LabelVeleroRestore = "velero.io/restore-name"

// Labels and annotations, on the hub and on members. Everything MiniFleet writes on a member carries
// LabelManagedBy, which its caches select on, and the origin annotations, which every delete checks.
const (
	// LabelManagedBy and ManagedBy mark every object that MiniFleet creates on a member.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "minifleet"

	// LabelRun is the id of the run that a Job, and each of its pods, belongs to.
	LabelRun = "minifleet.dev/run"
	// LabelOwner is the name of the FleetMiniCluster that a member's object belongs to, for people who
	// list objects on a member. Decisions rest on the origin annotations, never on this label.
	LabelOwner = "minifleet.dev/fleetminicluster"
	// LabelHubNamespace is, on a namespace of a member, the namespace of the hub that may use it.
	LabelHubNamespace = "minifleet.dev/hub-namespace"
	// LabelPodSecurity is the Pod Security level that a namespace enforces.
	LabelPodSecurity = "pod-security.kubernetes.io/enforce"
	// LabelSource is the name of the GitSource that created a hub object.
	LabelSource = "minifleet.dev/source"
	// LabelPlacement names, on a MiniCluster in Git, the Placement to use.
	LabelPlacement = "minifleet.dev/placement"
	// LabelShard is, on an object of the hub, the shard that it is of: the controller with that --shard takes it. An object
	// without it is of the controller without --shard.
	LabelShard = "minifleet.dev/shard"

	// AnnotationFleetID is the identity of the fleet that an object belongs to.
	AnnotationFleetID = "minifleet.dev/fleet-id"
	// AnnotationOwner is NAMESPACE/NAME of the FleetMiniCluster on the hub.
	AnnotationOwner = "minifleet.dev/owner"
	// AnnotationOwnerUID is the UID of the FleetMiniCluster on the hub.
	AnnotationOwnerUID = "minifleet.dev/owner-uid"
	// AnnotationDigest is the hash of what was rendered for a member's object. A write is sent when it
	// differs from what would be rendered now.
	AnnotationDigest = "minifleet.dev/digest"

	// AnnotationRunDigest and AnnotationRunToken are, on a Job, the digest of the MiniCluster that it runs
	// and the rerun token that it answers, so that a Job can be understood without the ledger.
	AnnotationRunDigest = "minifleet.dev/run-digest"
	AnnotationRunToken  = "minifleet.dev/run-token"

	// LabelRecord marks, with the value "runs", the ConfigMap on a member that says which runs of a FleetMiniCluster
	// have ended there. It outlives their Jobs.
	LabelRecord = "minifleet.dev/record"

	// AnnotationSuspended is "true" on a Job that MiniFleet has suspended, and SuspendedUnreleased on one that it
	// has created and not let go yet. A Job that somebody else has suspended, such as an admission controller
	// that queues Jobs, is not resumed.
	AnnotationSuspended = "minifleet.dev/suspended"
	SuspendedUnreleased = "unreleased"

	// AnnotationSourcePath is the file in Git (PATH or PATH#INDEX) that declares a hub object.
	AnnotationSourcePath = "minifleet.dev/source-path"
	// AnnotationSourceRevision is the revision (BRANCH@SHA) at which Git last changed a hub object.
	AnnotationSourceRevision = "minifleet.dev/source-revision"
	// AnnotationSourceCommit, AnnotationSourceAuthor and AnnotationSourceSubject are of the commit that last changed a hub
	// object: its full hash, the name of its author, and the first line of its message.
	AnnotationSourceCommit  = "minifleet.dev/source-commit"
	AnnotationSourceAuthor  = "minifleet.dev/source-author"
	AnnotationSourceSubject = "minifleet.dev/source-subject"
	// AnnotationSourceUID is the UID of the GitSource that last applied a hub object.
	AnnotationSourceUID = "minifleet.dev/source-uid"
	// AnnotationSourceDigest is the hash of what Git declares for a hub object.
	AnnotationSourceDigest = "minifleet.dev/source-digest"
	// AnnotationSourceSuspend is the spec.suspend ("true" or "false") that Git declares for a FleetMiniCluster. Without
	// it Git declares none, and what a person sets stays.
	AnnotationSourceSuspend = "minifleet.dev/source-suspend"
	// AnnotationSourcePrune is PruneDisabled where Git declares AnnotationPrune so.
	AnnotationSourcePrune = "minifleet.dev/source-prune"
	// AnnotationApprovePrune on a GitSource holds the full hash of the commit whose blocked prune a person approves.
	AnnotationApprovePrune = "minifleet.dev/approve-prune"
	// AnnotationApproveRuns on a GitSource holds the full hash of the commit whose many new runs a person approves.
	AnnotationApproveRuns = "minifleet.dev/approve-runs"
	// AnnotationReconcileAt on a GitSource asks to read the repository now; any new value is a new request.
	AnnotationReconcileAt = "minifleet.dev/reconcile-at"
	// AnnotationRequestedAt is AnnotationReconcileAt as Flux CD has it.
	AnnotationRequestedAt = "reconcile.fluxcd.io/requestedAt"
	// AnnotationPrune on an object in Git or on the hub, with the value PruneDisabled, keeps it on the hub when Git no
	// longer declares it, and when its GitSource is deleted. It can be a label as well. What a person sets on the hub is
	// not Git's to take away.
	AnnotationPrune = "minifleet.dev/prune"
	PruneDisabled   = "disabled"
	// AnnotationAllow on a Namespace of the hub lists the permissions that everything in it may use, separated
	// by commas.
	AnnotationAllow = "minifleet.dev/allow"
	// AnnotationMaxPriority on a Namespace of the hub is the highest spec.priority that counts among those of other
	// namespaces: a whole number.
	AnnotationMaxPriority = "minifleet.dev/max-priority"
	// AnnotationRerunAt on a FleetMiniCluster asks for one more run; any new value is a new request.
	AnnotationRerunAt = "minifleet.dev/rerun-at"

	// AnnotationHold, with the value "true" on a FleetMiniCluster, acts as spec.suspend does. It is for people: Git
	// neither sets it nor takes it away.
	AnnotationHold = "minifleet.dev/hold"

	// LabelRequest on a FleetMiniCluster is the hash of the idempotency key that it was started with, in 32 hexadecimal
	// digits, and AnnotationRequestDigest the hash of what was asked for.
	LabelRequest            = "minifleet.dev/request"
	AnnotationRequestDigest = "minifleet.dev/request-digest"

	// AnnotationCancel on a FleetMiniCluster holds the ids of runs to stop, separated by commas. Such a run is
	// not started again but by a change of the MiniCluster or AnnotationRerunAt.
	AnnotationCancel = "minifleet.dev/cancel"

	// AnnotationRunGone on a FleetMiniCluster holds the ids of runs, separated by commas, of which a person has
	// made sure that they are gone, though their member cannot be asked. Such a run is given up, and what it was
	// for may run elsewhere.
	AnnotationRunGone = "minifleet.dev/run-gone"

	// AnnotationDrain, with the value "true" on a MemberCluster, has its live runs stopped, and started elsewhere
	// where their placement allows it, and keeps new ones away.
	AnnotationDrain = "minifleet.dev/drain"

	// AnnotationMemberGone on a MemberCluster that cannot be asked holds a time (RFC 3339): a person has made sure
	// that all that ran there until then is gone, as with AnnotationRunGone for each run. It means nothing once the
	// member has been heard of after it.
	AnnotationMemberGone = "minifleet.dev/gone"

	// AnnotationLiftQuarantine on a MemberCluster holds a time (RFC 3339): a quarantine that began before it is over.
	AnnotationLiftQuarantine = "minifleet.dev/lift-quarantine"

	// LabelPropagate, with the value "true" on a Secret or a ConfigMap of the hub, lets it be copied to the
	// members whose MiniClusters name it.
	LabelPropagate = "minifleet.dev/propagate"
	// LabelCopy marks, with the value "true", such a copy on a member.
	LabelCopy = "minifleet.dev/copy"
	// AnnotationCopyOf is NAMESPACE/NAME of the hub's object that a copy was made from, AnnotationCopyOfUID
	// its UID, and AnnotationCopyOfVersion the resource version that was last copied.
	AnnotationCopyOf        = "minifleet.dev/copy-of"
	AnnotationCopyOfUID     = "minifleet.dev/copy-of-uid"
	AnnotationCopyOfVersion = "minifleet.dev/copy-of-version"
	// AnnotationUserPrefix and the UID of a FleetMiniCluster make the annotation of a copy that says that it
	// is used by that object, whose NAMESPACE/NAME is the value. A copy goes with its last user.
	AnnotationUserPrefix = "user.minifleet.dev/"

	// Finalizer keeps a FleetMiniCluster until its objects are deleted on every member, and a MemberCluster until
	// its deletion policy is carried out.
	Finalizer = "minifleet.dev/cleanup"
	// FieldManager is the server-side apply manager of every write on a member.
	FieldManager = "minifleet"
)
