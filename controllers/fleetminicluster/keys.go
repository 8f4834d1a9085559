package fleetminicluster

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/render"
)

// collectInterval is how often certificates of FleetMiniClusters that are no more are searched for, at least.
const collectInterval = time.Hour

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
		c.certificate.encoded, c.certificate.err = c.keys.Ensure(ctx, c.snapshot.Object, missing, c.certOnMembers)
	})
	return c.certificate.encoded, c.certificate.err
}

// certOnMembers is the certificate that a member has which runs the object, or has run it last; nil if none is found. No
// other member is asked: the certificate is what brokers trust.
func (c *reconciliation) certOnMembers(ctx context.Context) []byte {
	ledger := slices.Clone(c.decision.Ledger)
	slices.Reverse(ledger)
	slices.SortStableFunc(ledger, func(a, b v1alpha1.Run) int { return rank(&a) - rank(&b) })
	for i := range ledger {
		m := c.members[ledger[i].Cluster]
		if m == nil || ledger[i].JobUID == "" {
			continue
		}
		var secret corev1.Secret
		key := c.keyOn(ctx, m, c.snapshot.Object)
		key.Name = render.SecretName(key.Name)
		err := m.GetClient().Get(ctx, key, &secret)
		if err == nil && c.origin(c.snapshot.Object).Owns(&secret) && !clusters.SecretEdited(&secret) {
			return secret.Data[curvesecret.DataKey]
		}
	}
	return nil
}

// rank has live runs before those that have ended.
func rank(r *v1alpha1.Run) int {
	if r.State.Ended() {
		return 1
	}
	return 0
}

// collectKeys is for the manager that leads.
func (r *Reconciler) collectKeys() manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		logger := log.FromContext(ctx).WithName("keys")
		for again := r.Intervals.Unreachable; ; again = min(2*again, collectInterval) {
			stay := 0
			err := r.keys.Begin(ctx)
			if err == nil {
				stay, err = r.keys.Collect(ctx, func() bool { return r.allAsked(ctx) })
			}
			if err != nil && ctx.Err() == nil {
				logger.Error(err, "certificates of FleetMiniClusters that are no more are searched for again")
			}
			if stay == 0 && err == nil {
				again = collectInterval
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(again):
			}
		}
	})
}

// allAsked says whether every member can be asked, so that each live Job without a FleetMiniCluster is known, but for those that a
// person has declared gone.
func (r *Reconciler) allAsked(ctx context.Context) bool {
	if r.Unasked != nil && len(r.Unasked()) > 0 {
		return false
	}
	isGone := func(m *v1alpha1.MemberCluster) bool { return eviction.GoneSince(time.Time{}, m, r.Now()) }
	for _, m := range r.memberClusters.List() {
		if _, err := r.Provider.Member(m.Name); err != nil && !isGone(m) {
			return false
		}
	}
	foreign, err := r.Elsewhere.List(ctx)
	return err == nil && !slices.ContainsFunc(foreign, func(m v1alpha1.MemberCluster) bool {
		return !meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) && !isGone(&m)
	})
}
