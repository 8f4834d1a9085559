package shards

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// All on one fleet: clusters take longer to start than any of it.
func TestShards(t *testing.T) {
	f := startFleet(t)
	f.found(t)
	f.start("east")
	f.start("west")
	for _, member := range memberOf {
		f.awaitMember(t, member, v1alpha1.ReasonConnected)
	}
	f.push(t, "east", map[string]map[string]string{"east-held": held, "east-done": brief}, "")
	f.push(t, "west", map[string]map[string]string{"west-held": held, "west-done": brief}, "")
	f.awaitStates(t, map[string]v1alpha1.State{
		"east-held": v1alpha1.StateRunning, "east-done": v1alpha1.StateSucceeded, "west-held": v1alpha1.StateRunning, "west-done": v1alpha1.StateSucceeded,
	})
	for _, step := range []struct {
		name string
		test func(*testing.T, *fleet)
	}{
		{"objects of Git are of the shard of their source", inGit},
		{"the loss of one shard changes nothing for the other", lossOfOne},
		{"each shard reads its own objects", readsItsOwn},
		{"a member with a live run is not taken over", relabelledMember},
		{"a FleetMiniCluster with a live run that comes to another shard", relabelledRun},
		{"a GitSource that comes to another shard", relabelledSource},
		{"neither shard asks anything of the members of the other", apart},
		{"a cluster is joined once", joinedTwice},
		{"what is deleted in another shard is removed by its own", deletedElsewhere},
		{"a placement of another shard, and one without members", placements},
		{"the admission policy", admission},
		{"a member that is drained moves", moves},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.test(t, f) }) {
			break
		}
	}
	for _, name := range []string{"east-held", "east-done", "west-held", "west-done", "west-more", "west-lost", "stray", "moved"} {
		if n := f.created(t, name); n != 1 {
			t.Errorf("%d Jobs were created for %s", n, name)
		}
	}
}

func inGit(t *testing.T, f *fleet) {
	for _, name := range []string{"east-held", "west-held"} {
		fmc, err := f.get(t, name)
		check(t, err)
		if shard, _, _ := strings.Cut(name, "-"); fmc.Labels[v1alpha1.LabelShard] != shard {
			t.Errorf("%s is of shard %q", name, fmc.Labels[v1alpha1.LabelShard])
		}
	}
	f.push(t, "east", map[string]map[string]string{"smuggled": held}, "minifleet.dev/shard: west")
	await(t, "the GitSource refuses another shard", func() error { return f.sourceSays(t, "east", "a repository does not choose the shard") })
	if _, err := f.get(t, "smuggled"); !apierrors.IsNotFound(err) {
		t.Errorf("it is there: %v", err)
	}
	f.gitDo(t, f.clone("east"), "rm", "-q", "-f", "smuggled.yaml")
	f.commit(t, "east")
}

// sourceSays returns an error unless a condition or a problem of a GitSource has this text.
func (f *fleet) sourceSays(t *testing.T, name, text string) error {
	t.Helper()
	var s v1alpha1.GitSource
	if err := f.hub().Get(t.Context(), client.ObjectKey{Namespace: team, Name: name}, &s); err != nil {
		return err
	}
	var all []string
	for _, c := range s.Status.Conditions {
		all = append(all, c.Message)
	}
	for _, p := range s.Status.Problems {
		all = append(all, p.Message)
	}
	if said := strings.Join(all, "; "); !strings.Contains(said, text) {
		return fmt.Errorf("it says %q", said)
	}
	return nil
}

// The API server selects what a process keeps, so that memory falls in proportion: no watch of the five kinds is of another shard, but
// for that of MemberClusters, of which a reduced copy is kept. Watches are in the audit log when they have ended, as those of
// processes that were killed have.
func readsItsOwn(t *testing.T, f *fleet) {
	kinds := []string{"memberclusters", "placements", "gitsources", "fleetminiclusters", "notifications"}
	own := map[string]int{}
	for _, e := range f.audit(t, hubName) {
		shard, ok := strings.CutPrefix(e.UserAgent, "minifleet/")
		if !ok || e.Object == nil || !slices.Contains(kinds, e.Object.Resource) || e.Verb != "watch" {
			continue
		}
		u, err := url.Parse(e.RequestURI)
		check(t, err)
		switch selector := u.Query().Get("labelSelector"); {
		case selector == v1alpha1.LabelShard+"="+shard:
			own[shard+" "+e.Object.Resource]++
		case selector == v1alpha1.LabelShard+"!="+shard && e.Object.Resource == "memberclusters":
		default:
			t.Errorf("shard %s watches %s with selector %q", shard, e.Object.Resource, selector)
		}
	}
	for shard := range memberOf {
		for _, kind := range kinds {
			if own[shard+" "+kind] == 0 {
				t.Errorf("no watch of shard %s for %s", shard, kind)
			}
		}
	}
}

