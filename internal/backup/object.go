package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Keep is what of an object goes into a file. Its owners are left out, for their UIDs mean nothing elsewhere and the
// garbage collector would delete an object without its owner; so are finalizers of others. Its UID and time of creation
// are for people, and for what refers to it.
func Keep(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	kept := map[string]any{}
	was, _, _ := unstructured.NestedMap(obj.Object, "metadata") // an object of the API has that
	for _, key := range []string{"name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "labels", "annotations"} {
		if value, there := was[key]; there && value != nil {
			kept[key] = value
		}
	}
	out.Object["metadata"] = kept
	out.SetFinalizers(slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool { return !ours(f) }))
	if status, ok := out.Object["status"].(map[string]any); ok && len(status) == 0 {
		delete(out.Object, "status")
	}
	return out
}

// KeepNamespace is what of a namespace goes into a file: its labels, which members and overrides select on, and what
// MiniFleet reads of its annotations.
func KeepNamespace(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetAPIVersion("v1")
	out.SetKind("Namespace")
	out.SetName(obj.GetName())
	labels := maps.Clone(obj.GetLabels())
	delete(labels, "kubernetes.io/metadata.name")
	annotations := maps.Clone(obj.GetAnnotations())
	maps.DeleteFunc(annotations, func(key, _ string) bool { return !ours(key) })
	if len(labels) > 0 {
		out.SetLabels(labels)
	}
	if len(annotations) > 0 {
		out.SetAnnotations(annotations)
	}
	return out
}

// ours says that a label, an annotation or a finalizer is MiniFleet's.
func ours(key string) bool { return strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/") }

// Sources are the UIDs that GitSources have on a hub by the UIDs that they had when they were backed up.
type Sources map[types.UID]types.UID

// Restored is an object as it is put back, and what of it is left out on purpose, told for people.
type Restored struct {
	Object  *unstructured.Unstructured
	LeftOut []string
}

// Prepare is an object of a file as it is put back on a hub: without what API servers give, with a status that speaks of
// no generation that they have given, and without what was true at its time only.
func Prepare(kept *unstructured.Unstructured, sources Sources) Restored {
	r := Restored{Object: kept.DeepCopy()}
	obj := r.Object
	for _, field := range []string{"uid", "creationTimestamp", "deletionTimestamp", "resourceVersion", "generation", "ownerReferences", "managedFields"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	annotations := obj.GetAnnotations()
	if was := annotations[v1alpha1.AnnotationSourceUID]; was != "" && sources[types.UID(was)] != "" {
		annotations[v1alpha1.AnnotationSourceUID] = string(sources[types.UID(was)])
		obj.SetAnnotations(annotations)
	}
	if obj.GetKind() == "MemberCluster" {
		r.prepareMember()
	}
	if status, ok := obj.Object["status"].(map[string]any); ok {
		forgetGenerations(status)
		if len(status) == 0 {
			delete(obj.Object, "status")
		}
	}
	return r
}

// prepareMember leaves out of a member what may be wrong by now. What a deleted FleetMiniCluster had left there may bear the
// name of one that has been created since, whose live run would be removed for it; and of what a person has declared gone
// nobody knows whether the member has returned since.
func (r *Restored) prepareMember() {
	annotations := r.Object.GetAnnotations()
	if at, declared := annotations[v1alpha1.AnnotationMemberGone]; declared {
		delete(annotations, v1alpha1.AnnotationMemberGone)
		r.Object.SetAnnotations(annotations)
		r.LeftOut = append(r.LeftOut, fmt.Sprintf("its annotation %s=%s is not restored: annotate it again if nothing runs there now", v1alpha1.AnnotationMemberGone, at))
	}
	status, ok := r.Object.Object["status"].(map[string]any)
	if !ok {
		return
	}
	if orphans, ok := status["orphans"].([]any); ok && len(orphans) > 0 {
		r.LeftOut = append(r.LeftOut, fmt.Sprintf("%d orphans are not restored: what is left of them on the member and live is told in status.unownedJobs once it is connected", len(orphans)))
	}
	maps.DeleteFunc(status, func(key string, _ any) bool {
		return key != "clusterUID" && key != "identity" && key != "quarantine"
	})
}

// forgetGenerations has a status speak of no generation, so that nobody takes it for one of what is there now.
func forgetGenerations(status map[string]any) {
	delete(status, "observedGeneration")
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok {
			delete(c, "observedGeneration")
		}
	}
}

// Digest is a hash of what a prepared object puts on a hub, in hexadecimal digits: two that are equal need no write.
func Digest(prepared *unstructured.Unstructured) string {
	labels, annotations := prepared.GetLabels(), prepared.GetAnnotations()
	body := maps.Clone(prepared.Object)
	delete(body, "metadata")
	fields, err := json.Marshal([]any{labels, annotations, body})
	if err != nil {
		panic(err) // not reachable: it was JSON
	}
	sum := sha256.Sum256(fields)
	return hex.EncodeToString(sum[:])
}

// SecretRef is a Secret that an object names.
type SecretRef struct{ Namespace, Name, For string }

// SecretRefs are the Secrets that an object of MiniFleet needs to work, sorted. Kubeconfigs are in the manager's namespace.
// What MiniClusters name belongs to who wrote them, and is not among these.
func SecretRefs(obj *unstructured.Unstructured, managerNamespace string) []SecretRef {
	if obj.GetKind() == "FleetMiniCluster" || obj.GetKind() == "Placement" {
		return nil
	}
	namespace, owner := obj.GetNamespace(), obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName()
	if namespace == "" {
		namespace, owner = managerNamespace, obj.GetKind()+" "+obj.GetName()
	}
	var out []SecretRef
	for _, name := range secretNames(obj.Object["spec"]) {
		out = append(out, SecretRef{namespace, name, owner})
	}
	return out
}

// secretNames are the values of all fields secretRef.name, and of those whose name ends in SecretRef.
func secretNames(value any) []string {
	var out []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if ref, ok := v[key].(map[string]any); ok && (key == "secretRef" || strings.HasSuffix(key, "SecretRef")) {
				if name, ok := ref["name"].(string); ok && name != "" {
					out = append(out, name)
				}
				continue
			}
			out = append(out, secretNames(v[key])...)
		}
	case []any:
		for _, item := range v {
			out = append(out, secretNames(item)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
