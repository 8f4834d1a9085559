package gitsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/receiver"
)

// tokens is a hub with Secrets, of which each read can fail.
type tokens struct {
	client.Client
	reads int
	fails error
}

func newTokens(token string) *tokens {
	out := &tokens{}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "webhook"}, Data: map[string][]byte{v1alpha1.ReceiverTokenKey: []byte(token)}}
	out.Client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(secret).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, o ...client.GetOption) error {
			out.reads++
			if out.fails != nil {
				return out.fails
			}
			return c.Get(ctx, key, obj, o...)
		},
	}).Build()
	return out
}

func hooked(secret string) *v1alpha1.GitSource {
	s := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet", UID: "1", Generation: 1}}
	s.Spec.Receiver = &v1alpha1.GitReceiver{Type: v1alpha1.ReceiverGitHub, SecretRef: v1alpha1.LocalReference{Name: secret}}
	return s
}

func listening(c client.Client) *Reconciler {
	now := func() time.Time { return noon }
	return &Reconciler{Client: c, Now: now, Namespace: "minifleet-system", Webhooks: receiver.New(receiver.Options{Now: now, Log: logr.Discard()})}
}

const goodToken = "0123456789abcdef"

func TestReportWebhook(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "webhook", errors.New("no"))
	cases := map[string]struct {
		hub     *tokens
		secret  string
		off     bool
		reason  string // of the condition; empty: there is a path
		message string
		again   time.Duration // at least and about
	}{
		"works":         {hub: newTokens(goodToken), secret: "webhook", again: time.Hour},
		"no Secret":     {hub: newTokens(goodToken), secret: "other", reason: v1alpha1.ReasonSecretInvalid, message: "there is no Secret hpc/other: create it with the key token", again: time.Minute},
		"no token":      {hub: newTokens(""), secret: "webhook", reason: v1alpha1.ReasonSecretInvalid, message: "the key token has to have at least 16 bytes", again: time.Minute},
		"a short token": {hub: newTokens("secret"), secret: "webhook", reason: v1alpha1.ReasonSecretInvalid, message: "at least 16 bytes", again: time.Minute},
		"no right": {hub: &tokens{Client: interceptor.NewClient(newTokens(goodToken).Client.(client.WithWatch), interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		}})}, secret: "webhook", reason: v1alpha1.ReasonBindingMissing, message: "kubectl -n hpc create rolebinding minifleet-secrets", again: time.Minute},
		"not listened to": {hub: newTokens(goodToken), secret: "webhook", off: true, reason: v1alpha1.ReasonReceiverOff, message: "--receiver-bind-address", again: time.Hour},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, source := listening(c.hub), hooked(c.secret)
			if c.off {
				r.Webhooks = nil
			}
			r.listen(t.Context(), source)
			if err := r.reportWebhook(t.Context(), source); err != nil {
				t.Fatal(err)
			}
			failed := conditions.Get(source, v1alpha1.ConditionReceiverFailed)
			switch {
			case c.reason == "" && (failed != nil || !strings.HasPrefix(source.Status.WebhookPath, "/hook/")):
				t.Error(failed, source.Status.WebhookPath)
			case c.reason != "" && (failed == nil || failed.Reason != c.reason || !strings.Contains(failed.Message, c.message) || source.Status.WebhookPath != ""):
				t.Error(failed, source.Status.WebhookPath)
			}
			if got := untilWebhook(source, time.Hour); got < c.again*9/10 || got > c.again*11/10 {
				t.Error("reconciled again after", got)
			}
			source.Spec.Receiver = nil
			r.listen(t.Context(), source)
			if err := r.reportWebhook(t.Context(), source); err != nil || source.Status.WebhookPath != "" || conditions.Get(source, v1alpha1.ConditionReceiverFailed) != nil {
				t.Error("without a receiver:", err, source.Status)
			}
		})
	}
}

// A hub that does not answer takes no hook away, and is no reason to say that there is none.
func TestWebhookOfHubThatDoesNotAnswer(t *testing.T) {
	hub := newTokens(goodToken)
	r, source := listening(hub), hooked("webhook")
	r.listen(t.Context(), source)
	if err := r.reportWebhook(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	before := source.Status.DeepCopy()
	hub.fails = errors.New("etcd is down")
	if err := r.reportWebhook(t.Context(), source); err == nil {
		t.Error("it is not tried again")
	}
	if source.Status.WebhookPath != before.WebhookPath || len(source.Status.Conditions) != 0 {
		t.Error(source.Status)
	}
	if got := r.Webhooks.Path(client.ObjectKeyFromObject(source), source.UID, 1); got != before.WebhookPath {
		t.Error("the hook is no longer there:", got)
	}
}

// Before the repository is read, the Secret is read only where the hook is not known.
func TestListen(t *testing.T) {
	hub := newTokens(goodToken)
	r, source := listening(hub), hooked("webhook")
	for range 3 {
		r.listen(t.Context(), source)
	}
	if hub.reads != 1 {
		t.Error(hub.reads)
	}
	source.Generation++
	source.Spec.Ref = &v1alpha1.GitRef{Branch: "main"}
	r.listen(t.Context(), source)
	if hub.reads != 2 || r.Webhooks.Path(client.ObjectKeyFromObject(source), "1", 2) == "" {
		t.Error("a change of the source is not known before its repository is read:", hub.reads)
	}
}

// A trigger is queued once, and again where its source is being reconciled.
func TestTriggers(t *testing.T) {
	var triggers triggers
	name := types.NamespacedName{Namespace: "hpc", Name: "fleet"}
	triggers.trigger(name, 0) // nothing runs yet
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := triggers.source().Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		triggers.trigger(name, 0)
	}
	if queue.Len() != 1 {
		t.Fatal(queue.Len())
	}
	request, _ := queue.Get()
	triggers.trigger(name, 0)
	triggers.trigger(name, time.Nanosecond)
	if queue.Len() != 0 {
		t.Error("it is reconciled twice at the same time")
	}
	queue.Done(request)
	if again, _ := queue.Get(); again.NamespacedName != name {
		t.Error(fmt.Sprint("a push during a reconciliation is forgotten: ", again))
	}
}
