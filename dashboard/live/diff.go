package live

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"slices"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/flux/curve"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
	"github.com/minifleet/minifleet/internal/tenant"
	"github.com/minifleet/minifleet/internal/view"
)

// Wanted is what a FleetMiniCluster asks of its members, and what that depends on.
type Wanted struct {
	Object *v1alpha1.FleetMiniCluster
	// Placement is nil where it is not there.
	Placement *v1alpha1.PlacementSpec
	// Members are the registered ones.
	Members map[string]*v1alpha1.MemberCluster
}

// Differences compares what is wanted on each member with what is there, by member and kind. All members are asked at once.
func (r *Reader) Differences(ctx context.Context, w Wanted) []view.Difference {
	var members []string
	for _, c := range w.Object.Status.Clusters {
		members = append(members, c.Name)
	}
	if p := w.Object.Status.Placement; p != nil {
		members = append(members, p.Clusters...)
	}
	slices.Sort(members)
	members = slices.Compact(members)
	members = members[:min(len(members), maxAsked)]
	found := make([][]view.Difference, len(members))
	var wg sync.WaitGroup
	for i, member := range members {
		wg.Go(func() { found[i] = r.differencesOn(ctx, w.on(member)) })
	}
	wg.Wait()
	return append([]view.Difference{}, slices.Concat(found...)...)
}

// wantedOn is what is wanted on one member.
type wantedOn struct {
	Wanted
	member string
	run    *v1alpha1.Run // the latest there, nil for none
	chosen bool
}

func (w Wanted) on(member string) wantedOn {
	out := wantedOn{Wanted: w, member: member, run: runs.Ledger(w.Object.Status.Runs).Last(member)}
	if p := w.Object.Status.Placement; p != nil {
		out.chosen = slices.Contains(p.Clusters, member)
	}
	return out
}

func (w *wantedOn) live() bool { return w.run != nil && !w.run.State.Ended() }

// namespace is the one on the member, connected or not.
func (w *wantedOn) namespace() string {
	if m := w.Members[w.member]; m != nil {
		return tenant.NamespaceOf(w.Object, w.member, &m.Spec)
	}
	return w.Object.Namespace
}

// object is an object on a member: the one that is wanted, the one that is there, or both.
type object struct {
	kind       string
	want, have client.Object
	// foreign says that the one there is somebody else's; it is not told what it is.
	foreign bool
	err     error
}

func (o *object) key() types.NamespacedName {
	if o.want != nil {
		return client.ObjectKeyFromObject(o.want)
	}
	return client.ObjectKeyFromObject(o.have)
}

func (r *Reader) differencesOn(ctx context.Context, w wantedOn) []view.Difference {
	wanted, remark, err := r.rendered(w)
	if err != nil {
		return []view.Difference{{
			Member: w.member, Kind: "MiniCluster", Namespace: w.namespace(), Name: w.Object.Name, State: view.DiffUnknown,
			Message: sanitize.Text(err.Error(), sanitize.MaxNote),
		}}
	}
	objects := wanted
	m, err := r.Members.Member(w.member)
	if err == nil {
		var found []object
		key := fmt.Sprintf("%s/%s/%s", w.member, w.Object.UID, w.Object.ResourceVersion)
		found, err = r.objects.get(ctx, key, func(ctx context.Context) ([]object, error) { return r.readObjects(ctx, m, w, wanted) })
		if err == nil {
			objects = found
		}
	}
	out := []view.Difference{}
	for _, o := range objects {
		if err != nil {
			o.err = err
		}
		if d, ok := w.difference(o, remark); ok {
			out = append(out, d)
		}
	}
	return out
}

// rendered are the objects that the run on a member has, or the next one will have. The remark says whether these are not
// those of the run that is there.
func (r *Reader) rendered(w wantedOn) (objects []object, remark string, err error) {
	if !w.chosen && !w.live() {
		return nil, "", nil
	}
	f := w.Object
	var labels map[string]string
	if m := w.Members[w.member]; m != nil {
		labels = m.Labels
	}
	variant := plan.VariantFor(f, w.Placement, labels)
	spec := &variant.Spec
	if variant.Err != nil {
		spec = &f.Spec.MiniCluster // as the controller renders it for a run that has begun
	}
	cert, err := certificate(f.Name)
	if err != nil {
		return nil, "", err
	}
	bundle, err := plan.Rendering{
		Object: f, Namespace: w.namespace(), Spec: spec, Origin: r.origin(f), CurveCert: cert, Suspend: f.Suspended(), Run: w.run,
	}.Objects()
	if err != nil {
		return nil, "", err
	}
	objects = []object{{kind: "Job", want: bundle.Job}, {kind: "ConfigMap", want: bundle.ConfigMap}, {kind: "Secret", want: bundle.Secret}}
	for _, service := range bundle.Services {
		objects = append(objects, object{kind: "Service", want: service})
	}
	if bundle.ServicesPod != nil && w.live() && !f.Suspended() {
		objects = append(objects, object{kind: "Pod", want: bundle.ServicesPod})
	}
	return objects, w.remark(variant), nil
}

