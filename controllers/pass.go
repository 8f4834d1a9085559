package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fit"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// pass is one look at a FleetMiniCluster and all of its members: gather, act, write.
type pass struct {
	r       *FleetMiniClusterReconciler
	fmc     *v1alpha1.FleetMiniCluster
	origin  fleet.Origin
	wanted  runs.Wanted
	problem *rollup.Problem
	stalled bool
	valid   bool // the spec is, and so is what overrides make of it

	// began is when the pass did: what a run needs of Secrets and ConfigMaps is read as it was then, or later.
	began time.Time

	decision *v1alpha1.PlacementDecision
	ledger   runs.Ledger
	sites    []*site
	events   []note
	again    time.Duration                   // when to look again although nothing happens; 0: not
	lacking  []string                        // members that would be chosen if they had room, or a place was not kept
	passing  map[string]time.Duration        // members not known yet, and for how long they are waited for
	awaiting string                          // what a placement waits for that keeps places for members
	behind   map[string]types.NamespacedName // who comes before it on a member
	unsure   []string                        // members whose room was not known when it was placed
	closed   map[string]string               // why no new run begins on a member
	leaves   map[string]leave                // live runs that have to leave their members
	stays    map[string]string               // why live runs that would have to leave do not
	failover *v1alpha1.Failover
	// noFailover says that the placement is known, and lets no run start elsewhere that is proven gone.
	noFailover bool
	variants   // of the MiniCluster, where overrides make it another

	certOnce sync.Once
	cert     []byte // the CURVE certificate, once it was needed
	certErr  error
}

// site is a member as this pass sees it.
type site struct {
	name   string
	chosen bool
	member *clusters.Member // nil if lost
	lost   *rollup.Problem
	heard  time.Time

	rawJob *batchv1.Job
	job    *runs.Job
	pod    string // of the latest run, where its Job is gone
	step   runs.Step
	exit   *v1alpha1.RunExit // of a Job that has failed
	failed *rollup.Problem
	again  time.Duration // when to look at it again; 0: not
	begun  bool          // the ledger line was written in this pass, so nothing of it can be on the member yet
	// unregistered says that there is no MemberCluster of this name any more.
	unregistered bool
	// departing says that its MemberCluster is being deleted: nothing is put back there any more.
	departing bool
	// connecting says that the first attempt to reach it, since the hub started, has not ended yet.
	connecting bool
	still      bool // nothing more can be done here in this pass
	// size is what the Job is adjusted to. admitted says that it may take the room for that, needs is what it waits
	// for if it may not.
	size     int32
	admitted bool
	needs    *fit.Gang
	awaits   bool // a run is due and has to wait for something that it references
	gone     bool // everything was removed from the member
}

// note is an event to be sent once the status that it speaks of is written.
type note struct {
	kind, reason, action string
	cluster, run         string // what it is about, if anything
	message              string
}

// about is what an event is about besides the hub object. Events that do not differ in it, nor in their
// reason, are counted as one whose text is that of the first.
func (n note) about() runtime.Object {
	if n.cluster == "" {
		return nil
	}
	ref := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "MemberCluster", Name: n.cluster}
	if n.run != "" {
		ref.FieldPath = "runs{" + n.run + "}"
	}
	return ref
}

// origin is what marks everything of a FleetMiniCluster on members.
func (r *FleetMiniClusterReconciler) origin(fmc *v1alpha1.FleetMiniCluster) fleet.Origin {
	return fleet.Origin{HubUID: r.HubUID, Owner: fmc.Namespace + "/" + fmc.Name, OwnerUID: string(fmc.UID)}
}

func (r *FleetMiniClusterReconciler) newPass(fmc *v1alpha1.FleetMiniCluster) *pass {
	return &pass{
		r: r, fmc: fmc, origin: r.origin(fmc), began: r.Now(),
		decision: fmc.Status.Placement.DeepCopy(),
		ledger:   slices.Clone(fmc.Status.Runs),
	}
}

// gather collects all inputs: what is wanted, where it goes, and who can be reached.
func (p *pass) gather(ctx context.Context) error {
	spec := p.fmc.Spec.MiniCluster.DeepCopy()
	spec.Default()
	p.wanted = runs.Wanted{
		Digest: runs.Digest(p.fmc.Name, spec), RerunAt: sanitize.Text(p.fmc.Annotations[v1alpha1.AnnotationRerunAt], 253),
		Size: spec.Size, Suspend: p.fmc.Spec.Suspend, OnChange: p.fmc.Spec.OnChange,
		Retries: p.fmc.Spec.Retries, Cancel: runIDs(p.fmc.Annotations[v1alpha1.AnnotationCancel]),
	}
	var members v1alpha1.MemberClusterList
	if err := p.r.Client.List(ctx, &members); err != nil {
		return fmt.Errorf("listing MemberClusters: %w", err)
	}
	p.declareGone(members.Items)
	p.labelsOf(members.Items)
	p.closed = map[string]string{}
	for i := range members.Items {
		p.closed[members.Items[i].Name] = members.Items[i].Closed()
	}
	p.drain(members.Items)
	errs := fluxv1alpha2.Validate(p.fmc.Name, spec, field.NewPath("spec", "miniCluster"))
	if p.valid = len(errs) == 0; !p.valid {
		p.problem, p.stalled = &rollup.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: invalidSpec(errs)}, true
	} else if err := p.permit(ctx, spec); err != nil {
		return err
	}
	if p.problem == nil {
		if err := p.place(ctx, members.Items); err != nil {
			return err
		}
	}
	p.findSites(ctx, members.Items)
	return nil
}