func lossOfOne(t *testing.T, f *fleet) {
	before, err := f.get(t, "east-held")
	check(t, err)
	jobs := f.jobs(t, "east-held")
	check(t, f.Controllers["east"].Kill())
	f.push(t, "west", map[string]map[string]string{"west-more": brief}, "")
	f.awaitStates(t, map[string]v1alpha1.State{"west-more": v1alpha1.StateSucceeded, "west-held": v1alpha1.StateRunning})
	after, err := f.get(t, "east-held")
	check(t, err)
	if before.ResourceVersion != after.ResourceVersion {
		t.Error("the other shard has changed what is not its own")
	}
	f.start("east")
	f.awaitMember(t, "alpine", v1alpha1.ReasonConnected)
	check(t, f.Controllers["west"].Kill())
	f.push(t, "west", map[string]map[string]string{"west-lost": brief}, "") // nobody is there for it
	f.push(t, "east", map[string]map[string]string{"east-more": brief}, "")
	f.awaitStates(t, map[string]v1alpha1.State{"east-more": v1alpha1.StateSucceeded, "east-held": v1alpha1.StateRunning})
	f.start("west")
	f.awaitStates(t, map[string]v1alpha1.State{"west-lost": v1alpha1.StateSucceeded, "west-held": v1alpha1.StateRunning})
	if diff := cmp.Diff(jobs, f.jobs(t, "east-held")); diff != "" {
		t.Error(diff)
	}
}

func relabelledMember(t *testing.T, f *fleet) {
	jobs := f.jobs(t, "east-held")
	f.label(t, &v1alpha1.MemberCluster{}, "alpine", "west")
	f.awaitMember(t, "alpine", v1alpha1.ReasonOtherShard)
	f.awaitStates(t, map[string]v1alpha1.State{"east-held": v1alpha1.StateUnknown})
	f.push(t, "west", map[string]map[string]string{"west-done": brief}, "note: again") // it is reconciled meanwhile
	f.label(t, &v1alpha1.MemberCluster{}, "alpine", "east")
	f.awaitMember(t, "alpine", v1alpha1.ReasonConnected)
	f.awaitStates(t, map[string]v1alpha1.State{"east-held": v1alpha1.StateRunning, "east-done": v1alpha1.StateSucceeded})
	if diff := cmp.Diff(jobs, f.jobs(t, "east-held")); diff != "" {
		t.Error(diff)
	}
	if n := f.asked(t, "alpine", "west"); n > 0 {
		t.Errorf("the other shard has sent %d requests to the member", n)
	}
}

func relabelledRun(t *testing.T, f *fleet) {
	jobs := f.jobs(t, "east-held")
	f.label(t, &v1alpha1.FleetMiniCluster{}, "east-held", "west")
	f.label(t, &v1alpha1.FleetMiniCluster{}, "east-done", "west")
	await(t, "the other shard says what is wrong", func() error {
		fmc, err := f.get(t, "east-held")
		if err == nil && fmc.Status.State != v1alpha1.StateUnknown && !strings.Contains(messageOf(fmc, v1alpha1.ConditionReady), "shard") {
			err = fmt.Errorf("it is %s: %s", fmc.Status.State, messageOf(fmc, v1alpha1.ConditionReady))
		}
		return err
	})
	await(t, "the GitSource says where they are", func() error { return f.sourceSays(t, "east", `is of shard "west"`) })
	if diff := cmp.Diff(jobs, f.jobs(t, "east-held")); diff != "" {
		t.Error(diff)
	}
	f.label(t, &v1alpha1.FleetMiniCluster{}, "east-held", "east")
	f.label(t, &v1alpha1.FleetMiniCluster{}, "east-done", "east")
	f.awaitStates(t, map[string]v1alpha1.State{"east-held": v1alpha1.StateRunning, "east-done": v1alpha1.StateSucceeded})
	if diff := cmp.Diff(jobs, f.jobs(t, "east-held")); diff != "" {
		t.Error(diff)
	}
}

