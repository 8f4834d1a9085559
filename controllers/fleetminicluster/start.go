package fleetminicluster

import (
	"cmp"
	"context"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/fleetminicluster/references"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/tracing"
)

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
	if err := c.permit(ctx, t); err != nil {
		return nil, err
	}
	cert, err := c.curveCert(ctx)
	if err != nil {
		return nil, err
	}
	_, span := tracing.Start(ctx, "render")
	bundle, err := c.render(t, cert)
	span.End(err)
	if err != nil {
		return nil, err
	}
	if err := c.applySupport(ctx, m, bundle.support); err != nil {
		return nil, err
	}
	if err := c.satisfy(ctx, m, references.Copy); err != nil {
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
		pod, err := m.PodOfOtherRun(ctx, c.keyOn(ctx, m, c.snapshot.Object), run.ID)
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
	origin, uids := c.origin(c.snapshot.Object), known(c.round.Ledger, m.Name)
	if !clusters.Unreleased(want) {
		if err := c.upToDate(ctx); err != nil {
			return nil, err
		}
		return m.StartRun(ctx, want, origin, uids...)
	}
	job, err := m.StartRun(ctx, want, origin, uids...)
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
	rendering, err := c.rendering(t, cert)
	if err != nil {
		return nil, err
	}
	bundle, err := rendering.Objects()
	if err != nil {
		return nil, err
	}
	out := &rendered{job: bundle.Job, services: bundle.ServicesPod, support: supportOf(bundle)}
	if rendering.Run != nil {
		clusters.HoldBack(out.job)
	}
	return out, nil
}

// renderSupport renders only what the Job needs.
func (c *reconciliation) renderSupport(t *plan.Target, cert []byte) ([]client.Object, error) {
	rendering, err := c.rendering(t, cert)
	if err != nil {
		return nil, err
	}
	return support(rendering)
}

// renderCompared renders what the Job needs, to be compared with what is there: a Secret is by the hash of its content that it
// carries, so that no key is needed.
func (c *reconciliation) renderCompared(t *plan.Target) ([]client.Object, error) {
	rendering, err := c.rendering(t, nil)
	if err != nil {
		return nil, err
	}
	rendering.Keyless = true
	return support(rendering)
}

func support(rendering *plan.Rendering) ([]client.Object, error) {
	bundle, err := rendering.Support()
	if err != nil {
		return nil, err
	}
	return supportOf(bundle), nil
}

func (c *reconciliation) rendering(t *plan.Target, cert []byte) (*plan.Rendering, error) {
	fmc := c.snapshot.Object
	spec, err := c.decision.Spec(t.Name, t.Step.Action, fmc)
	if err != nil {
		return nil, err
	}
	return &plan.Rendering{
		Object: fmc, Namespace: t.Namespace, Spec: spec, Valid: c.decision.Valid, Origin: c.origin(fmc), CurveCert: cert,
		Suspend: c.decision.Wanted.Suspend, Run: c.round.Ledger.Last(t.Name),
	}, nil
}

func supportOf(b *render.Bundle) []client.Object {
	out := []client.Object{b.Secret, b.ConfigMap}
	for _, service := range b.Services {
		out = append(out, service)
	}
	return out
}
