package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Keys of a Notification's Secret.
const (
	// NotificationAddressKey is the URL to send to: of type Chat one of shoutrrr, such as slack://hook:…@webhook.
	NotificationAddressKey = "address"
	// NotificationHMACKey signs webhooks: whsec_ and the base64 of 24 to 64 bytes, or 24 bytes and more as they are.
	NotificationHMACKey = "hmacKey"
	// NotificationTokenKey is sent as a bearer token by types Webhook and Alertmanager.
	NotificationTokenKey = "token"
	// NotificationCAKey holds PEM certificates of authorities that are trusted beside those of the system.
	NotificationCAKey = "ca.crt"
)

// NotificationType is what understands the messages.
//
// +kubebuilder:validation:Enum=Webhook;Alertmanager;Chat
type NotificationType string

// Notification types.
const (
	// NotifyWebhook posts JSON that is signed as Standard Webhooks has it.
	NotifyWebhook NotificationType = "Webhook"
	// NotifyAlertmanager posts alerts to Prometheus's Alertmanager.
	NotifyAlertmanager NotificationType = "Alertmanager"
	// NotifyChat writes a line to a chat.
	NotifyChat NotificationType = "Chat"
)

// NotificationEvent is a transition that is told.
//
// +kubebuilder:validation:Enum=RunStarted;RunSucceeded;RunFailed;RunReplaced;RunCancelled;SourceFailed;SourceRecovered;ApprovalNeeded
type NotificationEvent string

// Notification events. Those of runs are transitions of status.runs of a FleetMiniCluster.
const (
	// EventRunStarted says that the Job of a run was released.
	EventRunStarted NotificationEvent = "RunStarted"
	// EventRunSucceeded, EventRunFailed, EventRunReplaced and EventRunCancelled say how a run has ended. One that was evicted
	// (drained, lost, not started in time) is replaced.
	EventRunSucceeded NotificationEvent = "RunSucceeded"
	EventRunFailed    NotificationEvent = "RunFailed"
	EventRunReplaced  NotificationEvent = "RunReplaced"
	EventRunCancelled NotificationEvent = "RunCancelled"
	// EventSourceFailed says that a GitSource is not Ready, for another reason than that a person has suspended it or is asked.
	EventSourceFailed NotificationEvent = "SourceFailed"
	// EventSourceRecovered says that it is Ready again.
	EventSourceRecovered NotificationEvent = "SourceRecovered"
	// EventApprovalNeeded says that a person has to approve a commit: its prune, or the runs that it would start anew.
	EventApprovalNeeded NotificationEvent = "ApprovalNeeded"
)

// NotificationSpec says what is told to whom. It is about the FleetMiniClusters and GitSources of the Notification's own
// namespace.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'Chat' || has(self.secretRef) && !has(self.address)",message="the address of a chat is a secret: put it into a Secret under the key address, and name that in secretRef"
// +kubebuilder:validation:XValidation:rule="self.type != 'Webhook' || has(self.secretRef)",message="webhooks are signed: name a Secret with the key hmacKey in secretRef"
// +kubebuilder:validation:XValidation:rule="self.type != 'Alertmanager' || has(self.secretRef) || has(self.address)",message="set address, or name a Secret with the key address in secretRef"
// +kubebuilder:validation:XValidation:rule="self.type != 'Alertmanager' || !has(self.events) || self.events.all(e, e in ['RunFailed', 'SourceFailed', 'ApprovalNeeded'])",message="Alertmanager is for what somebody has to look after: of events, it takes RunFailed, SourceFailed and ApprovalNeeded, and their ends are sent by themselves"
type NotificationSpec struct {
	// Type says what understands the messages.
	Type NotificationType `json:"type"`

	// Address is the URL to send to, https:// or http://; of an Alertmanager its root, below which is /api/v2/alerts. The key
	// address of the Secret comes before it, which is the place for a URL that is a secret itself.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[^\s]+$`
	Address string `json:"address,omitempty"`

	// SecretRef names a Secret in this namespace with the keys address, hmacKey, token and ca.crt, each of them where it is
	// needed.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// Events are what is told. Default: RunFailed, SourceFailed, SourceRecovered and ApprovalNeeded.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Events []NotificationEvent `json:"events,omitempty"`

	// Selector limits it to objects with these labels. Default: all of the namespace.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// Suspend sends nothing. What happens meanwhile is not made up for.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// Limits of what a Notification remembers.
const (
	// MaxToldTransitions is how many transitions since status.memory.since are remembered; with more, since moves on.
	MaxToldTransitions = 400
	// MaxAwaitedTransitions is how many older ones are remembered that are still to be told.
	MaxAwaitedTransitions = 1000
	// MaxActiveConditions is how many conditions of sources are remembered.
	MaxActiveConditions = 500
)

// NotificationMemory is what makes each transition be told once, whichever hub tells it.
type NotificationMemory struct {
	// Since: an older transition was told, unless it is one of Awaited.
	Since metav1.Time `json:"since"`
	// Told are transitions since then that were told: RUN/Started or RUN/Ended.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=400
	Told []string `json:"told,omitempty"`
	// Awaited are those to come of runs that began before Since, and those that are being told.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Awaited []string `json:"awaited,omitempty"`
	// Active are what was told of sources and holds: UID/CONDITION.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	Active []string `json:"active,omitempty"`
}

// NotificationStatus is what became of the messages.
type NotificationStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastDeliveredTime is when a message was last accepted.
	// +optional
	LastDeliveredTime *metav1.Time `json:"lastDeliveredTime,omitempty"`

	// Delivered is how many messages were accepted.
	// +optional
	Delivered int64 `json:"delivered,omitempty"`
	// Failed is how many were given up after all attempts.
	// +optional
	Failed int64 `json:"failed,omitempty"`
	// Dropped is how many were not tried because there were too many at once.
	// +optional
	Dropped int64 `json:"dropped,omitempty"`

	// Memory is for the controller.
	// +optional
	Memory *NotificationMemory `json:"memory,omitempty"`
}

// Notification tells people and programs of runs and sources of its namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ntf,categories=minifleet
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Delivered",type=integer,JSONPath=`.status.delivered`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`
// +kubebuilder:printcolumn:name="Last",type=date,JSONPath=`.status.lastDeliveredTime`
// +kubebuilder:printcolumn:name="Status",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Notification struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   NotificationSpec   `json:"spec"`
	Status NotificationStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the status.
func (n *Notification) GetConditions() []metav1.Condition { return n.Status.Conditions }

// SetConditions replaces the conditions of the status.
func (n *Notification) SetConditions(conditions []metav1.Condition) { n.Status.Conditions = conditions }

// NotificationList is a list of Notifications.
//
// +kubebuilder:object:root=true
type NotificationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Notification `json:"items"`
}
