package changes

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// Merge returns the object as it should be. Labels are Git's; annotations of others are kept. The commit is named that
// last changed the object, so that other commits cause no write. So does the UID of the source, where none is there:
// objects from before it was noted are not all written at once.
func Merge(want, have Object, commit v1alpha1.Commit) (merged Object, changed bool) {
	out := have.DeepCopyObject().(Object) //nolint:forcetypeassert // a copy has the type of its original
	out.SetLabels(mergeLabels(want.GetLabels(), have.GetLabels()))
	sameSource := have.GetAnnotations()[v1alpha1.AnnotationSourceDigest] == want.GetAnnotations()[v1alpha1.AnnotationSourceDigest]
	out.SetAnnotations(mergeAnnotations(want.GetAnnotations(), have.GetAnnotations(), sameSource, &commit))
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
	changed = !equality.Semantic.DeepEqual(out, have)
	if uid := want.GetAnnotations()[v1alpha1.AnnotationSourceUID]; uid != "" {
		out.GetAnnotations()[v1alpha1.AnnotationSourceUID] = uid
	}
	return out, changed
}

// mergeLabels are Git's. That something is not to be pruned stays, if a person says so, and that it was put back from a
// backup: Git is applied before members were asked what it has run.
func mergeLabels(want, have map[string]string) map[string]string {
	out := want
	for _, key := range []string{v1alpha1.AnnotationPrune, v1alpha1.LabelVeleroRestore} {
		if value, is := have[key]; is {
			out = maps.Clone(out)
			out[key] = value
		}
	}
	return out
}

// suspendIsOthers says whether spec.suspend is for people to set: Git does not declare it, and has not set what is
// there.
func suspendIsOthers(want, have Object) bool {
	_, declared := want.GetAnnotations()[v1alpha1.AnnotationSourceSuspend]
	return !declared && have.GetAnnotations()[v1alpha1.AnnotationSourceSuspend] != "true"
}

func mergeAnnotations(want, have map[string]string, sameSource bool, commit *v1alpha1.Commit) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	token, asked := out[v1alpha1.AnnotationRerunAt]
	delete(out, v1alpha1.AnnotationSourceSuspend) // unless Git still declares it
	delete(out, v1alpha1.AnnotationSourcePrune)
	_, noted := have[v1alpha1.AnnotationSourceUID]
	maps.Copy(out, want)
	if !noted {
		delete(out, v1alpha1.AnnotationSourceUID)
	}
	if sameSource && asked {
		out[v1alpha1.AnnotationRerunAt] = token // somebody asked after Git did
	}
	if !sameSource {
		annotateCommit(out, commit)
	}
	return out
}

// annotateCommit names the commit that has changed an object.
func annotateCommit(annotations map[string]string, commit *v1alpha1.Commit) {
	annotations[v1alpha1.AnnotationSourceRevision] = commit.Revision
	for key, value := range map[string]string{
		v1alpha1.AnnotationSourceCommit: commit.Hash, v1alpha1.AnnotationSourceAuthor: commit.Author, v1alpha1.AnnotationSourceSubject: commit.Subject,
	} {
		if value == "" {
			delete(annotations, key) // that of an earlier commit
			continue
		}
		annotations[key] = value
	}
}

// scalable says whether a size that differs from Git's came from `kubectl scale` and is to stay: the
// MiniCluster is elastic, and the size is within its bounds. The next commit that changes the MiniCluster
// sets the size again.
func scalable(o *v1alpha1.FleetMiniCluster, size int32) bool {
	mc := &o.Spec.MiniCluster
	return mc.MaxSize > 0 && size >= max(mc.MinSize, 1) && size <= mc.MaxSize
}
