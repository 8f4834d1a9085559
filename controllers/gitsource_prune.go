package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// prune deletes what this source created and Git no longer declares. What a file with a problem may have
// declared is kept, and when much disappears at once, a person has to approve it.
func (s *gitSync) prune(ctx context.Context, have existing) error {
	if s.source.Spec.Prune != nil && !*s.source.Spec.Prune {
		return nil
	}
	gone, declared := s.left(have)
	if len(gone) == 0 {
		return nil
	}
	if s.needsApproval(len(gone), declared) {
		s.blocked = gone
		return nil
	}
	var errs []error
	for _, key := range gone {
		obj := have[key]
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		err := s.r.Client.Delete(ctx, obj, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("pruning %s: %w", key, err))
			continue
		}
		s.pruned = append(s.pruned, key)
	}
	return errors.Join(errs...)
}

// left returns what has left Git, FleetMiniClusters before Placements, and how many objects Git still
// declares or may declare.
func (s *gitSync) left(have existing) (gone []string, declared int) {
	inGit := map[string]bool{}
	for _, o := range s.tree.parsed.Objects {
		inGit[objectKey(o.Kind, o.Name)] = true
	}
	badFiles := s.badFiles(have)
	for _, key := range slices.Sorted(maps.Keys(have)) {
		obj := have[key]
		if obj.GetLabels()[v1alpha1.LabelSource] != s.source.Name || !obj.GetDeletionTimestamp().IsZero() {
			continue
		}
		if inGit[key] || badFiles[fileOf(obj)] || badFiles[anyFile] {
			declared++
			continue
		}
		gone = append(gone, key)
	}
	return gone, declared
}

// anyFile stands for a new file that cannot be read: what has left its own file may have moved there.
const anyFile = ""

// badFiles are the files with a problem. What they declare is not known, so that nothing may be missed.
func (s *gitSync) badFiles(have existing) map[string]bool {
	known := map[string]bool{}
	for _, path := range s.files(have) {
		known[path] = true
	}
	bad := map[string]bool{}
	for _, p := range s.tree.parsed.Problems {
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

// fileOf is the file in Git that declares a hub object.
func fileOf(obj client.Object) string {
	file := obj.GetAnnotations()[v1alpha1.AnnotationSourcePath]
	if i := strings.LastIndexByte(file, '#'); i >= 0 {
		file = file[:i]
	}
	return file
}

// files maps this source's hub objects to the files that declare them.
func (s *gitSync) files(have existing) map[string]string {
	out := map[string]string{}
	for key, obj := range have {
		if obj.GetLabels()[v1alpha1.LabelSource] == s.source.Name {
			out[key] = fileOf(obj)
		}
	}
	return out
}

// needsApproval says whether a prune is too large to be done unasked: nothing would be left, the path has
// disappeared, or half or more would go at once.
func (s *gitSync) needsApproval(gone, declared int) bool {
	if approved := s.source.Annotations[v1alpha1.AnnotationApprovePrune]; approved != "" &&
		(approved == s.tree.revision || approved == s.tree.commit) {
		return false
	}
	return s.tree.missing != "" || declared == 0 || gone > 1 && gone >= declared
}
