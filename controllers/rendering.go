package controllers

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/flux/curve"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/render"
)

// curveKey is the key of the hub's Secret that holds the CURVE certificate.
const curveKey = "curve.cert"

// curveSuffix follows the name of a FleetMiniCluster in that of its Secret on the hub. No object of a run
// has a dot in its name, so that the hub can be a member of itself.
const curveSuffix = ".curve"

// rendered is what a run needs on a member, in the order in which it is applied.
type rendered struct {
	support  []client.Object
	services *corev1.Pod // nil where there are none
	job      *batchv1.Job
}

// anyCert is a certificate for renderings that are only compared: a Secret's content is compared by the
// hash that it carries.
func (r *FleetMiniClusterReconciler) anyCert() []byte {
	r.placeholderOnce.Do(func() {
		if cert, err := curve.New(rand.Reader); err == nil {
			r.placeholder = cert.Encode()
		}
	})
	return r.placeholder
}

// render renders the MiniCluster for a member.
func (p *pass) render(s *site, cert []byte) (*rendered, error) {
	run := p.ledger.Last(s.name)
	spec, err := p.specFor(s)
	if err != nil {
		return nil, err
	}
	in := render.Input{
		Name: p.fmc.Name, Namespace: p.key(s).Namespace, Spec: *spec, Valid: p.valid, CurveCert: cert,
		Suspend: p.wanted.Suspend, Origin: p.origin,
	}
	if run != nil {
		in.RunID = run.ID
	}
	bundle, err := render.Render(in)
	if err != nil {
		return nil, fmt.Errorf("rendering: %w", err)
	}
	out := &rendered{job: bundle.Job, services: bundle.ServicesPod, support: []client.Object{bundle.Secret, bundle.ConfigMap}}
	for _, service := range bundle.Services {
		out.support = append(out.support, service)
	}
	if run != nil {
		out.job.Annotations[v1alpha1.AnnotationRunDigest] = run.Digest
		out.job.Annotations[v1alpha1.AnnotationSuspended] = strconv.FormatBool(p.wanted.Suspend)
		clusters.HoldBack(out.job)
		if run.RerunAt != "" {
			out.job.Annotations[v1alpha1.AnnotationRunToken] = run.RerunAt
		}
	}
	return out, nil
}

// curveCert returns the object's CURVE certificate, which a pass looks for once.
func (p *pass) curveCert(ctx context.Context) ([]byte, error) {
	p.certOnce.Do(func() { p.cert, p.certErr = p.r.curveCert(ctx, p.fmc, p.nothingRan()) })
	return p.cert, p.certErr
}

// nothingRan says that, as far as the ledger goes, there has been no use for a certificate yet.
func (p *pass) nothingRan() bool {
	return !slices.ContainsFunc(p.ledger, func(r v1alpha1.Run) bool { return r.State != v1alpha1.RunStarting })
}

// curveCert returns an object's CURVE certificate. It is made once and kept in a Secret on the hub, which
// belongs to the object and goes with it. That it is likely to be missing saves asking for it first.
func (r *FleetMiniClusterReconciler) curveCert(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, missing bool) ([]byte, error) {
	key := types.NamespacedName{Namespace: fmc.Namespace, Name: fmc.Name + curveSuffix}
	var secret corev1.Secret
	err := error(apierrors.NewNotFound(corev1.Resource("secrets"), key.Name))
	if !missing {
		err = r.Client.Get(ctx, key, &secret)
	}
	if apierrors.IsNotFound(err) {
		made, makeErr := newCurveSecret(key, fmc)
		if makeErr != nil {
			return nil, makeErr
		}
		err = r.Client.Create(ctx, made)
		if err == nil {
			return made.Data[curveKey], nil
		}
		if apierrors.IsAlreadyExists(err) {
			err = r.Client.Get(ctx, key, &secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the CURVE certificate in Secret %s: %w", key, err)
	}
	if !metav1.IsControlledBy(&secret, fmc) {
		return nil, fmt.Errorf("the Secret %s is needed for the CURVE certificate, but it is not MiniFleet's: remove it, or rename the FleetMiniCluster", key)
	}
	if _, err := curve.Parse(secret.Data[curveKey]); err != nil {
		return nil, fmt.Errorf("the Secret %s holds no CURVE certificate any more: delete it to have a new one made: %w", key, err)
	}
	return secret.Data[curveKey], nil
}

func newCurveSecret(key types.NamespacedName, fmc *v1alpha1.FleetMiniCluster) (*corev1.Secret, error) {
	cert, err := curve.New(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a CURVE certificate: %w", err)
	}
	cert.Name = fmc.Name // brokers refuse a certificate without a name
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:          map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fmc, v1alpha1.GroupVersion.WithKind("FleetMiniCluster"))},
		},
		Immutable: ptr.To(true),
		Data:      map[string][]byte{curveKey: cert.Encode()},
	}, nil
}
