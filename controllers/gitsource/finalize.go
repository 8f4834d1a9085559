package gitsource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/condition"
	"github.com/minifleet/minifleet/controllers/internal/retry"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// deletionInterval is how often a deletion is tried again that an account lacks the rights for. The end of an object is
// an event.
const deletionInterval = 10 * time.Second

// setFinalizer puts the finalizer on a source that is to delete what it creates, before it creates anything, and takes
// it away when that has changed. A dry run writes nothing.
func (r *Reconciler) setFinalizer(ctx context.Context, source *v1alpha1.GitSource) error {
	deletes := source.Spec.DeletionPolicy == v1alpha1.SourceDelete
	switch {
	case deletes && source.Spec.Mode != v1alpha1.SourceDryRun && controllerutil.AddFinalizer(source, v1alpha1.Finalizer):
		return r.Client.Update(ctx, source)
	case !deletes && controllerutil.RemoveFinalizer(source, v1alpha1.Finalizer):
		return r.Client.Update(ctx, source)
	}
	return nil
}

// finalize deletes what a source has created that is being deleted itself, as spec.deletionPolicy says, and lets the
// source go once all of that is deleted. It needs nothing of the repository.
func (r *Reconciler) finalize(ctx context.Context, source *v1alpha1.GitSource) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(source, v1alpha1.Finalizer) {
		return reconcile.Result{}, nil
	}
	stays, err := r.whyAllStays(ctx, source)
	if err != nil {
		return reconcile.Result{}, err
	}
	if stays != "" {
		return r.release(ctx, source, v1alpha1.ReasonOrphaned, "what this source has created stays: "+stays)
	}
	hub, err := readHub(ctx, r.Live, source.Namespace) // the cache may not have what was created last
	if err != nil {
		return reconcile.Result{}, err
	}
	plan := changes.Deletion(source, hub)
	kept := plan.Keys(v1alpha1.ChangeKeep)
	remaining := append(plan.Keys(v1alpha1.ChangeDelete), plan.Pending...)
	if len(remaining) == 0 {
		message := "everything that this source has created is deleted"
		if len(kept) > 0 {
			message += ", but for what is kept: " + sanitize.Names(kept, maxNames)
		}
		return r.release(ctx, source, v1alpha1.ReasonCleanedUp, message)
	}
	to, err := r.writer(source)
	if err != nil {
		return reconcile.Result{}, err
	}
	done, err := deleteAll(ctx, to, &plan)
	if reportErr := r.reportDeleting(ctx, source, remaining, done, err); reportErr != nil {
		return retry.OnConflict(reportErr)
	}
	if err != nil && !isSourceError(err) {
		return retry.OnConflict(err)
	}
	return reconcile.Result{RequeueAfter: deletionInterval}, nil
}

// whyAllStays says why nothing is deleted with a source; empty where it is. Like Flux CD's Kustomization, a suspended source
// deletes nothing.
func (r *Reconciler) whyAllStays(ctx context.Context, source *v1alpha1.GitSource) (string, error) {
	switch {
	case source.Spec.DeletionPolicy != v1alpha1.SourceDelete:
		return "spec.deletionPolicy is Orphan", nil
	case source.Spec.Suspend:
		return "spec.suspend is true", nil
	case source.Spec.Mode == v1alpha1.SourceDryRun:
		return "spec.mode is DryRun", nil
	}
	var namespace corev1.Namespace
	if err := r.Client.Get(ctx, client.ObjectKey{Name: source.Namespace}, &namespace); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading namespace %s: %w", source.Namespace, err)
	}
	if namespace.UID == "" || !namespace.DeletionTimestamp.IsZero() {
		return "its namespace is being deleted, with everything in it", nil // its accounts as well, which could delete nothing
	}
	return "", nil
}

// release ends the deletion of a source.
func (r *Reconciler) release(ctx context.Context, source *v1alpha1.GitSource, reason, message string) (reconcile.Result, error) {
	controllerutil.RemoveFinalizer(source, v1alpha1.Finalizer)
	if err := r.Client.Update(ctx, source); err != nil {
		return retry.OnConflict(err)
	}
	r.Recorder.Eventf(source, nil, corev1.EventTypeNormal, reason, "Delete", "%s", sanitize.Text(message, sanitize.MaxNote))
	return reconcile.Result{}, nil
}

// reportDeleting says what the deletion of a source waits for.
func (r *Reconciler) reportDeleting(ctx context.Context, source *v1alpha1.GitSource, remaining []string, done pruned, err error) error {
	before := source.DeepCopy()
	source.Status.ObservedGeneration = source.Generation
	message := fmt.Sprintf("is being deleted, and waits for %d objects that it has created (spec.deletionPolicy: Delete): %s",
		len(remaining), sanitize.Names(remaining, maxNames))
	const remedy = "; spec.deletionPolicy: Orphan leaves them"
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		message += remedy + ". " + err.Error()
	case len(done.problems) > 0:
		message += remedy + ". " + done.problems[0].Object + ": " + done.problems[0].Message
	}
	condition.Set(source, r.Now(), conditions.FalseCondition(v1alpha1.ConditionReady, v1alpha1.ReasonDeleting, "%s", message))
	if !equality.Semantic.DeepEqual(before.Status, source.Status) {
		if err := r.Client.Status().Update(ctx, source); err != nil {
			return err
		}
	}
	if len(done.deleted) > 0 {
		r.Recorder.Eventf(source, nil, corev1.EventTypeNormal, v1alpha1.ReasonDeleting, "Delete", "%s",
			sanitize.Text("the source is being deleted, and with it "+sanitize.Names(done.deleted, maxNames), sanitize.MaxNote))
	}
	for _, c := range newTroubles(source, before) {
		if err != nil || len(done.problems) > 0 {
			r.Recorder.Eventf(source, nil, corev1.EventTypeWarning, c.Reason, "Delete", "%s", sanitize.Text(c.Message, sanitize.MaxNote))
		}
	}
	return nil
}
