package gitsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// concurrentWrites is how many objects of a source are written at the same time.
const concurrentWrites = 8

// applied is what became of the objects that Git declares, in the order of files.
type applied struct {
	changed  []string // KIND/NAME of what was created or updated
	refused  []string // KIND/NAME of what could not be
	deleting []string // KIND/NAME of what is created anew once the deletion of what had its name has ended
	blocked  []string // KIND/NAME of what was not updated, since too many at once would run anew
	// lacking says that an account lacked a right for some: what they were to replace has to stay.
	lacking  bool
	problems []v1alpha1.FileProblem
}

// outcome is what became of one object that Git declares.
type outcome struct {
	refusal string // why it could not be applied
	changed bool   // it was created or updated
	inSync  string // the resource version at which there was nothing to do
	// deleting says that the object's deletion has not ended yet.
	deleting bool
	// startsAnew says that it was not updated yet, since it has run and would run anew.
	startsAnew bool
	// lacking says that the refusal is about a right that an account lacks.
	lacking bool
	err     error
}

// apply creates and updates what Git declares, Placements first. What the hub refuses is a problem of its
// file; it holds nothing else up.
func apply(ctx context.Context, to client.Writer, source *v1alpha1.GitSource, t *tree, have hubObjects) (out applied, err error) {
	var errs []error
	for _, objects := range inOrder(t.parsed.Objects) {
		outcomes := applyGroup(ctx, to, source, t, objects, have)
		errs = append(errs, out.add(objects, outcomes, t.inSync.versions)...)
		if err := errors.Join(errs...); ctx.Err() != nil || cannotAct(err) != nil {
			return out, cmp.Or(cannotAct(err), ctx.Err())
		}
	}
	return out, errors.Join(errs...)
}

// inOrder are the objects in groups of which one is applied after the other.
func inOrder(objects []parse.Object) [2][]*parse.Object {
	var groups [2][]*parse.Object
	for i := range objects {
		group := 1
		if objects[i].Kind == parse.KindPlacement {
			group = 0
		}
		groups[group] = append(groups[group], &objects[i])
	}
	return groups
}

// applyGroup applies first what starts no run anew, so that it is known how many would. Those follow unless they are so
// many that a person has to approve it.
func applyGroup(ctx context.Context, to client.Writer, source *v1alpha1.GitSource, t *tree, objects []*parse.Object, have hubObjects) []outcome {
	outcomes := applyAll(ctx, to, source, t, objects, have, false)
	var waiting []*parse.Object
	var at []int
	for i := range outcomes {
		if outcomes[i].startsAnew {
			waiting, at = append(waiting, objects[i]), append(at, i)
		}
	}
	approved := source.Annotations[v1alpha1.AnnotationApproveRuns]
	if runsNeedApproval(approved, t, len(waiting), countOnHub(objects, source.Name, have)) {
		return outcomes
	}
	for i, result := range applyAll(ctx, to, source, t, waiting, have, true) {
		outcomes[at[i]] = result
	}
	return outcomes
}

// applyAll applies objects several at a time; those that would start runs anew, only if they may. It ends early with the
// context, and where no object can be applied.
func applyAll(ctx context.Context, to client.Writer, source *v1alpha1.GitSource, t *tree, objects []*parse.Object, have hubObjects, anew bool) []outcome {
	outcomes := make([]outcome, len(objects))
	slots := make(chan struct{}, concurrentWrites)
	var wg sync.WaitGroup
	var futile atomic.Bool
	for i, o := range objects {
		if ctx.Err() != nil || futile.Load() {
			break
		}
		slots <- struct{}{}
		wg.Go(func() {
			outcomes[i] = applyOne(ctx, to, source, t, o, have, anew)
			if cannotAct(outcomes[i].err) != nil {
				futile.Store(true)
			}
			<-slots
		})
	}
	wg.Wait()
	return outcomes
}

