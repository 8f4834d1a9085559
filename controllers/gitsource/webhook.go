package gitsource

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/gitsource/receiver"
)

// webhookInterval is how often it is tried again to use the Secret of a receiver that cannot be used. Nothing tells that
// it can be by now.
const webhookInterval = time.Minute

// listen has a source called by its webhook before the repository is read, unless it is already: what is pushed later than
// the repository is read finds its hook then, so that no push is missed. What is wrong is reported at the end.
func (r *Reconciler) listen(ctx context.Context, source *v1alpha1.GitSource) {
	if r.Webhooks == nil {
		return
	}
	key := client.ObjectKeyFromObject(source)
	if source.Spec.Receiver == nil {
		r.Webhooks.Remove(key)
		return
	}
	if r.Webhooks.Path(key, source.UID, source.Generation) == "" {
		_, _ = r.register(ctx, source)
	}
}

// reportWebhook sets the path of a source's webhook in its status, or the condition that says why there is none. The Secret is
// read anew, so that a token that has changed counts. An error is one of the hub; the status stays as it is then.
func (r *Reconciler) reportWebhook(ctx context.Context, source *v1alpha1.GitSource) error {
	path, err := r.webhookOf(ctx, source)
	if err != nil && !isSourceError(err) {
		return err
	}
	source.Status.WebhookPath = path
	if err == nil {
		conditions.Delete(source, v1alpha1.ConditionReceiverFailed)
		return nil
	}
	condition.Set(source, r.Now(), conditions.TrueCondition(v1alpha1.ConditionReceiverFailed, reasonOf(err), "%s", err.Error()))
	return nil
}

func (r *Reconciler) webhookOf(ctx context.Context, source *v1alpha1.GitSource) (path string, err error) {
	switch {
	case source.Spec.Receiver == nil:
		return "", nil
	case r.Webhooks == nil:
		return "", &sourceError{v1alpha1.ReasonReceiverOff,
			"spec.receiver: this hub listens for no webhooks: an administrator can switch that on with --receiver-bind-address (docs/webhooks.md); until then the repository is read at its interval"}
	}
	return r.register(ctx, source)
}

// register reads the token of a source's receiver and returns the path at which it counts.
func (r *Reconciler) register(ctx context.Context, source *v1alpha1.GitSource) (path string, err error) {
	key := client.ObjectKeyFromObject(source)
	token, err := r.receiverToken(ctx, source)
	if err != nil {
		if isSourceError(err) {
			r.Webhooks.Remove(key)
		}
		return "", err
	}
	hook := receiver.Hook{Source: key, UID: source.UID, Generation: source.Generation, Type: source.Spec.Receiver.Type, Token: token}
	if source.Spec.Ref != nil {
		hook.Ref = *source.Spec.Ref
	}
	path, err = r.Webhooks.Register(hook)
	if err != nil {
		return "", &sourceError{v1alpha1.ReasonSecretInvalid, fmt.Sprintf("spec.receiver.secretRef: Secret %s/%s: the key %s %s: put a random one there, and give it to the forge",
			source.Namespace, source.Spec.Receiver.SecretRef.Name, v1alpha1.ReceiverTokenKey, err)}
	}
	return path, nil
}

func (r *Reconciler) receiverToken(ctx context.Context, source *v1alpha1.GitSource) ([]byte, error) {
	data, err := r.secret(ctx, source.Namespace, "spec.receiver.secretRef", source.Spec.Receiver.SecretRef.Name, "create it with the key "+v1alpha1.ReceiverTokenKey)
	return data[v1alpha1.ReceiverTokenKey], err
}

// untilWebhook is after how long a source is reconciled again, sooner where its receiver cannot be used.
func untilWebhook(source *v1alpha1.GitSource, after time.Duration) time.Duration {
	switch conditions.GetReason(source, v1alpha1.ConditionReceiverFailed) {
	case v1alpha1.ReasonSecretInvalid, v1alpha1.ReasonBindingMissing:
		return min(after, spread(webhookInterval))
	}
	return after
}

// Trigger implements receiver.Sink.
func (r *Reconciler) Trigger(source types.NamespacedName, after time.Duration) {
	r.Arrivals.Webhook(source, r.Now())
	r.triggers.trigger(source, after)
}

// Ping implements receiver.Sink: it shows on the source that its forge has found it.
func (r *Reconciler) Ping(name types.NamespacedName, sender v1alpha1.ReceiverType) {
	var source v1alpha1.GitSource
	if err := r.Client.Get(context.Background(), name, &source); err != nil {
		return // it was deleted since: it is read from memory
	}
	r.Recorder.Eventf(&source, nil, corev1.EventTypeNormal, v1alpha1.ReasonWebhookPing, "Receive", "the webhook of %s was tried out, and works", sender)
}
