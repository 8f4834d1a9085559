package gitsource

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// desired builds the hub object for what a file declares, or says why there is none.
func desired(source *v1alpha1.GitSource, o *parse.Object) (obj client.Object, refusal string) {
	switch o.Kind {
	case parse.KindPlacement:
		obj = desiredPlacement(source.Namespace, o)
	case parse.KindFleetMiniCluster:
		obj = desiredFleetMiniCluster(source.Namespace, o)
	default:
		if obj, refusal = desiredMiniCluster(source, o); refusal != "" {
			return nil, refusal
		}
	}
	obj.GetLabels()[v1alpha1.LabelSource] = source.Name
	obj.GetAnnotations()[v1alpha1.AnnotationSourcePath] = fmt.Sprintf("%s#%d", o.Path, o.Index)
	obj.GetAnnotations()[v1alpha1.AnnotationSourceDigest] = sourceDigest(obj)
	if o.DeclaresSuspend {
		obj.GetAnnotations()[v1alpha1.AnnotationSourceSuspend] = strconv.FormatBool(o.FleetMiniCluster.Spec.Suspend)
	}
	return obj, ""
}

func desiredPlacement(namespace string, o *parse.Object) client.Object {
	return &v1alpha1.Placement{ObjectMeta: desiredMeta(namespace, o.Name, &o.Placement.ObjectMeta), Spec: *o.Placement.Spec.DeepCopy()}
}

func desiredFleetMiniCluster(namespace string, o *parse.Object) client.Object {
	spec := o.FleetMiniCluster.Spec.DeepCopy()
	spec.MiniCluster.Default()
	if spec.OnChange == "" {
		spec.OnChange = v1alpha1.AfterCompletion
	}
	return &v1alpha1.FleetMiniCluster{ObjectMeta: desiredMeta(namespace, o.Name, &o.FleetMiniCluster.ObjectMeta), Spec: *spec}
}

// desiredMiniCluster takes the placement from a label, and other settings of the hub from annotations.
func desiredMiniCluster(source *v1alpha1.GitSource, o *parse.Object) (obj client.Object, refusal string) {
	meta := desiredMeta(source.Namespace, o.Name, &o.MiniCluster.ObjectMeta)
	name := meta.Labels[v1alpha1.LabelPlacement]
	if name == "" && source.Spec.DefaultPlacement != nil {
		name = source.Spec.DefaultPlacement.Name
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
	return &v1alpha1.FleetMiniCluster{ObjectMeta: meta, Spec: spec}, ""
}

func desiredMeta(namespace, name string, inGit *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels:      withoutOurs(inGit.Labels, v1alpha1.LabelPlacement),
		Annotations: withoutOurs(inGit.Annotations, v1alpha1.AnnotationRerunAt),
	}
}

// withoutOurs returns labels or annotations without those of MiniFleet's own, except one: what they say is not
// for a file in Git to say.
func withoutOurs(in map[string]string, except string) map[string]string {
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

// merge returns the object as it should be. Labels are Git's; annotations of others are kept. The revision
// is that of the last commit that changed the object, so that other commits cause no write.
func merge(want, have client.Object, revision string) (merged client.Object, changed bool) {
	out := have.DeepCopyObject().(client.Object) //nolint:forcetypeassert // a copy has the type of its original
	out.SetLabels(want.GetLabels())
	sameSource := have.GetAnnotations()[v1alpha1.AnnotationSourceDigest] == want.GetAnnotations()[v1alpha1.AnnotationSourceDigest]
	out.SetAnnotations(mergeAnnotations(want.GetAnnotations(), have.GetAnnotations(), sameSource, revision))
	switch o := out.(type) {
	case *v1alpha1.Placement:
		o.Spec = want.(*v1alpha1.Placement).Spec //nolint:forcetypeassert // both have the kind of the key
	case *v1alpha1.FleetMiniCluster:
		size, suspend := o.Spec.MiniCluster.Size, o.Spec.Suspend
		o.Spec = want.(*v1alpha1.FleetMiniCluster).Spec //nolint:forcetypeassert // both have the kind of the key
		if sameSource && scalable(o, size) {
			o.Spec.MiniCluster.Size = size
		}
		if suspendIsOthers(want, have) {
			o.Spec.Suspend = suspend
		}
	}
	return out, !equality.Semantic.DeepEqual(out, have)
}

// suspendIsOthers says whether spec.suspend is for people to set: Git does not declare it, and has not set what is
// there.
func suspendIsOthers(want, have client.Object) bool {
	_, declared := want.GetAnnotations()[v1alpha1.AnnotationSourceSuspend]
	return !declared && have.GetAnnotations()[v1alpha1.AnnotationSourceSuspend] != "true"
}

func mergeAnnotations(want, have map[string]string, sameSource bool, revision string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	token, asked := out[v1alpha1.AnnotationRerunAt]
	delete(out, v1alpha1.AnnotationSourceSuspend) // unless Git still declares it
	maps.Copy(out, want)
	if sameSource && asked {
		out[v1alpha1.AnnotationRerunAt] = token // somebody asked after Git did
	}
	if !sameSource {
		out[v1alpha1.AnnotationSourceRevision] = revision
	}
	return out
}

// scalable says whether a size that differs from Git's came from `kubectl scale` and is to stay: the
// MiniCluster is elastic, and the size is within its bounds. The next commit that changes the MiniCluster
// sets the size again.
func scalable(o *v1alpha1.FleetMiniCluster, size int32) bool {
	mc := &o.Spec.MiniCluster
	return mc.MaxSize > 0 && size >= max(mc.MinSize, 1) && size <= mc.MaxSize
}
