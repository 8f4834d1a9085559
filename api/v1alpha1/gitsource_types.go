package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Keys of a GitSource's Secrets, those of Flux CD's GitRepository and Receiver.
const (
	// GitUsernameKey and GitPasswordKey are for HTTPS, and for a proxy; over SSH, the password is that of the private key.
	GitUsernameKey    = "username"
	GitPasswordKey    = "password"
	GitBearerTokenKey = "bearerToken"
	// GitCAKey holds PEM certificates of authorities, GitCertKey and GitKeyKey the client's certificate and private key.
	GitCAKey   = "ca.crt"
	GitCertKey = "tls.crt"
	GitKeyKey  = "tls.key"
	// GitIdentityKey is a private key for SSH, GitIdentityPubKey its public key, which is not needed, GitKnownHostsKey the
	// host keys in the format of OpenSSH.
	GitIdentityKey    = "identity"
	GitIdentityPubKey = "identity.pub"
	GitKnownHostsKey  = "known_hosts"
	// ProxyAddressKey is the URL of a proxy.
	ProxyAddressKey = "address"
	// ReceiverTokenKey is what a receiver shares with the forge.
	ReceiverTokenKey = "token"
)

// GitRef names a commit in one way.
//
// +kubebuilder:validation:XValidation:rule="[has(self.branch), has(self.tag), has(self.semver), has(self.name), has(self.commit)].filter(x, x).size() == 1",message="set exactly one of branch, tag, semver, name and commit"
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
	// Name is the full name of a reference, e.g. refs/pull/7/merge.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^refs/[^\s~^:?*\[\\]+$`
	Name string `json:"name,omitempty"`
	// Commit is a full commit hash of SHA-1, 40 digits. Repositories of SHA-256 are not read.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{40}$`
	Commit string `json:"commit,omitempty"`
}

// VerifyMode says what has to be signed.
//
// +kubebuilder:validation:Enum=HEAD;Tag;TagAndHEAD
type VerifyMode string

// Verify modes, those of Flux CD.
const (
	// VerifyHead wants the commit signed.
	VerifyHead VerifyMode = "HEAD"
	// VerifyTag wants the annotated tag signed that the ref names.
	VerifyTag VerifyMode = "Tag"
	// VerifyTagAndHead wants both.
	VerifyTagAndHead VerifyMode = "TagAndHEAD"
)

// GitVerify says by whom commits and tags have to be signed.
type GitVerify struct {
	// Mode says what has to be signed.
	// +optional
	// +kubebuilder:default=HEAD
	Mode VerifyMode `json:"mode,omitempty"`
	// SecretRef names a Secret in this namespace whose values are the public keys that are trusted, whatever their names:
	// OpenPGP, armored, or SSH, one to a line as in authorized_keys.
	SecretRef LocalReference `json:"secretRef"`
}

// ReceiverType is a forge whose webhooks are understood.
//
// +kubebuilder:validation:Enum=github;gitlab;gitea;forgejo;bitbucket;generic-hmac
type ReceiverType string

// Receiver types, those of Flux CD where it has them.
const (
	ReceiverGitHub    ReceiverType = "github"
	ReceiverGitLab    ReceiverType = "gitlab"
	ReceiverGitea     ReceiverType = "gitea"
	ReceiverForgejo   ReceiverType = "forgejo"
	ReceiverBitbucket ReceiverType = "bitbucket"
	ReceiverGeneric   ReceiverType = "generic-hmac"
)

// GitReceiver lets a forge say that somebody has pushed.
type GitReceiver struct {
	// Type is the forge.
	Type ReceiverType `json:"type"`
	// SecretRef names a Secret in this namespace with the key token, which the forge is given as well: at least 16 bytes.
	SecretRef LocalReference `json:"secretRef"`
}

// SourceMode says what is done with what is read.
//
// +kubebuilder:validation:Enum=Apply;DryRun
type SourceMode string

// Source modes.
const (
	// SourceApply writes what Git declares to the hub.
	SourceApply SourceMode = "Apply"
	// SourceDryRun writes nothing but this status, which says what would be done.
	SourceDryRun SourceMode = "DryRun"
)

// SourceDeletionPolicy says what becomes of what a GitSource has created when it is deleted itself.
//
// +kubebuilder:validation:Enum=Delete;Orphan
type SourceDeletionPolicy string

// Deletion policies.
const (
	// SourceDelete deletes it, and waits for that.
	SourceDelete SourceDeletionPolicy = "Delete"
	// SourceOrphan leaves it on the hub, where it goes on.
	SourceOrphan SourceDeletionPolicy = "Orphan"
)

// SourceApproval says from how much on a person has to approve a commit.
type SourceApproval struct {
	// PrunePercent: a commit that would delete two or more of the source's objects on the hub, and at least so many percent
	// of them, waits for approval. One that would delete all of them always does.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	PrunePercent int32 `json:"prunePercent,omitempty"`
	// RunsPercent: a commit that would have two or more MiniClusters of the source run anew that have run before, and at
	// least so many percent of those on the hub, waits for approval.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RunsPercent int32 `json:"runsPercent,omitempty"`
}

