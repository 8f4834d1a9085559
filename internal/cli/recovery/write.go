package recovery

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/internal/backup"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// outcome is what becomes of an object of a file.
type outcome string

const (
	created   outcome = "created"
	replaced  outcome = "replaced"
	unchanged outcome = "unchanged"
	keptHubs  outcome = "kept as the hub has it"
	// isDeleting is one that is being deleted, on the hub now or when it was backed up.
	isDeleting outcome = "not restored, for it was being deleted"
	// differs is one that the hub has otherwise, where nobody has said what is to become of it.
	differs outcome = "not as in the backup"
)

// putBack is what has become of an object, for people.
type putBack struct {
	outcome outcome
	line    string
}

// decide says what becomes of an object of MiniFleet's own kinds.
func (s *restoration) decide(kept, prepared *unstructured.Unstructured) outcome {
	was, there := s.present.objects[about(kept)]
	switch {
	case there && was.deleting:
		return isDeleting
	case !there && kept.GetDeletionTimestamp() != nil:
		return unchanged // which putBack tells of
	case !there:
		return created
	case was.digest == backup.Digest(prepared):
		return unchanged
	case s.Existing == ExistingReplace, s.resuming && (s.Existing == "" || !was.status && prepared.Object["status"] != nil):
		return replaced // where it was interrupted, an object may be there without its status
	case s.Existing == ExistingKeep:
		return keptHubs
	}
	return differs
}

// put puts an object back and tells of it.
func (s *restoration) put(ctx context.Context, kept *unstructured.Unstructured) error {
	p, err := s.putBack(ctx, kept)
	if err == nil {
		s.told(p)
	}
	return err
}

func (s *restoration) told(p putBack) {
	s.counts[p.outcome]++
	s.Tell("%s", p.line)
}

// putBack puts an object back, unless it is only tried. It may be called from several goroutines, but for GitSources.
func (s *restoration) putBack(ctx context.Context, kept *unstructured.Unstructured) (putBack, error) {
	how := s.putOwn
	switch kept.GetKind() {
	case namespaceKind.Kind:
		how = s.putNamespace
	case secretKind.Kind:
		how = s.putSecret
	case roleBindingKind.Kind, clusterRoleBindingKind.Kind:
		how = s.putBinding
	}
	o, more, err := how(ctx, kept)
	if err != nil {
		return putBack{}, fmt.Errorf("restoring %s: %w", about(kept), err)
	}
	line := about(kept) + ": " + string(o)
	for _, text := range more {
		line += "; " + text
	}
	return putBack{o, line}, nil
}

// putOwn puts an object of MiniFleet back, with its status.
func (s *restoration) putOwn(ctx context.Context, kept *unstructured.Unstructured) (outcome, []string, error) {
	prepared := backup.Prepare(kept, s.sources)
	_, there := s.present.objects[about(kept)]
	if kept.GetDeletionTimestamp() != nil && !there {
		return isDeleting, []string{"what it has on members is told in status.unownedJobs of these"}, nil
	}
	o := s.decide(kept, prepared.Object)
	var err error
	switch {
	case s.DryRun:
	case o == created:
		err = s.create(ctx, kept, prepared.Object)
	case o == replaced:
		err = s.replace(ctx, prepared.Object)
	}
	if o == unchanged || o == keptHubs {
		prepared.LeftOut = nil
	}
	return o, prepared.LeftOut, err
}

func (s *restoration) create(ctx context.Context, kept, want *unstructured.Unstructured) error {
	obj := want.DeepCopy()
	if err := s.Hub.Create(ctx, obj); err != nil {
		return err
	}
	if kept.GetKind() == kindGitSource {
		s.sources[kept.GetUID()] = obj.GetUID()
	}
	return s.writeStatus(ctx, obj, want.Object["status"])
}

// writeStatus writes a status, if there is one.
func (s *restoration) writeStatus(ctx context.Context, obj *unstructured.Unstructured, status any) error {
	if status == nil {
		return nil
	}
	obj.Object["status"] = status
	return s.Hub.Status().Update(ctx, obj)
}

// replace has an object of the hub be as in the file, but for finalizers and owners, which are the hub's. So is what the hub
// knows of a member that it was connected to.
func (s *restoration) replace(ctx context.Context, want *unstructured.Unstructured) error {
	have, err := read(ctx, s.Hub, want.GroupVersionKind(), client.ObjectKeyFromObject(want))
	if err != nil {
		return err
	}
	if have == nil {
		return errors.New("somebody has deleted it meanwhile")
	}
	status := have.Object["status"]
	for field := range have.Object {
		if field != "metadata" && field != "apiVersion" && field != "kind" {
			delete(have.Object, field)
		}
	}
	for field, value := range want.DeepCopy().Object {
		if field != "metadata" {
			have.Object[field] = value
		}
	}
	have.SetLabels(want.GetLabels())
	have.SetAnnotations(want.GetAnnotations())
	if uid, _, _ := unstructured.NestedString(map[string]any{"status": status}, "status", "clusterUID"); want.GetKind() != kindMemberCluster || uid == "" {
		status = want.DeepCopy().Object["status"]
	}
	if err := s.Hub.Update(ctx, have); err != nil {
		return err
	}
	if status == nil {
		status = map[string]any{}
	}
	return s.writeStatus(ctx, have, status)
}

