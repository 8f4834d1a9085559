package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/render"
)

// sameRequests is a bare loop that sends, beside the creates, what else the controller has to send until a Job is released: to
// the hub a FleetMiniCluster, its ledger, its Secret and the read before the release, to the member the release. What of a
// measured time is above this floor is the controller's own.
type sameRequests struct {
	hub client.Client
	// of is as the hub has one that the controller has made.
	of     *v1alpha1.FleetMiniCluster
	secret *corev1.Secret
}

// shardOfFloor is that of no controller, so that none takes what the floor creates.
const shardOfFloor = "floor"

// certificateType is that of the Secrets of MiniClusters on the hub.
const certificateType corev1.SecretType = "minifleet.dev/curve-certificate"

// likeThose takes what the controller has made as the pattern, which it has to have done by now.
func (f *fleet) likeThose(ctx context.Context) (*sameRequests, error) {
	var made v1alpha1.FleetMiniClusterList
	var secrets corev1.SecretList
	if err := errors.Join(f.hub.List(ctx, &made, client.InNamespace(fleetNamespace)), f.hub.List(ctx, &secrets)); err != nil {
		return nil, err
	}
	s := &sameRequests{hub: f.hub}
	for i := range made.Items {
		if len(made.Items[i].Status.Runs) > 0 {
			s.of = &made.Items[i]
		}
	}
	for i := range secrets.Items {
		if secrets.Items[i].Type == certificateType && secrets.Items[i].Annotations[v1alpha1.AnnotationOwner] != "" {
			s.secret = &secrets.Items[i]
		}
	}
	if s.of == nil || s.secret == nil {
		return nil, errors.New("the hub has no MiniCluster that was begun, with its Secret")
	}
	return s, nil
}

// create sends everything for one MiniCluster, as the controller does one after the other what has to be.
func (s *sameRequests) create(ctx context.Context, to target, b *render.Bundle) error {
	fmc := &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: floorNamespace, Name: b.Job.Name, Annotations: s.of.Annotations, Labels: map[string]string{v1alpha1.LabelShard: shardOfFloor},
		},
		Spec: s.of.Spec,
	}
	if err := s.hub.Create(ctx, fmc); err != nil {
		return err
	}
	fmc.Status = s.of.Status
	if err := s.hub.Status().Update(ctx, fmc); err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: b.Job.Name, Annotations: s.secret.Annotations, Labels: map[string]string{"bench": "hub"}},
		Data:       s.secret.Data,
	}
	if _, err := to.hub.CoreV1().Secrets(floorNamespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: benchAgent}); err != nil {
		return err
	}
	suspended := *b
	suspended.Job = b.Job.DeepCopy()
	suspended.Job.Spec.Suspend = ptr.To(true)
	if err := createBundle(ctx, to.member, &suspended); err != nil {
		return err
	}
	if err := s.hub.Get(ctx, client.ObjectKeyFromObject(fmc), fmc); err != nil {
		return err
	}
	_, err := to.member.BatchV1().Jobs(floorNamespace).Patch(ctx, b.Job.Name, types.StrategicMergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	return err
}