// GitSourceSpec says where manifests come from.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.path) && size(self.path) > 0 && has(self.paths) && self.paths.size() > 0)",message="set path or paths, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.verify.mode) || self.verify.mode == 'HEAD' || (has(self.ref) && (has(self.ref.tag) || has(self.ref.semver) || (has(self.ref.name) && self.ref.name.startsWith('refs/tags/'))))",message="verify: modes Tag and TagAndHEAD verify a signed tag: set ref.tag, ref.semver, or a ref.name that begins with refs/tags/, or use mode HEAD"
type GitSourceSpec struct {
	// URL of the repository, over HTTPS or SSH: https://HOST/PATH, ssh://USER@HOST/PATH, or USER@HOST:PATH. Plain HTTP is
	// accepted where nothing is allowed (spec.allow, and the namespace's annotation minifleet.dev/allow), but no credentials
	// are sent over it, except to a loopback address.
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^(https?://[^@\s]+|ssh://([^/@:\s]+@)?[^/@\s]+/\S+|[^/@:\s]+@([^/@:\s\[\]]+|\[[0-9A-Fa-f:.]+\]):\S+)$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('ssh://') || self.matches('^ssh://([^/]+@)?([^/:]+|\\\\[[0-9A-Fa-f:.]+\\\\])(:[0-9]+)?/')",message="what stands between the colon and the path is a port: write ssh://USER@HOST/PATH, or USER@HOST:PATH without ssh://"
	URL string `json:"url"`

	// Ref to use. Without it, the repository's default branch.
	// +optional
	Ref *GitRef `json:"ref,omitempty"`

	// Path is the directory to read, with all below it, or to build, where it holds a kustomization.yaml. Without it, the
	// whole repository.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(p, p == '..')",message="path is relative to the root of the repository and cannot leave it: remove the leading / and every .."
	Path string `json:"path,omitempty"`

	// Paths are several of them, in the place of path. What one declares another must not.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.all(e, !e.startsWith('/') && !e.split('/').exists(p, p == '..'))",message="paths are relative to the root of the repository and cannot leave it: remove the leading / and every .."
	Paths []string `json:"paths,omitempty"`

	// Ignore says which files are not read, in the syntax of .gitignore, relative to the root of the repository. It comes
	// after what files named .sourceignore say, and can take back what they ignore.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Ignore string `json:"ignore,omitempty"`

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

	// SecretRef names a Secret in this namespace. For HTTPS: `username` and `password`, or `bearerToken`, or `tls.crt` and
	// `tls.key`, and optionally `ca.crt`. For SSH: `identity` and `known_hosts`, and `password` where the key has one.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// ProxySecretRef names a Secret in this namespace with the `address` of a proxy (http://, https:// or socks5://), and
	// optionally `username` and `password`. Without it, the proxy of the hub's environment is used, for HTTPS alone.
	// +optional
	ProxySecretRef *LocalReference `json:"proxySecretRef,omitempty"`

	// Verify says by whom commits and tags have to be signed. What is not is not applied.
	// +optional
	Verify *GitVerify `json:"verify,omitempty"`

	// Receiver lets a forge say that somebody has pushed, at the path that status.webhookPath names.
	// +optional
	Receiver *GitReceiver `json:"receiver,omitempty"`

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

	// Mode says what is done with what is read: Apply, or DryRun, which writes nothing but status.dryRun.
	// +optional
	// +kubebuilder:default=Apply
	Mode SourceMode `json:"mode,omitempty"`

	// DeletionPolicy says what becomes of what this source has created when the source is deleted: Orphan, it stays and goes
	// on, or Delete.
	// +optional
	// +kubebuilder:default=Orphan
	DeletionPolicy SourceDeletionPolicy `json:"deletionPolicy,omitempty"`

	// Approval says from how much on a person has to approve a commit.
	// +optional
	Approval *SourceApproval `json:"approval,omitempty"`

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

// Verification says how the signatures of a commit were checked.
type Verification struct {
	// Mode is what had to be signed.
	Mode VerifyMode `json:"mode"`
	// Commit and Tag say by which key the commit and the tag are signed, as type and fingerprint.
	// +optional
	Commit string `json:"commit,omitempty"`
	// +optional
	Tag string `json:"tag,omitempty"`
}

// MaxChanges is how many objects the changes of a commit name.
const MaxChanges = 20

// Changes are what a commit has changed on the hub.
type Changes struct {
	// Created, Updated and Deleted are numbers of objects.
	// +optional
	Created int32 `json:"created,omitempty"`
	// +optional
	Updated int32 `json:"updated,omitempty"`
	// +optional
	Deleted int32 `json:"deleted,omitempty"`
	// Objects are the first 20 of them, as +KIND/NAME, ~KIND/NAME and -KIND/NAME.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Objects []string `json:"objects,omitempty"`
}

// Commit is a commit of the repository.
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
	// AppliedTime is when it was applied; where that was more than once, with others between, the last time.
	// +optional
	AppliedTime *metav1.Time `json:"appliedTime,omitempty"`
	// Verification says whose signatures it bears; absent where spec.verify did not ask.
	// +optional
	Verification *Verification `json:"verification,omitempty"`
	// Changes are what it has changed; absent where it has changed nothing.
	// +optional
	Changes *Changes `json:"changes,omitempty"`
}

// MaxInventory is how many objects a GitSource lists.
const MaxInventory = 1000

// InventoryState is how an object of a source is.
type InventoryState string

// Inventory states.
const (
	// InventorySynced: it is on the hub as Git declares it.
	InventorySynced InventoryState = "Synced"
	// InventoryOutOfSync: it is not, and status.problems says why.
	InventoryOutOfSync InventoryState = "OutOfSync"
	// InventoryWaiting: it waits for approval.
	InventoryWaiting InventoryState = "WaitingForApproval"
	// InventoryKept: Git no longer declares it, and it stays: prune is off for it, or a file cannot be read that may
	// declare it.
	InventoryKept InventoryState = "Kept"
	// InventoryDeleting: it is being deleted.
	InventoryDeleting InventoryState = "Deleting"
)

// InventoryEntry is one object of a source.
type InventoryEntry struct {
	// Object is KIND/NAME.
	Object string `json:"object"`
	// Path of the file that declares it, or did last.
	// +optional
	Path string `json:"path,omitempty"`
	// State of the object.
	State InventoryState `json:"state"`
}

// ChangeAction is what would become of an object.
type ChangeAction string

// Change actions.
const (
	// ChangeCreate: it appears.
	ChangeCreate ChangeAction = "Create"
	// ChangeUpdate: it changes, and nothing runs for that.
	ChangeUpdate ChangeAction = "Update"
	// ChangeRun: it changes, and runs anew.
	ChangeRun ChangeAction = "Run"
	// ChangeDelete: it goes away.
	ChangeDelete ChangeAction = "Delete"
	// ChangeKeep: Git no longer declares it, and it stays nevertheless.
	ChangeKeep ChangeAction = "Keep"
	// ChangeRefuse: it would not be applied.
	ChangeRefuse ChangeAction = "Refuse"
)

// PlannedChange is what would become of one object.
type PlannedChange struct {
	// Object is KIND/NAME.
	Object string `json:"object"`
	// Action is what would become of it.
	Action ChangeAction `json:"action"`
	// Path of the file that declares it, or did last.
	// +optional
	Path string `json:"path,omitempty"`
	// NeedsApproval says that it would wait for approval.
	// +optional
	NeedsApproval bool `json:"needsApproval,omitempty"`
	// Message says more, for people.
	// +optional
	Message string `json:"message,omitempty"`
}

// MaxPlannedChanges is how many objects a dry run names.
const MaxPlannedChanges = 200

// DryRunStatus is what would be done for a commit.
type DryRunStatus struct {
	// Commit is what was read.
	Commit Commit `json:"commit"`
	// Total is how many objects would change.
	Total int32 `json:"total"`
	// Changes are the first 200 of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Changes []PlannedChange `json:"changes,omitempty"`
}

// SourceOrigin is where what is applied comes from.
type SourceOrigin struct {
	// URL and Paths are those of the spec.
	URL string `json:"url"`
	// +optional
	// +listType=atomic
	Paths []string `json:"paths,omitempty"`
	// Moving says that the spec names something else by now, of which not everything is applied yet: what that would delete
	// or run anew waits for approval.
	// +optional
	Moving bool `json:"moving,omitempty"`
}

// UsedApprovals are the approvals of a GitSource that have been used, and approve nothing any more.
type UsedApprovals struct {
	// Prune and Runs are values of the annotations minifleet.dev/approve-prune and minifleet.dev/approve-runs.
	// +optional
	Prune string `json:"prune,omitempty"`
	// +optional
	Runs string `json:"runs,omitempty"`
}

// GitSourceStatus is what became of the repository's manifests.
type GitSourceStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready; PruneBlocked, RunsBlocked and ReceiverFailed while they are true; SourceVerified where spec.verify
	// is set.
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

	// LastAttempted is the commit that was last read, whether it could be applied or not.
	// +optional
	LastAttempted *Commit `json:"lastAttempted,omitempty"`

	// Origin is where what is applied comes from.
	// +optional
	Origin *SourceOrigin `json:"origin,omitempty"`

	// UsedApprovals are approvals that have been used.
	// +optional
	UsedApprovals *UsedApprovals `json:"usedApprovals,omitempty"`

	// Inventory are the first 1000 of the objects of this source, by name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Inventory []InventoryEntry `json:"inventory,omitempty"`

	// InventoryCount is how many objects this source has.
	// +optional
	InventoryCount int32 `json:"inventoryCount,omitempty"`

	// DryRun is what would be done, while spec.mode is DryRun.
	// +optional
	DryRun *DryRunStatus `json:"dryRun,omitempty"`

	// WebhookPath is where the receiver listens for the forge of spec.receiver.
	// +optional
	WebhookPath string `json:"webhookPath,omitempty"`

	// LastHandledReconcileAt is the value of the annotation minifleet.dev/reconcile-at, or of
	// reconcile.fluxcd.io/requestedAt, that was last acted on.
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