func relabelledSource(t *testing.T, f *fleet) {
	before, err := f.get(t, "east-held")
	check(t, err)
	f.label(t, &v1alpha1.GitSource{}, "east", "west")
	await(t, "the other shard says what is wrong", func() error { return f.sourceSays(t, "east", `is of shard "east", and this GitSource of shard "west"`) })
	after, err := f.get(t, "east-held")
	check(t, err)
	if before.UID != after.UID || !after.DeletionTimestamp.IsZero() {
		t.Errorf("it was deleted or made anew")
	}
	f.label(t, &v1alpha1.GitSource{}, "east", "east")
	f.push(t, "east", map[string]map[string]string{"east-later": brief}, "")
	f.awaitStates(t, map[string]v1alpha1.State{"east-later": v1alpha1.StateSucceeded, "east-held": v1alpha1.StateRunning})
}

func joinedTwice(t *testing.T, f *fleet) {
	check(t, f.hub().Create(t.Context(), memberCluster("again", "alpine", "west")))
	f.awaitMember(t, "again", v1alpha1.ReasonDuplicateCluster)
	check(t, f.hub().Delete(t.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "again"}}))
	await(t, "it is deleted", func() error { return f.missing(t, &v1alpha1.MemberCluster{}, client.ObjectKey{Name: "again"}) })
	for _, e := range f.audit(t, "alpine") { // to know which cluster it is, it has to be asked
		if e.UserAgent == "minifleet/west" && e.Write() && e.Object != nil && !strings.Contains(e.Object.Resource, "reviews") {
			t.Errorf("shard west has sent %s %s to alpine", e.Verb, e.RequestURI)
		}
	}
}

func (f *fleet) missing(t *testing.T, obj client.Object, key client.ObjectKey) error {
	t.Helper()
	err := f.hub().Get(t.Context(), key, obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(err, errors.New("it is there"))
}

// Not even after labels were changed.
func apart(t *testing.T, f *fleet) {
	for shard, other := range map[string]string{"east": "basalt", "west": "alpine"} {
		if n := f.asked(t, other, shard); n > 0 {
			t.Errorf("shard %s has sent %d requests to %s", shard, n, other)
		}
		if f.asked(t, memberOf[shard], shard) == 0 {
			t.Error("the audit logs do not tell the shards apart")
		}
	}
}

func (f *fleet) run(t *testing.T, name, shard, placement string, asks map[string]string) {
	t.Helper()
	obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name, Labels: labelled(shard)}}
	obj.Spec.PlacementRef, obj.Spec.DeletionDeadlineSeconds = &v1alpha1.LocalReference{Name: placement}, ptr.To[int32](1)
	obj.Spec.MiniCluster = fluxv1alpha2.MiniClusterSpec{Size: 1, Containers: []fluxv1alpha2.MiniClusterContainer{{Image: "example.org/app", Command: "true"}}}
	obj.Spec.MiniCluster.Pod.Annotations = asks
	check(t, f.hub().Create(t.Context(), obj))
}

func deletedElsewhere(t *testing.T, f *fleet) {
	f.run(t, "stray", "east", "east", held)
	f.awaitStates(t, map[string]v1alpha1.State{"stray": v1alpha1.StateRunning})
	f.label(t, &v1alpha1.FleetMiniCluster{}, "stray", "west")
	check(t, f.hub().Delete(t.Context(), &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "stray"}}))
	await(t, "it is deleted", func() error {
		return f.missing(t, &v1alpha1.FleetMiniCluster{}, client.ObjectKey{Namespace: team, Name: "stray"})
	})
	await(t, "its Job is removed by the shard of the member", func() error {
		if jobs := f.jobs(t, "stray"); len(jobs) > 0 {
			return fmt.Errorf("%v", jobs)
		}
		return nil
	})
}

func placements(t *testing.T, f *fleet) {
	says := func(name, text string) {
		t.Helper()
		await(t, name+" says what is wrong", func() error {
			fmc, err := f.get(t, name)
			if err == nil && !strings.Contains(messageOf(fmc, v1alpha1.ConditionReady), text) {
				err = errors.New(messageOf(fmc, v1alpha1.ConditionReady))
			}
			return err
		})
	}
	f.run(t, "misplaced", "east", "west", brief)
	says("misplaced", `Placement team/west is of shard "west"`)
	f.start("north")
	north := placement("north")
	check(t, f.hub().Create(t.Context(), north))
	f.run(t, "memberless", "north", "north", brief)
	says("memberless", `shard "north" has no MemberClusters, and 2 are of other shards`)
	check(t, f.Controllers["north"].Kill())
	for _, member := range memberOf {
		if n := f.asked(t, member, "north"); n > 0 {
			t.Errorf("shard north has sent %d requests to %s", n, member)
		}
	}
}

