package fleetminicluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"sync"

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
	"github.com/minifleet/minifleet/internal/plan"
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

// create puts a run on a member: Secret, ConfigMap, Services, what it references, the pod of services, and the
// Job last.
func (c *reconciliation) create(ctx context.Context, t *plan.Target) (*batchv1.Job, error) {
	m := c.members[t.Name]
	cert, err := c.curveCert(ctx)
	if err != nil {
		return nil, err
	}
	bundle, err := c.render(t, cert)
	if err != nil {
		return nil, err
	}
	if err := c.applySupport(ctx, m, bundle.support); err != nil {
		return nil, err
	}
	if err := c.satisfy(ctx, m, c.referencesOn(t.Name), ensureCopy); err != nil {
		return nil, err
	}
	if err := c.clearForStart(ctx, m, bundle); err != nil {
		return nil, err
	}
	return c.start(ctx, m, bundle.job)
}

// applySupport applies what a Job needs, all at once, where it differs. The first that fails speaks for all, since most
// fail for the same reason.
func (c *reconciliation) applySupport(ctx context.Context, m *clusters.Member, objects []client.Object) error {
	origin := c.origin(c.snapshot.Object)
	errs := make([]error, len(objects))
	var wg sync.WaitGroup
	for i, obj := range objects {
		wg.Go(func() {
			d, err := m.Compare(ctx, obj, origin)
			if err == nil && d != clusters.Same {
				_, err = m.Apply(ctx, obj, origin)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// clearForStart makes sure that no pod of an earlier run is left, and starts the services.
func (c *reconciliation) clearForStart(ctx context.Context, m *clusters.Member, bundle *rendered) error {
	ledger := c.round.Ledger
	if run := ledger.Last(m.Name); ledger.First(m.Name).ID != run.ID {
		pod, err := m.PodOfOtherRun(ctx, keyOn(m, c.snapshot.Object), run.ID)
		if err != nil {
			return err
		}
		if pod != "" {
			return &podLeftError{pod}
		}
	}
	if bundle.services == nil || c.decision.Wanted.Suspend {
		return nil
	}
	inTheWay, err := m.StartServices(ctx, bundle.services, c.origin(c.snapshot.Object))
	if err == nil && inTheWay != "" {
		err = &podLeftError{inTheWay}
	}
	return err
}

// start creates a run's Job and releases it. Writing what it needs may have taken long, and so may the creation:
// nothing runs at the request of a hub that another one has succeeded.
func (c *reconciliation) start(ctx context.Context, m *clusters.Member, want *batchv1.Job) (*batchv1.Job, error) {
	origin := c.origin(c.snapshot.Object)
	if !clusters.Unreleased(want) {
		if err := c.upToDate(ctx); err != nil {
			return nil, err
		}
		return m.StartRun(ctx, want, origin)
	}
	job, err := m.StartRun(ctx, want, origin)
	if err != nil || c.decision.Wanted.Suspend || !clusters.Unreleased(job) {
		return job, err
	}
	if err := c.upToDate(ctx); err != nil {
		return nil, err
	}
	return m.AdjustRun(ctx, job, ptr.Deref(job.Spec.Completions, 0), false)
}

// render renders the MiniCluster for a member.
func (c *reconciliation) render(t *plan.Target, cert []byte) (*rendered, error) {
	fmc, run := c.snapshot.Object, c.round.Ledger.Last(t.Name)
	spec, err := c.decision.Spec(t.Name, t.Step.Action, fmc)
	if err != nil {
		return nil, err
	}
	in := render.Input{
		Name: fmc.Name, Namespace: t.Namespace, Spec: *spec, Valid: c.decision.Valid, CurveCert: cert,
		Suspend: c.decision.Wanted.Suspend, Origin: c.origin(fmc),
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
		out.job.Annotations[v1alpha1.AnnotationSuspended] = strconv.FormatBool(c.decision.Wanted.Suspend)
		clusters.HoldBack(out.job)
		if run.RerunAt != "" {
			out.job.Annotations[v1alpha1.AnnotationRunToken] = run.RerunAt
		}
	}
	return out, nil
}

// certificate is the CURVE certificate of a FleetMiniCluster, once it was needed.
type certificate struct {
	once    sync.Once
	encoded []byte
	err     error
}

// curveCert returns the object's CURVE certificate, which a reconciliation reads at most once.
func (c *reconciliation) curveCert(ctx context.Context) ([]byte, error) {
	c.certificate.once.Do(func() {
		// Where nothing has run yet, it is likely to be missing, which saves asking for it first.
		missing := !slices.ContainsFunc(c.round.Ledger, func(r v1alpha1.Run) bool { return r.State != v1alpha1.RunStarting })
		c.certificate.encoded, c.certificate.err = c.Reconciler.curveCert(ctx, c.snapshot.Object, missing)
	})
	return c.certificate.encoded, c.certificate.err
}

// curveCert returns an object's CURVE certificate. It is made once and kept in a Secret on the hub, which
// belongs to the object and is deleted with it.
func (r *Reconciler) curveCert(ctx context.Context, fmc *v1alpha1.FleetMiniCluster, missing bool) ([]byte, error) {
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

// placeholderCertificate is for renderings that are only compared: a Secret's content is compared by the hash that it
// carries.
func placeholderCertificate() []byte {
	cert, err := curve.New(rand.Reader)
	if err != nil {
		return nil
	}
	return cert.Encode()
}
