package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// Desired builds the hub object for what a file declares, without the annotations of a commit, or says why there is none.
func Desired(source *v1alpha1.GitSource, o *parse.Object) (obj Object, refusal string) {
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
	inGit := metaOf(o)
	if refusal := shardOf(source, inGit); refusal != "" {
		return nil, refusal
	}
	disabled, refusal := prunedBy(inGit)
	if refusal != "" {
		return nil, refusal
	}
	if disabled {
		obj.GetAnnotations()[v1alpha1.AnnotationSourcePrune] = v1alpha1.PruneDisabled
	}
	obj.GetLabels()[v1alpha1.LabelSource] = source.Name
	obj.GetAnnotations()[v1alpha1.AnnotationSourcePath] = fmt.Sprintf("%s#%d", o.Path, o.Index)
	obj.GetAnnotations()[v1alpha1.AnnotationSourceDigest] = sourceDigest(obj)
	if source.UID != "" {
		obj.GetAnnotations()[v1alpha1.AnnotationSourceUID] = string(source.UID)
	}
	if shard := source.Labels[v1alpha1.LabelShard]; shard != "" { // not part of the digest: it is not Git's to say
		obj.GetLabels()[v1alpha1.LabelShard] = shard
	}
	if o.DeclaresSuspend {
		obj.GetAnnotations()[v1alpha1.AnnotationSourceSuspend] = strconv.FormatBool(o.FleetMiniCluster.Spec.Suspend)
	}
	return obj, ""
}

func metaOf(o *parse.Object) *metav1.ObjectMeta {
	switch o.Kind {
	case parse.KindPlacement:
		return &o.Placement.ObjectMeta
	case parse.KindFleetMiniCluster:
		return &o.FleetMiniCluster.ObjectMeta
	default:
		return &o.MiniCluster.ObjectMeta
	}
}

// shardOf refuses an object that Git declares for another shard than that of its source, whose members it could use then.
func shardOf(source *v1alpha1.GitSource, inGit *metav1.ObjectMeta) (refusal string) {
	declared, is := inGit.Labels[v1alpha1.LabelShard]
	own := source.Labels[v1alpha1.LabelShard]
	if !is || declared == own {
		return ""
	}
	return fmt.Sprintf("metadata.labels[%s] is %q, and a repository does not choose the shard: its objects are of that of their GitSource (%q); remove the label",
		v1alpha1.LabelShard, declared, own)
}

// prunedBy says whether Git declares that an object is not to be pruned. A misprint is refused: it would protect nothing.
func prunedBy(inGit *metav1.ObjectMeta) (disabled bool, refusal string) {
	for name, in := range map[string]map[string]string{"annotations": inGit.Annotations, "labels": inGit.Labels} {
		switch value, is := in[v1alpha1.AnnotationPrune]; {
		case !is || value == pruneEnabled:
		case value == v1alpha1.PruneDisabled:
			disabled = true
		default:
			refusal = max(refusal, fmt.Sprintf("metadata.%s[%s] is %q: set it to %s, or remove it", name, v1alpha1.AnnotationPrune, value, v1alpha1.PruneDisabled))
		}
	}
	return disabled, refusal
}

// pruneEnabled is what is so without the annotation.
const pruneEnabled = "enabled"

func desiredPlacement(namespace string, o *parse.Object) Object {
	return &v1alpha1.Placement{ObjectMeta: desiredMeta(namespace, o.Name, &o.Placement.ObjectMeta), Spec: *o.Placement.Spec.DeepCopy()}
}

func desiredFleetMiniCluster(namespace string, o *parse.Object) Object {
	spec := o.FleetMiniCluster.Spec.DeepCopy()
	spec.MiniCluster.Default()
	if spec.OnChange == "" {
		spec.OnChange = v1alpha1.AfterCompletion
	}
	return &v1alpha1.FleetMiniCluster{ObjectMeta: desiredMeta(namespace, o.Name, &o.FleetMiniCluster.ObjectMeta), Spec: *spec}
}

// desiredMiniCluster takes the placement from a label, and other settings of the hub from annotations.
func desiredMiniCluster(source *v1alpha1.GitSource, o *parse.Object) (obj Object, refusal string) {
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
func sourceDigest(obj Object) string {
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