// add notes outcomes, and in versions what is in sync. It returns the errors of the hub.
func (a *applied) add(objects []*parse.Object, outcomes []outcome, versions map[string]string) []error {
	var errs []error
	for i, o := range objects {
		key, result := objectKey(o.Kind, o.Name), outcomes[i]
		switch {
		case result.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", key, result.err))
		case result.refusal != "":
			a.refused = append(a.refused, key)
			a.problems = append(a.problems, objectProblem(o, "", result.refusal))
			a.lacking = a.lacking || result.lacking
		case result.changed:
			a.changed = append(a.changed, key)
		case result.inSync != "":
			versions[key] = result.inSync
		case result.deleting:
			a.deleting = append(a.deleting, key)
		case result.startsAnew:
			a.blocked = append(a.blocked, key)
		}
	}
	return errs
}

// applyOne is called for several objects at once: it changes nothing that they share.
func applyOne(ctx context.Context, to client.Writer, source *v1alpha1.GitSource, t *tree, o *parse.Object, have hubObjects, anew bool) outcome {
	key := objectKey(o.Kind, o.Name)
	if h := have[key]; h != nil && t.inSync.versions[key] == h.GetResourceVersion() {
		return outcome{} // compared before, and not touched since
	}
	want, refusal := desired(source, o)
	if refusal != "" {
		return outcome{refusal: refusal}
	}
	result := write(ctx, to, source.Name, t.revision, want, have[key], anew)
	result.err = explained(result.err, source.Namespace)
	if cannotAct(result.err) == nil && isRefusal(result.err) {
		return outcome{refusal: result.err.Error(), lacking: isLacking(result.err)}
	}
	return result
}

// isRefusal says whether an error is about the object, so that trying again does not help.
func isRefusal(err error) bool {
	var own *sourceError
	return errors.As(err, &own) || isLacking(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// write creates or updates one object; one that would start a run anew, only if it may. What somebody else made stays
// as it is.
func write(ctx context.Context, to client.Writer, source, revision string, want, have client.Object, anew bool) outcome {
	if have == nil {
		return create(ctx, to, revision, want)
	}
	if !belongsTo(have, source) {
		return outcome{err: notOurs(source, want, have)}
	}
	if !have.GetDeletionTimestamp().IsZero() {
		return outcome{deleting: true} // the event of its end has it created
	}
	updated, changed := merge(want, have, revision)
	if !changed {
		return outcome{inSync: have.GetResourceVersion()}
	}
	if !anew && wouldStartAnew(have, updated) {
		return outcome{startsAnew: true}
	}
	err := to.Update(ctx, updated)
	return outcome{changed: err == nil, err: err}
}

func create(ctx context.Context, to client.Writer, revision string, want client.Object) outcome {
	want.GetAnnotations()[v1alpha1.AnnotationSourceRevision] = revision
	if fmc, ok := want.(*v1alpha1.FleetMiniCluster); ok {
		controllerutil.AddFinalizer(fmc, v1alpha1.Finalizer) // saves the FleetMiniCluster controller a write
	}
	err := to.Create(ctx, want)
	if apierrors.IsAlreadyExists(err) {
		name := objectKey(kindOnHub(want), want.GetName())
		err = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource(name).GroupResource(), want.GetName(), err)
	}
	return outcome{changed: err == nil, err: err}
}

// notOurs says whose an object is that a source would write, and how it could.
func notOurs(source string, want, have client.Object) error {
	whose := "was not created by a GitSource"
	if owner := have.GetLabels()[v1alpha1.LabelSource]; owner != "" {
		whose = "belongs to GitSource " + owner
	}
	return &sourceError{v1alpha1.ReasonConflict, fmt.Sprintf("%s %s/%s exists already and %s, which keeps it: rename this one, or hand that one over (kubectl label --overwrite it with %s=%s)",
		kindOnHub(want), want.GetNamespace(), want.GetName(), whose, v1alpha1.LabelSource, source)}
}