// invalidSpec is all that is wrong with a MiniCluster, or as much as a condition holds and how much more.
func invalidSpec(errs field.ErrorList) string {
	items := make([]string, len(errs))
	for i, e := range errs {
		items[i] = e.Error()
	}
	return sanitize.List(items, sanitize.MaxMessage)
}

// findSites lists the members that are chosen, and those that may still have something of ours.
func (p *pass) findSites(ctx context.Context, members []v1alpha1.MemberCluster) {
	var all []string
	if p.decision != nil {
		all = append(all, p.decision.Clusters...)
	}
	for _, c := range p.fmc.Status.Clusters {
		all = append(all, c.Name)
	}
	all = append(all, p.ledger.Live()...)
	all = append(all, p.r.returned(ctx, p.fmc, all)...)
	registered := map[string]*v1alpha1.MemberCluster{}
	for i := range members {
		registered[members[i].Name] = &members[i]
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		s := &site{name: name, chosen: p.decision != nil && slices.Contains(p.decision.Clusters, name)}
		s.departing = registered[name] != nil && !registered[name].DeletionTimestamp.IsZero()
		p.locate(s, registered[name])
		p.sites = append(p.sites, s)
	}
	p.wanted.Hold = p.hold()
}

func (p *pass) locate(s *site, registered *v1alpha1.MemberCluster) {
	var err error
	if registered == nil {
		p.removed(s)
		return
	}
	if s.member, err = p.r.Provider.Member(s.name); err == nil {
		p.checkIdentity(s)
		return
	}
	if p.connecting(registered) {
		s.still, s.connecting = true, true
		return
	}
	state, _ := p.r.Provider.State(s.name)
	s.heard = state.LastHeard
	reason, message := state.Reason, state.Message
	if reason == "" {
		reason, message = v1alpha1.ReasonMemberUnreachable, "not connected"
		if c := meta.FindStatusCondition(registered.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Status != metav1.ConditionTrue {
			reason, message = c.Reason, c.Message
		}
	}
	if s.heard.IsZero() && registered.Status.LastHeardTime != nil {
		s.heard = registered.Status.LastHeardTime.Time
	}
	s.lost = &rollup.Problem{Reason: reason, Message: message}
}

// connecting says whether the first attempt to reach a member has not ended yet.
func (p *pass) connecting(m *v1alpha1.MemberCluster) bool {
	state, known := p.r.Provider.State(m.Name)
	refused := meta.IsStatusConditionFalse(m.Status.Conditions, v1alpha1.ConditionReady)
	return known && state.Reason == v1alpha1.ReasonConnecting || !known && !refused
}

// checkIdentity makes sure that a live run is looked for in the cluster that it was started in: another one
// may have been registered under the name since.
func (p *pass) checkIdentity(s *site) {
	last := p.ledger.Last(s.name)
	if last == nil || last.State.Ended() || last.ClusterUID == "" || last.ClusterUID == s.member.UID {
		return
	}
	s.still, s.member = true, nil
	s.lost = &rollup.Problem{Reason: v1alpha1.ReasonWrongCluster, Message: fmt.Sprintf(
		"run %s was started in another cluster (UID %s) that had this name: register that cluster again under it to learn how the run ends", last.ID, last.ClusterUID)}
}

// removed is about a member that is no longer registered. What has ended there has ended; what is live is
// unknown from now on.
func (p *pass) removed(s *site) {
	s.still, s.unregistered = true, true
	last := p.ledger.Last(s.name)
	if last != nil && !last.State.Ended() {
		s.lost = &rollup.Problem{Reason: v1alpha1.ReasonMemberRemoved, Message: "its MemberCluster no longer exists: register the cluster again under this name to learn how the run ends"}
		return
	}
	s.gone = !s.chosen
	if p.wanted.WillRetry(last) {
		s.step = runs.Step{Action: runs.Nothing, Reason: v1alpha1.ReasonMemberRemoved, Message: fmt.Sprintf(
			"%s; retry %d of %d waits, for its MemberCluster no longer exists: register the cluster again under this name, or set the annotation %s to run it where it is placed now",
			last.Message, last.Attempt+1, p.wanted.Retries, v1alpha1.AnnotationRerunAt)}
	}
}

// hold is why no new run may begin anywhere: one is still live on a member that has left the placement,
// and the run that moves must not be there twice.
func (p *pass) hold() string {
	if p.decision != nil && p.decision.Open {
		return "" // nothing moves from one member to another
	}
	for _, name := range p.ledger.Live() {
		if p.decision != nil && slices.Contains(p.decision.Clusters, name) {
			continue
		}
		if l, leaves := p.leaves[name]; leaves {
			return fmt.Sprintf("waiting until nothing is left of run %s on %s, which is %s", p.ledger.Last(name).ID, name, l.why)
		}
		if last := p.ledger.Last(name); last.State == v1alpha1.RunStopping {
			return fmt.Sprintf("waiting until nothing is left of run %s on %s, which is being stopped (%s)", last.ID, name, last.Stop)
		}
		return "waiting for the run on " + name + " to end, which has left the placement"
	}
	return ""
}

// write writes the status if it has changed, and then sends the events. The write fails if anybody else has
// written since the object was read, so that no ledger line is ever lost.
func (p *pass) write(ctx context.Context) error {
	status := rollup.Status(p.rollupInput())
	if equality.Semantic.DeepEqual(status, p.fmc.Status) {
		return nil
	}
	before := p.fmc.Status.DeepCopy()
	p.fmc.Status = status
	if err := p.r.Client.Status().Update(ctx, p.fmc); err != nil {
		return err
	}
	p.r.written.note(ctx, p.r.Client, p.fmc)
	for _, n := range append(p.events, troubles(before, &p.fmc.Status)...) {
		p.r.Recorder.Eventf(p.fmc, n.about(), n.kind, n.reason, n.action, "%s", sanitize.Text(n.message, sanitize.MaxNote))
	}
	p.events = nil
	return nil
}

// troubleReasons are those that an event tells.
var troubleReasons = []string{
	v1alpha1.ReasonConflict, v1alpha1.ReasonApplyFailed, v1alpha1.ReasonReferenceMissing, v1alpha1.ReasonReferenceWithdrawn,
}

// troubles are events for members that have got into trouble, or out of it.
func troubles(before, after *v1alpha1.FleetMiniClusterStatus) []note {
	was := map[string]v1alpha1.ClusterStatus{}
	for _, c := range before.Clusters {
		was[c.Name] = c
	}
	var out []note
	for _, c := range after.Clusters {
		old := was[c.Name]
		trouble := c.Sync == v1alpha1.SyncUnknown || slices.Contains(troubleReasons, c.Reason)
		switch {
		case trouble && (old.Reason != c.Reason || old.Sync != c.Sync):
			out = append(out, note{"Warning", c.Reason, "Observe", c.Name, c.Run, c.Name + ": " + c.Message})
		case old.Sync == v1alpha1.SyncUnknown && c.Sync != v1alpha1.SyncUnknown:
			out = append(out, note{"Normal", v1alpha1.ReasonConnected, "Observe", c.Name, c.Run, c.Name + ": heard from again"})
		}
	}
	return out
}

func (p *pass) rollupInput() rollup.Input {
	in := rollup.Input{
		Generation: p.fmc.Generation, Revision: p.fmc.Annotations[v1alpha1.AnnotationSourceRevision],
		Wanted: p.wanted, Problem: p.problem, Stalled: p.stalled, Decision: p.decision,
		Ledger: p.ledger, Previous: p.fmc.Status, Now: p.r.Now(), Awaiting: p.awaiting,
	}
	for _, s := range p.sites {
		if s.gone {
			continue
		}
		in.Members = append(in.Members, rollup.Member{
			Name: s.name, Chosen: s.chosen, Lost: s.lost, LastHeard: s.heard, Failed: s.failed,
			Connecting: s.connecting, Step: s.step, Run: p.ledger.Last(s.name), Job: s.job, PodIssue: p.obstacle(s),
		})
	}
	return in
}

func (p *pass) result() (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: p.again}, nil
}

// lookAgain asks for another pass after d, or sooner.
func (p *pass) lookAgain(d time.Duration) {
	if d > 0 && (p.again == 0 || d < p.again) {
		p.again = d
	}
}

func (p *pass) note(kind, reason, action, cluster, run, message string) {
	p.events = append(p.events, note{kind, reason, action, cluster, run, message})
}

// fresh makes sure that the cache is not behind, before something is done that the ledger in it calls for.
func (p *pass) fresh(ctx context.Context) error {
	var now metav1.PartialObjectMetadata
	now.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("FleetMiniCluster"))
	if err := p.r.APIReader.Get(ctx, client.ObjectKeyFromObject(p.fmc), &now); err != nil {
		return err
	}
	if now.UID != p.fmc.UID || now.ResourceVersion != p.fmc.ResourceVersion {
		return errBehind
	}
	return nil
}

var errBehind = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("fleetminiclusters").GroupResource(), "", errors.New("the cache is behind the hub"))

// isSeparator says whether a character separates run ids that people have written down.
func isSeparator(c rune) bool { return c == ',' || unicode.IsSpace(c) }

func parseKey(s string) (types.NamespacedName, bool) {
	namespace, name, ok := strings.Cut(s, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}, ok && namespace != "" && name != ""
}