// remark says whether what is rendered now is not what the run that is there was made of.
func (w *wantedOn) remark(variant *plan.Variant) string {
	f := w.Object
	spec := f.Spec.MiniCluster.DeepCopy()
	spec.Default()
	switch {
	case w.run == nil:
		return "no run has begun there yet"
	case w.run.Digest != runs.Digest(f.Name, spec):
		return "run " + w.run.ID + " began with an earlier version of the MiniCluster: this is what the next one will have"
	case w.run.State.Ended():
		return "run " + w.run.ID + " has ended: nothing is put back"
	case variant.Err != nil:
		return "the overrides for the member are not valid: the MiniCluster is shown without"
	}
	if p := f.Status.Placement; p != nil {
		for _, d := range p.Decisions {
			if d.Name == w.member && d.OverridesDigest != variant.Digest {
				return "run " + w.run.ID + " began with other overrides: this is what the next one will have"
			}
		}
	}
	return ""
}

// certificate stands in for the one of the hub, of which nothing is shown.
func certificate(name string) ([]byte, error) {
	cert, err := curve.New(rand.Reader)
	if err != nil {
		return nil, err
	}
	cert.Name = name
	return cert.Encode(), nil
}

// readObjects reads all objects at once, and adds those that are there and not wanted.
func (r *Reader) readObjects(ctx context.Context, m Member, w wantedOn, wanted []object) ([]object, error) {
	origin := r.origin(w.Object)
	out := slices.Clone(wanted)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i].read(ctx, m, origin, w.run) })
	}
	wg.Wait()
	owned, err := m.Owned(ctx, types.NamespacedName{Namespace: w.namespace(), Name: w.Object.Name}, origin)
	if err != nil {
		return nil, err
	}
	for _, o := range owned {
		known := slices.ContainsFunc(wanted, func(w object) bool {
			return w.kind == o.Kind && w.key() == client.ObjectKeyFromObject(o.Object)
		})
		if !known {
			out = append(out, object{kind: o.Kind, have: o.Object})
		}
	}
	return out, nil
}

func (o *object) read(ctx context.Context, m Member, origin fleet.Origin, run *v1alpha1.Run) {
	have, _ := reflect.New(reflect.TypeOf(o.want).Elem()).Interface().(client.Object)
	err := m.GetLive(ctx, o.key(), have)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		o.err = err
	case !origin.Owns(have) && (run == nil || run.JobUID == "" || have.GetUID() != run.JobUID):
		o.foreign = true
	default:
		o.have = have
	}
}

// difference tells of an object; ok is false where there is nothing to tell.
func (w *wantedOn) difference(o object, remark string) (d view.Difference, ok bool) {
	key := o.key()
	c := view.Comparison{Member: w.member, Kind: o.kind, Namespace: key.Namespace, Name: key.Name, Want: o.want, Have: o.have, Message: remark}
	switch {
	case o.err != nil, o.foreign:
		c.Have = nil
	case o.have == nil && w.run != nil && w.run.State.Ended():
		return d, false // it is kept no longer than somebody wants
	case o.want == nil:
		c.Message = "it is not part of what is wanted there"
	}
	if job, ok := o.want.(*batchv1.Job); ok {
		c.Want = comparableJob(job, o.have)
	}
	if secret, ok := o.have.(*corev1.Secret); ok && o.want != nil {
		c.Changed = changedKeys(o.want, secret, w.Object.Spec.MiniCluster.Flux.CurveCert != "")
	}
	d, err := c.Difference()
	switch {
	case err != nil:
		d.State, d.Message = view.DiffUnknown, "it could not be compared"
	case o.err != nil:
		d.State, d.Message = view.DiffUnknown, explain(o.err)
	case o.foreign:
		d.State, d.Message = view.DiffDifferent, "an object of this name is there that does not belong to this MiniCluster; it is not changed"
	case d.State == view.DiffSame && !w.live():
		d.Message = ""
	}
	return d, true
}

// comparableJob omits of a Job what is up to others: whether it is suspended, where a queue on the member says so or
// it has not been released yet.
func comparableJob(want *batchv1.Job, have client.Object) *batchv1.Job {
	job, ok := have.(*batchv1.Job)
	if !ok || !ptr.Deref(job.Spec.Suspend, false) {
		return want
	}
	if clusters.SuspendedByUs(job) && !clusters.Unreleased(job) {
		return want
	}
	out := want.DeepCopy()
	out.Spec.Suspend = nil
	return out
}

// changedKeys are the keys of a Secret that somebody has edited. Which of them can be told only where the hub says what is
// to be in it, and not only that a certificate is.
func changedKeys(want client.Object, have *corev1.Secret, given bool) []string {
	secret, ok := want.(*corev1.Secret)
	if !ok {
		return nil
	}
	edited := clusters.SecretEdited(have)
	var out []string
	for key, value := range have.Data {
		if edited || given && !bytes.Equal(value, secret.Data[key]) {
			out = append(out, key)
		}
	}
	return out
}
