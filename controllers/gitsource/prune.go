package gitsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// pruned is what became of hub objects (KIND/NAME) that Git no longer declares.
type pruned struct {
	deleted []string
	blocked []string // what would be deleted if somebody approved it
	pending []string // what was deleted before, and is there until its deletion has ended
	// problems are those of what could not be deleted.
	problems []v1alpha1.FileProblem
}

// prune deletes what this source created and Git no longer declares. What a file with a problem may have
// declared is kept, and when much disappears at once, a person has to approve it.
//
// Placements of what waits for approval to run anew are kept: it is on the hub as it was, and refers to them.
func prune(ctx context.Context, to client.Writer, source *v1alpha1.GitSource, t *tree, have hubObjects, done applied) (pruned, error) {
	if source.Spec.Prune != nil && !*source.Spec.Prune {
		return pruned{}, nil
	}
	if done.lacking {
		return pruned{}, nil // what could not be created may be what replaces it
	}
	undeclared, pending, declared := split(have, source.Name, t.parsed)
	used := have.placementsOf(done.blocked)
	undeclared = slices.DeleteFunc(undeclared, func(key string) bool { return used[key] })
	if len(undeclared) == 0 {
		return pruned{pending: pending}, nil
	}
	if needsApproval(source.Annotations[v1alpha1.AnnotationApprovePrune], t, len(undeclared), declared) {
		return pruned{blocked: undeclared, pending: pending}, nil
	}
	out, err := deleteAll(ctx, to, undeclared, have)
	out.pending = pending
	return out, err
}

// deleteAll deletes objects as they were read, and none that was edited or replaced since.
func deleteAll(ctx context.Context, to client.Writer, keys []string, have hubObjects) (out pruned, err error) {
	var errs []error
	for _, key := range keys {
		obj := have[key]
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		err := to.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version})
		err = explained(err, obj.GetNamespace())
		if denied := cannotAct(err); denied != nil || ctx.Err() != nil {
			return out, cmp.Or(denied, ctx.Err())
		}
		if isLacking(err) {
			out.problems = append(out.problems, fileProblem(fileOf(obj), 0, key, "", "is no longer declared, and could not be deleted: "+err.Error()))
			continue
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("pruning %s: %w", key, err))
			continue
		}
		out.deleted = append(out.deleted, key)
	}
	return out, errors.Join(errs...)
}

// split finds the objects of a source that Git no longer declares, FleetMiniClusters before Placements, those of them
// that are being deleted apart (pending), and how many it still declares or may declare.
func split(have hubObjects, source string, parsed parse.Result) (undeclared, pending []string, declared int) {
	inGit := map[string]bool{}
	for _, o := range parsed.Objects {
		inGit[objectKey(o.Kind, o.Name)] = true
	}
	bad := badFiles(parsed.Problems, have.filesOf(source))
	for _, key := range slices.Sorted(maps.Keys(have)) {
		obj := have[key]
		if !belongsTo(obj, source) {
			continue
		}
		deleting, mayBeInGit := !obj.GetDeletionTimestamp().IsZero(), inGit[key] || bad[fileOf(obj)] || bad[anyFile]
		switch {
		case deleting && !mayBeInGit:
			pending = append(pending, key)
		case deleting:
		case mayBeInGit:
			declared++
		default:
			undeclared = append(undeclared, key)
		}
	}
	return undeclared, pending, declared
}

// anyFile stands for a new file that cannot be read: what is no longer in its own file may have moved there.
const anyFile = ""

// badFiles are the files with a problem. What they declare is not known, so that nothing may be missed. files
// are those that hub objects come from.
func badFiles(problems []parse.Problem, files map[string]string) map[string]bool {
	known := map[string]bool{}
	for _, path := range files {
		known[path] = true
	}
	bad := map[string]bool{}
	for _, p := range problems {
		if p.Warning {
			continue
		}
		bad[p.Path] = true
		if !known[p.Path] {
			bad[anyFile] = true
		}
	}
	return bad
}

// needsApproval says whether a prune is too large to be done unasked: nothing would be left, the path has
// disappeared, or half or more would be deleted at once. It is not if the commit is approved.
func needsApproval(approved string, t *tree, undeclared, declared int) bool {
	if isApproved(approved, t) {
		return false
	}
	return t.pathProblem != "" || declared == 0 || undeclared > 1 && undeclared >= declared
}

// isApproved says whether what a person has approved is this tree, by the full hash of its commit. Part of a hash is no
// approval: whoever can push can make another commit that begins so.
func isApproved(approved string, t *tree) bool {
	return isFullHash(approved) && approved == t.commit
}

func isFullHash(s string) bool { return fullHash.MatchString(s) }

var fullHash = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
