package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// existing are the hub's objects of a source's namespace, by KIND/NAME. They are the cache's own: whoever
// changes one copies it first.
type existing map[string]client.Object

func (s *gitSync) existing(ctx context.Context) (existing, error) {
	out := existing{}
	var fleet v1alpha1.FleetMiniClusterList
	if err := s.r.Client.List(ctx, &fleet, client.InNamespace(s.key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing FleetMiniClusters: %w", err)
	}
	for i := range fleet.Items {
		out[objectKey(parse.KindFleetMiniCluster, fleet.Items[i].Name)] = &fleet.Items[i]
	}
	var placements v1alpha1.PlacementList
	if err := s.r.Client.List(ctx, &placements, client.InNamespace(s.key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Placements: %w", err)
	}
	for i := range placements.Items {
		out[objectKey(parse.KindPlacement, placements.Items[i].Name)] = &placements.Items[i]
	}
	return out, nil
}

// objectKey is KIND/NAME on the hub, where a MiniCluster is a FleetMiniCluster.
func objectKey(kind, name string) string {
	if kind == parse.KindMiniCluster {
		kind = parse.KindFleetMiniCluster
	}
	return kind + "/" + name
}

// apply creates and updates what Git declares, Placements first. What the hub refuses is a problem of its
// file; it holds nothing else up.
func (s *gitSync) apply(ctx context.Context, have existing) error {
	for _, p := range s.tree.parsed.Problems {
		if p.Warning {
			s.warnings = append(s.warnings, fileProblem(p.Path, p.Line, p.Object, p.Field, p.Message, true))
			continue
		}
		s.problem(p.Path, p.Line, p.Object, p.Field, p.Message)
	}
	var errs []error
	for _, placements := range []bool{true, false} {
		var objects []*parse.Object
		for i := range s.tree.parsed.Objects {
			if o := &s.tree.parsed.Objects[i]; (o.Kind == parse.KindPlacement) == placements {
				objects = append(objects, o)
			}
		}
		errs = append(errs, s.applyAll(ctx, objects, have)...)
	}
	return errors.Join(errs...)
}

// atOnce is how many objects of a source are written at the same time.
const atOnce = 8

// fate is what became of an object that Git declares.
type fate struct {
	refused string // why it could not be applied
	applied bool   // it was created or updated
	settled string // the resource version at which there was nothing to do
	err     error
}

// applyAll applies objects several at a time, and reports in their order.
func (s *gitSync) applyAll(ctx context.Context, objects []*parse.Object, have existing) []error {
	fates := make([]fate, len(objects))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, o := range objects {
		slots <- struct{}{}
		wg.Go(func() {
			fates[i] = s.applyOne(ctx, o, have)
			<-slots
		})
	}
	wg.Wait()
	var errs []error
	for i, o := range objects {
		key, f := objectKey(o.Kind, o.Name), fates[i]
		switch {
		case f.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", key, f.err))
		case f.refused != "":
			s.unapplied = append(s.unapplied, key)
			s.problem(o.Path, o.Line, o.Kind+"/"+o.Name, "", f.refused)
		case f.applied:
			s.applied = append(s.applied, key)
		case f.settled != "":
			s.tree.settled[key] = f.settled
		}
	}
	return errs
}

// applyOne is called for several objects at once: it changes nothing that they share.
func (s *gitSync) applyOne(ctx context.Context, o *parse.Object, have existing) fate {
	key := objectKey(o.Kind, o.Name)
	if h := have[key]; h != nil && s.tree.settled[key] == h.GetResourceVersion() {
		return fate{} // looked at before, and not touched since
	}
	want, why := s.wanted(o)
	if why != "" {
		return fate{refused: why}
	}
	f := s.put(ctx, want, have[key])
	var own *sourceError
	if err := f.err; errors.As(err, &own) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return fate{refused: err.Error()}
	}
	return f
}

// wanted builds the hub object for what a file declares, or says why there is none.
func (s *gitSync) wanted(o *parse.Object) (obj client.Object, why string) {
	meta := metav1.ObjectMeta{Namespace: s.key.Namespace, Name: o.Name}
	take := func(from *metav1.ObjectMeta) {
		meta.Labels, meta.Annotations = foreign(from.Labels, v1alpha1.LabelPlacement), foreign(from.Annotations, v1alpha1.AnnotationRerunAt)
	}
	switch o.Kind {
	case parse.KindPlacement:
		take(&o.Placement.ObjectMeta)
		obj = &v1alpha1.Placement{ObjectMeta: meta, Spec: *o.Placement.Spec.DeepCopy()}
	case parse.KindFleetMiniCluster:
		take(&o.FleetMiniCluster.ObjectMeta)
		spec := o.FleetMiniCluster.Spec.DeepCopy()
		spec.MiniCluster.Default()
		if spec.OnChange == "" {
			spec.OnChange = v1alpha1.AfterCompletion
		}
		obj = &v1alpha1.FleetMiniCluster{ObjectMeta: meta, Spec: *spec}
	default:
		take(&o.MiniCluster.ObjectMeta)
		name := meta.Labels[v1alpha1.LabelPlacement]
		if name == "" && s.source.Spec.DefaultPlacement != nil {
			name = s.source.Spec.DefaultPlacement.Name
		}
		if name == "" {
			return nil, fmt.Sprintf("it names no placement: give it the label %s, or the GitSource a spec.defaultPlacement", v1alpha1.LabelPlacement)
		}
		spec := v1alpha1.FleetMiniClusterSpec{
			MiniCluster: *o.MiniCluster.Spec.DeepCopy(), PlacementRef: &v1alpha1.LocalReference{Name: name}, OnChange: v1alpha1.AfterCompletion,
		}
		spec.MiniCluster.Default()
		if errs := spec.Set(o.MiniCluster.Annotations, field.NewPath("metadata", "annotations")); len(errs) > 0 {
			return nil, errs.ToAggregate().Error() // not reachable: the parser has asked the same
		}
		obj = &v1alpha1.FleetMiniCluster{ObjectMeta: meta, Spec: spec}
	}
	obj.GetLabels()[v1alpha1.LabelSource] = s.source.Name
	obj.GetAnnotations()[v1alpha1.AnnotationSourcePath] = fmt.Sprintf("%s#%d", o.Path, o.Index)
	obj.GetAnnotations()[v1alpha1.AnnotationSourceDigest] = sourceDigest(obj)
	return obj, ""
}

// foreign returns labels or annotations without those of MiniFleet's own, except one: what they say is not
// for a file in Git to say.
func foreign(in map[string]string, except string) map[string]string {
	out := map[string]string{}
	for k, v := range in {
		if k == except || !strings.HasPrefix(k, v1alpha1.GroupVersion.Group+"/") {
			out[k] = v
		}
	}
	return out
}

// sourceDigest is the hash of what Git declares for an object, where it stands aside.
func sourceDigest(obj client.Object) string {
	var spec any
	switch o := obj.(type) {
	case *v1alpha1.FleetMiniCluster:
		spec = o.Spec
	case *v1alpha1.Placement:
		spec = o.Spec
	}
	annotations := maps.Clone(obj.GetAnnotations())
	delete(annotations, v1alpha1.AnnotationSourcePath)
	body, err := json.Marshal([]any{spec, obj.GetLabels(), annotations})
	if err != nil {
		panic(err) // not reachable: it came out of JSON
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}

// put creates or updates one object. What somebody else made is left alone.
func (s *gitSync) put(ctx context.Context, want, have client.Object) fate {
	if have == nil {
		want.GetAnnotations()[v1alpha1.AnnotationSourceRevision] = s.tree.revision
		if fmc, ok := want.(*v1alpha1.FleetMiniCluster); ok {
			controllerutil.AddFinalizer(fmc, v1alpha1.Finalizer) // saves the FleetMiniCluster controller a write
		}
		err := s.r.Client.Create(ctx, want)
		if apierrors.IsAlreadyExists(err) {
			name := objectKey(kindOnHub(want), want.GetName())
			err = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource(name).GroupResource(), want.GetName(), err)
		}
		return fate{applied: err == nil, err: err}
	}
	if owner := have.GetLabels()[v1alpha1.LabelSource]; owner != s.source.Name {
		whose := "was not created by a GitSource"
		if owner != "" {
			whose = "belongs to GitSource " + owner
		}
		return fate{err: &sourceError{v1alpha1.ReasonConflict, fmt.Sprintf("%s %s/%s exists already and %s, which keeps it: rename this one, or hand that one over (kubectl label --overwrite it with %s=%s)", kindOnHub(want), s.key.Namespace, want.GetName(), whose, v1alpha1.LabelSource, s.source.Name)}}
	}
	if !have.GetDeletionTimestamp().IsZero() {
		return fate{} // it is created anew when it is gone
	}
	updated, changed := merge(want, have, s.tree.revision)
	if !changed {
		return fate{settled: have.GetResourceVersion()}
	}
	err := s.r.Client.Update(ctx, updated)
	return fate{applied: err == nil, err: err}
}

func kindOnHub(obj client.Object) string {
	if _, ok := obj.(*v1alpha1.Placement); ok {
		return parse.KindPlacement
	}
	return parse.KindFleetMiniCluster
}

// merge returns the object as it should be. Labels are Git's; annotations of others are kept. The revision
// is that of the last commit that changed the object, so that other commits cause no write.
func merge(want, have client.Object, revision string) (client.Object, bool) {
	out := have.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	out.SetLabels(want.GetLabels())
	annotations := maps.Clone(have.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	sameSource := annotations[v1alpha1.AnnotationSourceDigest] == want.GetAnnotations()[v1alpha1.AnnotationSourceDigest]
	token, asked := annotations[v1alpha1.AnnotationRerunAt]
	maps.Copy(annotations, want.GetAnnotations())
	if sameSource && asked {
		annotations[v1alpha1.AnnotationRerunAt] = token // somebody asked after Git did
	}
	if !sameSource {
		annotations[v1alpha1.AnnotationSourceRevision] = revision
	}
	out.SetAnnotations(annotations)
	switch o := out.(type) {
	case *v1alpha1.Placement:
		o.Spec = want.(*v1alpha1.Placement).Spec //nolint:forcetypeassert // both have the kind of the key
	case *v1alpha1.FleetMiniCluster:
		size := o.Spec.MiniCluster.Size
		o.Spec = want.(*v1alpha1.FleetMiniCluster).Spec //nolint:forcetypeassert // both have the kind of the key
		if sameSource && scaled(o, size) {
			o.Spec.MiniCluster.Size = size
		}
	}
	return out, !equality.Semantic.DeepEqual(out, have)
}

// scaled says whether a size that differs from Git's came from `kubectl scale` and is to stay: the
// MiniCluster is elastic, and the size is within its bounds. The next commit that changes the MiniCluster
// sets the size again.
func scaled(o *v1alpha1.FleetMiniCluster, size int32) bool {
	mc := &o.Spec.MiniCluster
	return mc.MaxSize > 0 && size >= max(mc.MinSize, 1) && size <= mc.MaxSize
}

func (s *gitSync) problem(path string, line int, object, field, message string) {
	s.problems = append(s.problems, fileProblem(path, line, object, field, message, false))
}

func fileProblem(path string, line int, object, field, message string, warning bool) v1alpha1.FileProblem {
	return v1alpha1.FileProblem{
		Path: sanitize.Text(path, sanitize.MaxNote), Line: int32(line), Object: sanitize.Text(object, sanitize.MaxNote), Field: sanitize.Text(field, sanitize.MaxNote), //nolint:gosec // files are far shorter than 2³¹ lines
		Message: sanitize.Text(message, sanitize.MaxNote), Warning: warning,
	}
}
