package fleetminicluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers/fleetminicluster/references"
	"github.com/minifleet/minifleet/controllers/internal/allowance"
	"github.com/minifleet/minifleet/internal/eviction"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/nodeusage"
	"github.com/minifleet/minifleet/internal/override"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/podhealth"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// read reads what a plan asks for, of all members at once, so that a slow member delays no other.
func (c *reconciliation) read(ctx context.Context, reads plan.Reads, ledger runs.Ledger) error {
	if reads.Grants {
		if err := c.readGrants(ctx); err != nil {
			return err
		}
	}
	if reads.HadRuns {
		had, err := c.keys.Exists(ctx, c.snapshot.Object)
		if err != nil {
			return err
		}
		c.snapshot.HadRuns = &had
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	before := maps.Clone(c.snapshot.Facts) // the first that is done writes before the last begins
	for name, facts := range reads.Members {
		f := before[name]
		wg.Go(func() {
			for _, fact := range facts {
				c.readFact(ctx, name, fact, ledger, &f)
			}
			mu.Lock()
			defer mu.Unlock()
			c.snapshot.Facts[name] = f
		})
	}
	wg.Wait()
	for name := range reads.Members {
		if f := c.snapshot.Facts[name]; f.Done && (f.Failed != nil || f.Unreachable != nil) {
			c.requeueAfter(c.Intervals.Failed)
		}
	}
	return nil
}

// readFact reads one fact. It writes to f alone.
func (c *reconciliation) readFact(ctx context.Context, name string, fact plan.Fact, ledger runs.Ledger, f *plan.Facts) {
	m := c.members[name] // nil for a member that is chosen and not connected yet: of that only the room is asked for
	switch fact {
	case plan.ReadCached:
		f.Cached = c.cached(ctx, m, ledger)
	case plan.ReadProof:
		key := c.keyOn(ctx, m, c.snapshot.Object)
		if key.Namespace == "" { // there is none for the object's, and so nothing to ask for
			f.Proof = &eviction.Proof{}
			return
		}
		job, err := m.LiveJob(ctx, key, c.origin(c.snapshot.Object), known(ledger, name)...)
		var conflict *clusters.Conflict
		f.Proof = &eviction.Proof{Job: c.recognize(job, ledger, name), Failed: err != nil && !errors.As(err, &conflict)}
	case plan.ReadRecord:
		f.Record = c.readRecord(ctx, m)
	case plan.ReadObserved, plan.ReadConfirmed:
		c.observe(ctx, m, ledger, fact == plan.ReadConfirmed, f)
	case plan.ReadExit:
		f.Exit = c.readExit(ctx, m, f.Observed.Object)
	case plan.ReadNamespace:
		c.checkNamespace(ctx, m, f)
	case plan.ReadReferences:
		c.checkReferences(ctx, m, f)
	case plan.ReadRoom:
		f.Room = c.queue.View(name, roomOf(m, ownRuns(ledger, name)...), c.key())
	case plan.ReadRoomBeside:
		f.RoomBeside = c.queue.View(name, roomOf(m), c.key())
	}
}

// cached is the Job on a member as the cache has it.
func (c *reconciliation) cached(ctx context.Context, m *clusters.Member, ledger runs.Ledger) *plan.Observation {
	job, err := m.Job(ctx, c.keyOn(ctx, m, c.snapshot.Object), c.origin(c.snapshot.Object), false, known(ledger, m.Name)...)
	job = c.releases.newest(c.key(), m.Name, job)
	o := &plan.Observation{Job: c.recognize(job, ledger, m.Name), Object: job}
	if err != nil {
		o.Conflict, _ = problemOf(err)
	}
	return o
}

func (c *reconciliation) recognize(job *batchv1.Job, ledger runs.Ledger, member string) *runs.Job {
	return recognize(job, c.origin(c.snapshot.Object), ledger, member)
}

// readRecord reads what a member has on record. One that cannot be read says nothing.
func (c *reconciliation) readRecord(ctx context.Context, m *clusters.Member) *plan.Record {
	record, err := m.Record(ctx, c.keyOn(ctx, m, c.snapshot.Object), c.origin(c.snapshot.Object))
	if err != nil {
		return &plan.Record{}
	}
	ended := record.Ended
	for i := range ended {
		ended[i].Digest, ended[i].RerunAt = sanitize.Text(ended[i].Digest, 64), sanitize.Text(ended[i].RerunAt, 253)
		ended[i].Revision = sanitize.Text(ended[i].Revision, 253)
	}
	return &plan.Record{Ended: ended}
}

// roomOf is what a member has free, with the pods of some runs counted as ended.
func roomOf(m *clusters.Member, without ...string) *nodeusage.Room {
	if m == nil {
		return &nodeusage.Room{State: nodeusage.Pending}
	}
	return m.Room(without...)
}

// ownRuns are the ids of the runs on a member.
func ownRuns(ledger runs.Ledger, member string) []string {
	var out []string
	for i := range ledger {
		if ledger[i].Cluster == member {
			out = append(out, ledger[i].ID)
		}
	}
	return out
}

// readGrants reads what the object may use, the second time from the hub itself.
func (c *reconciliation) readGrants(ctx context.Context) error {
	reader := client.Reader(c.Client)
	if c.snapshot.Grants != nil {
		reader, c.snapshot.Confirmed = c.APIReader, true
	}
	set, err := c.grantsFrom(ctx, reader)
	if err != nil {
		return err
	}
	c.snapshot.Grants = &set
	return nil
}

// grantsFrom is what the object may use, as a reader has it.
func (c *reconciliation) grantsFrom(ctx context.Context, reader client.Reader) (grant.Set, error) {
	fmc := c.snapshot.Object
	namespace, err := allowance.OfNamespace(ctx, reader, fmc.Namespace)
	if err != nil {
		return grant.Set{}, err
	}
	spec := fmc.Spec.MiniCluster.DeepCopy()
	spec.Default()
	asked := grant.Asked{Digest: runs.FullDigest(fmc.Name, spec), Unplaced: c.snapshot.Placement == nil}
	if p := c.snapshot.Placement; p != nil {
		asked.Overrides = override.Digest(p.Overrides)
	}
	var source *v1alpha1.GitSource
	if name := fmc.Labels[v1alpha1.LabelSource]; name != "" {
		source = &v1alpha1.GitSource{}
		err := reader.Get(ctx, types.NamespacedName{Namespace: fmc.Namespace, Name: name}, source)
		if apierrors.IsNotFound(err) {
			source = nil
		} else if err != nil {
			return grant.Set{}, fmt.Errorf("reading GitSource %s: %w", name, err)
		}
	}
	if source != nil && len(source.Spec.Allow) > 0 {
		if asked.Unenforced, err = c.Enforcement.Missing(ctx); err != nil {
			return grant.Set{}, err
		}
	}
	return grant.For(namespace, fmc, source, asked), nil
}

// tokensOn says whether the MiniCluster may read tokens for the API server of a member, and how to allow it if not.
func (c *reconciliation) tokensOn(member string) references.Grants {
	return func(ctx context.Context) (remedy string, err error) {
		set, err := c.grantsFrom(ctx, c.APIReader)
		if err != nil {
			return "", err
		}
		if c.decision.Variants.For(member).Digest != "" {
			set = set.Overridden()
		}
		if slices.Contains(set.Permissions(), v1alpha1.PermissionServiceAccountToken) {
			return "", nil
		}
		return set.Remedy([]v1alpha1.Permission{v1alpha1.PermissionServiceAccountToken}), nil
	}
}

// observe finds the Job of a MiniCluster on a member. With confirm, an absence is confirmed by the member, and so is
// that no pod of the run is left; how its first pod has ended is noted. Where somebody else's Job has the name of a live
// run's, the member confirms that there is no other of that name: the run can end, if it is to.
func (c *reconciliation) observe(ctx context.Context, m *clusters.Member, ledger runs.Ledger, confirm bool, f *plan.Facts) {
	key, origin, last := c.keyOn(ctx, m, c.snapshot.Object), c.origin(c.snapshot.Object), ledger.Last(m.Name)
	uids := known(ledger, m.Name)
	job, err := m.Job(ctx, key, origin, confirm, uids...)
	job = c.releases.newest(c.key(), m.Name, job)
	var conflict *clusters.Conflict
	o := &plan.Observation{}
	if confirm && errors.As(err, &conflict) {
		if job, err = m.LiveJob(ctx, key, origin, uids...); errors.As(err, &conflict) {
			o.Conflict, _ = problemOf(err)
			job, err = nil, nil
		}
	}
	if err == nil && job == nil && confirm {
		err = c.observePods(ctx, m, key, last.ID, o)
	}
	if err != nil {
		f.Failed, f.Unreachable = problemOf(err)
		f.Done = true
		return
	}
	o.Job, o.Object = c.recognize(job, ledger, m.Name), job
	f.Observed = o
}

// observePods notes what is left of a run whose Job is not there: a pod that has not ended, or how the first one has.
func (c *reconciliation) observePods(ctx context.Context, m *clusters.Member, key types.NamespacedName, run string, o *plan.Observation) (err error) {
	if o.Pod, err = m.PodOfRun(ctx, key, run); err != nil || o.Pod != "" {
		return err
	}
	pod, err := m.LeadOfRun(ctx, key, run)
	if err != nil || pod == nil {
		return err
	}
	o.Lead = &runs.PodEnd{Succeeded: pod.Status.Phase == corev1.PodSucceeded}
	if !o.Lead.Succeeded {
		o.Lead.Exit = exitOf(podhealth.FirstFailure([]corev1.Pod{*pod}))
	}
	return nil
}

// maxExitMessage is the length of a container's own message in the ledger, in bytes.
const maxExitMessage = 500

// readExit asks the member which pod of a failed Job failed first.
func (c *reconciliation) readExit(ctx context.Context, m *clusters.Member, job *batchv1.Job) *plan.Exit {
	exit, err := m.FirstFailure(ctx, job)
	if err != nil {
		return &plan.Exit{}
	}
	return &plan.Exit{RunExit: exitOf(exit)}
}

// exitOf makes what a member says of an exit safe to show; nil stays nil.
func exitOf(exit *v1alpha1.RunExit) *v1alpha1.RunExit {
	if exit == nil {
		return nil
	}
	return &v1alpha1.RunExit{
		Pod: sanitize.Text(exit.Pod, 253), Container: sanitize.Text(exit.Container, 63), ExitCode: exit.ExitCode,
		Reason: sanitize.Text(exit.Reason, 100), Message: sanitize.Text(exit.Message, maxExitMessage),
	}
}

// checkNamespace finds out whether the namespace of the member that the next run is to be in may be used. Nothing is made.
func (c *reconciliation) checkNamespace(ctx context.Context, m *clusters.Member, f *plan.Facts) {
	namespace := c.snapshot.Member(m.Name).Connection.NextNamespace
	err := m.Permit(ctx, c.snapshot.Object.Namespace, c.FleetID, c.Reserved, namespace, false)
	f.NamespaceUse = &plan.NamespaceUse{}
	if err == nil {
		return
	}
	if f.NamespaceUse.Denied, f.Unreachable = problemOf(err); f.Unreachable != nil {
		f.Done = true
	}
}

// permit makes sure, before anything of a run is created, that its namespace of the member may be used, and is there.
func (c *reconciliation) permit(ctx context.Context, t *plan.Target) error {
	return c.members[t.Name].Permit(ctx, c.snapshot.Object.Namespace, c.FleetID, c.Reserved, t.Namespace, true)
}

// checkReferences finds out whether everything that the MiniCluster references is on a member, or can be brought.
// Nothing is changed there.
func (c *reconciliation) checkReferences(ctx context.Context, m *clusters.Member, f *plan.Facts) {
	err := c.satisfy(ctx, m, references.Check)
	f.References = &plan.References{}
	if err == nil {
		return
	}
	failed, unreachable := problemOf(err)
	if unreachable != nil {
		f.Unreachable, f.Done = unreachable, true
		return
	}
	f.References.Missing = failed
}

// satisfy brings what the MiniCluster references to a member, or checks whether that can be done.
func (c *reconciliation) satisfy(ctx context.Context, m *clusters.Member, bring references.Bring) error {
	return c.references.Satisfy(ctx, m, c.user(c.snapshot.Object), c.decision.Variants.For(m.Name).References, c.snapshot.Now, bring, c.tokensOn(m.Name))
}