// putNamespace creates a namespace, or adds what is missing to the labels and annotations of one that is there.
func (s *restoration) putNamespace(ctx context.Context, kept *unstructured.Unstructured) (outcome, []string, error) {
	have, err := read(ctx, s.Hub, namespaceKind, client.ObjectKeyFromObject(kept))
	if err != nil {
		return "", nil, err
	}
	if have == nil {
		if s.DryRun {
			return created, nil, nil
		}
		return created, nil, s.Hub.Create(ctx, kept.DeepCopy())
	}
	labels, differ := merged(have.GetLabels(), kept.GetLabels(), "label")
	annotations, more := merged(have.GetAnnotations(), kept.GetAnnotations(), "annotation")
	differ = append(differ, more...)
	if len(labels) == len(have.GetLabels()) && len(annotations) == len(have.GetAnnotations()) {
		return unchanged, differ, nil
	}
	have.SetLabels(labels)
	have.SetAnnotations(annotations)
	if s.DryRun {
		return replaced, differ, nil
	}
	return replaced, differ, s.Hub.Update(ctx, have)
}

// merged is what there is and what is missing there, and what is not the same.
func merged(have, want map[string]string, what string) (map[string]string, []string) {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	var differ []string
	for key, value := range want {
		now, there := out[key]
		if !there {
			out[key] = value
		} else if now != value {
			differ = append(differ, fmt.Sprintf("its %s %s stays %q, and is %q in the backup", what, key, now, value))
		}
	}
	return out, differ
}

// putSecret creates a Secret that is missing. One that is there is newer, unless a person says otherwise.
func (s *restoration) putSecret(ctx context.Context, kept *unstructured.Unstructured) (outcome, []string, error) {
	want := backup.Prepare(kept, nil).Object
	have, err := read(ctx, s.Hub, secretKind, client.ObjectKeyFromObject(kept))
	if err != nil {
		return "", nil, err
	}
	switch {
	case have == nil && s.DryRun:
		return created, nil, nil
	case have == nil:
		return created, nil, s.Hub.Create(ctx, want)
	case equality.Semantic.DeepEqual(have.Object["data"], want.Object["data"]):
		return unchanged, nil, nil
	case s.Existing != ExistingReplace:
		return keptHubs, nil, nil
	case s.DryRun:
		return replaced, nil, nil
	}
	have.Object["data"] = want.Object["data"]
	return replaced, nil, s.Hub.Update(ctx, have)
}

// putBinding creates a binding that is missing, and tells whom it gives what: some roles of MiniFleet make an administrator of
// whoever has them.
func (s *restoration) putBinding(ctx context.Context, kept *unstructured.Unstructured) (outcome, []string, error) {
	have, err := read(ctx, s.Hub, kept.GroupVersionKind(), client.ObjectKeyFromObject(kept))
	if err != nil {
		return "", nil, err
	}
	switch {
	case have != nil && equality.Semantic.DeepEqual(have.Object["subjects"], kept.Object["subjects"]):
		return unchanged, nil, nil
	case have != nil:
		return keptHubs, nil, nil
	case s.DryRun:
		return created, given(kept), nil
	}
	return created, given(kept), s.Hub.Create(ctx, backup.Prepare(kept, nil).Object)
}

func given(binding *unstructured.Unstructured) []string {
	role, _, _ := unstructured.NestedString(binding.Object, "roleRef", "name")
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects") // the API takes no other
	var to []string
	for _, subject := range subjects {
		if subject, ok := subject.(map[string]any); ok {
			kind, _, _ := unstructured.NestedString(subject, "kind")
			namespace, _, _ := unstructured.NestedString(subject, "namespace")
			name, _, _ := unstructured.NestedString(subject, "name")
			to = append(to, kind+" "+nameOf(client.ObjectKey{Namespace: namespace, Name: name}))
		}
	}
	return []string{sanitize.Text("it gives "+role+" to "+some(to), sanitize.MaxMessage)}
}

// secretValue is the value of a key, empty where there is none.
func secretValue(secret *unstructured.Unstructured, key string) []byte {
	text, _, _ := unstructured.NestedString(secret.Object, "data", key) // what is no text is no value
	value, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return value
}