func admission(t *testing.T, f *fleet) {
	f.label(t, &v1alpha1.MemberCluster{}, "alpine", "west") // by mistake, before there is a policy
	check(t, f.Lab.Cluster(hubName).ApplyPolicies(t.Context(), filepath.Join(f.Root, "config", "policy")))
	n := 0
	await(t, "a member in use keeps its shard", func() error {
		n++ // what has the label already may keep it
		err := f.tryLabel(t, &v1alpha1.MemberCluster{}, "alpine", fmt.Sprint("north-", n))
		if err == nil {
			return errors.New("it was labelled") // the policy was not in force yet
		}
		if !strings.Contains(err.Error(), "drain") {
			return err
		}
		return nil
	})
	f.label(t, &v1alpha1.MemberCluster{}, "alpine", "east") // and may go back to it
	if err := f.tryLabel(t, &v1alpha1.FleetMiniCluster{}, "east-held", "west"); err == nil || !strings.Contains(err.Error(), "no live run") {
		t.Errorf("a FleetMiniCluster with a live run: %v", err)
	}
	f.awaitMember(t, "alpine", v1alpha1.ReasonConnected)
	f.awaitStates(t, map[string]v1alpha1.State{"east-held": v1alpha1.StateRunning})
}

// moves does what docs/sharding.md says.
func moves(t *testing.T, f *fleet) {
	f.annotate(t, "alpine", `"true"`)
	await(t, "the member is drained", func() error {
		var m v1alpha1.MemberCluster
		err := f.hub().Get(t.Context(), client.ObjectKey{Name: "alpine"}, &m)
		if err == nil && !strings.HasPrefix(messageOf(&m, v1alpha1.ConditionDrained), v1alpha1.ReasonDrained+":") {
			err = errors.New(messageOf(&m, v1alpha1.ConditionDrained))
		}
		return err
	})
	f.label(t, &v1alpha1.MemberCluster{}, "alpine", "west")
	f.annotate(t, "alpine", "null")
	await(t, "the other shard uses the member", func() error {
		var m v1alpha1.MemberCluster
		err := f.hub().Get(t.Context(), client.ObjectKey{Name: "alpine"}, &m)
		if err == nil && (m.Status.Shard != "west" || !strings.HasPrefix(messageOf(&m, v1alpha1.ConditionReady), v1alpha1.ReasonConnected+":")) {
			err = fmt.Errorf("shard %q: %s", m.Status.Shard, messageOf(&m, v1alpha1.ConditionReady))
		}
		return err
	})
	check(t, f.hub().Create(t.Context(), &v1alpha1.Placement{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "alpine", Labels: labelled("west")},
		Spec:       v1alpha1.PlacementSpec{ClusterNames: []string{"alpine"}, NumberOfClusters: ptr.To[int32](1)},
	}))
	f.run(t, "moved", "west", "alpine", brief)
	f.awaitStates(t, map[string]v1alpha1.State{"moved": v1alpha1.StateSucceeded})
	if err := f.recordOf(t, "alpine", "west"); err != nil {
		t.Error(err)
	}
	// What has succeeded there is not run again by the shard that has lost the member, which has another one by now.
	check(t, f.hub().Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "unused"}, Data: map[string][]byte{v1alpha1.KubeconfigKey: []byte("none")},
	}))
	f.push(t, "east", map[string]map[string]string{"east-done": brief}, "note: again")
	await(t, "the shard that has lost the member has read the commit", func() error {
		fmc, err := f.get(t, "east-done")
		if err == nil && fmc.Labels["note"] != "again" {
			err = errors.New("not yet")
		}
		return err
	})
}

func (f *fleet) annotate(t *testing.T, member, value string) {
	t.Helper()
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: member}}
	check(t, f.hub().Patch(t.Context(), m, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.AnnotationDrain, value))))
}

// recordOf returns an error unless a member has a shard on record.
func (f *fleet) recordOf(t *testing.T, member, shard string) error {
	t.Helper()
	var list corev1.ConfigMapList
	if err := f.Clients[member].List(t.Context(), &list, client.InNamespace("default"), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Data["hub"] != "" && list.Items[i].Data["shard"] == shard {
			return nil
		}
	}
	return fmt.Errorf("%s has no record of shard %s", member, shard)
}
