package gitsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
)

// concurrentWrites is how many objects of a source are written at the same time.
const concurrentWrites = 8

// applied is what became of the objects that Git declares, in the order of files, Placements first.
type applied struct {
	changed  []string // KIND/NAME of what was created or updated
	refused  []string // KIND/NAME of what could not be
	deleting []string // KIND/NAME of what is created anew once the deletion of what had its name has ended
	blocked  []string // KIND/NAME of what was not updated, since a person has to approve that it runs anew
	// lacking says that an account lacked a right for some: what they were to replace has to stay.
	lacking bool
	// behind says that the hub refused to update something, which stays as it was.
	behind   bool
	problems []v1alpha1.FileProblem
}

// anyMiniCluster says whether a FleetMiniCluster was created or updated.
func (a *applied) anyMiniCluster() bool {
	return slices.ContainsFunc(a.changed, func(object string) bool { return strings.HasPrefix(object, "FleetMiniCluster/") })
}

// outcome is what became of one object that Git declares.
type outcome struct {
	refusal string // why it could not be applied
	// lacking says that the refusal is about a right that an account lacks.
	lacking bool
	err     error
}

// apply creates and updates what Git declares as planned, Placements first. What the hub refuses is a problem of its
// file; it holds nothing else up.
// Existing is what the hub itself has.
func apply(ctx context.Context, to client.Writer, existing client.Reader, source *v1alpha1.GitSource, plan *changes.Plan) (applied, error) {
	out := applied{deleting: plan.Deleting, blocked: plan.Runs.Keys}
	var errs []error
	for _, group := range writes(plan) {
		outcomes := applyAll(ctx, to, existing, source, group)
		errs = append(errs, out.add(group, outcomes)...)
		if err := errors.Join(errs...); ctx.Err() != nil || cannotAct(err) != nil {
			return out, cmp.Or(cannotAct(err), ctx.Err())
		}
	}
	return out, errors.Join(errs...)
}

// writes are the changes to objects that Git declares, in groups of which one is applied after the other.
func writes(plan *changes.Plan) [2][]*changes.Change {
	var groups [2][]*changes.Change
	for i := range plan.Changes {
		c := &plan.Changes[i]
		if c.Object == nil || c.NeedsApproval {
			continue
		}
		group := 1
		if c.Object.Kind == parse.KindPlacement {
			group = 0
		}
		groups[group] = append(groups[group], c)
	}
	return groups
}

// applyAll applies changes several at a time. It ends early with the context, and where no object can be applied.
func applyAll(ctx context.Context, to client.Writer, existing client.Reader, source *v1alpha1.GitSource, group []*changes.Change) []outcome {
	outcomes := make([]outcome, len(group))
	slots := make(chan struct{}, concurrentWrites)
	var wg sync.WaitGroup
	var futile atomic.Bool
	for i, c := range group {
		if ctx.Err() != nil || futile.Load() {
			for j := i; j < len(group); j++ {
				outcomes[j].err = errNotTried
			}
			break
		}
		slots <- struct{}{}
		wg.Go(func() {
			outcomes[i] = applyOne(ctx, to, existing, source, c)
			if cannotAct(outcomes[i].err) != nil {
				futile.Store(true)
			}
			<-slots
		})
	}
	wg.Wait()
	return outcomes
}

// errNotTried is of objects that come after the error that ends all.
var errNotTried = errors.New("not tried")

// add notes outcomes, and returns the errors of the hub.
func (a *applied) add(group []*changes.Change, outcomes []outcome) []error {
	var errs []error
	for i, c := range group {
		switch result := outcomes[i]; {
		case errors.Is(result.err, errNotTried):
		case result.err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", c.Key, result.err))
		case result.refusal != "":
			a.refused = append(a.refused, c.Key)
			a.problems = append(a.problems, objectProblem(c.Object, "", result.refusal))
			a.lacking = a.lacking || result.lacking
			a.behind = a.behind || c.Want != nil && c.Have != nil
		default:
			a.changed = append(a.changed, c.Key)
		}
	}
	return errs
}

// applyOne is called for several changes at once: it changes nothing that they share.
func applyOne(ctx context.Context, to client.Writer, existing client.Reader, source *v1alpha1.GitSource, c *changes.Change) outcome {
	if c.Action == v1alpha1.ChangeRefuse {
		return outcome{refusal: c.Message}
	}
	err := explained(write(ctx, to, c), source.Namespace)
	if c.Have == nil && apierrors.IsConflict(err) {
		if refusal, readErr := ofOtherShard(ctx, existing, source, c); refusal != "" || readErr != nil {
			return outcome{refusal: refusal, err: readErr}
		}
	}
	if cannotAct(err) == nil && isRefusal(err) {
		return outcome{refusal: err.Error(), lacking: isLacking(err)}
	}
	return outcome{err: err}
}

// ofOtherShard says of an object which exists, but is not in the cache, that it is of another shard than its source; empty if
// it is not.
func ofOtherShard(ctx context.Context, existing client.Reader, source *v1alpha1.GitSource, c *changes.Change) (refusal string, err error) {
	var have metav1.PartialObjectMetadata
	kind := changes.KindOf(c.Want)
	have.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	if err := existing.Get(ctx, client.ObjectKeyFromObject(c.Want), &have); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	is, own := v1alpha1.ShardOf(&have), v1alpha1.ShardOf(source)
	if is == own {
		return "", nil
	}
	return fmt.Sprintf("%s %s/%s exists already and is of %s, and this GitSource of %s: label the GitSource as it was (kubectl label --overwrite -n %s gs %s %s), or the object once it has no live run (kubectl label --overwrite -n %s %s %s %s)",
		kind, have.Namespace, have.Name, v1alpha1.ShardName(is), v1alpha1.ShardName(own), source.Namespace, source.Name, v1alpha1.ShardArgument(is),
		have.Namespace, strings.ToLower(kind), have.Name, v1alpha1.ShardArgument(own)), nil
}

// isRefusal says whether an error is about the object, so that trying again does not help.
func isRefusal(err error) bool {
	return isLacking(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// write creates or updates one object.
func write(ctx context.Context, to client.Writer, c *changes.Change) error {
	if c.Have != nil {
		return to.Update(ctx, c.Want)
	}
	if fmc, ok := c.Want.(*v1alpha1.FleetMiniCluster); ok {
		controllerutil.AddFinalizer(fmc, v1alpha1.Finalizer) // saves the FleetMiniCluster controller a write
	}
	err := to.Create(ctx, c.Want)
	if apierrors.IsAlreadyExists(err) {
		err = apierrors.NewConflict(v1alpha1.GroupVersion.WithResource(c.Key).GroupResource(), c.Want.GetName(), err)
	}
	return err
}
