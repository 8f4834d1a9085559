package changes

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// fullCommit is the hash of the commit of inputOf.
const fullCommit = "0123456789abcdef0123456789abcdef01234567"

// newSource is the GitSource hpc/fleet.
func newSource() *v1alpha1.GitSource {
	return &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet", Generation: 1}}
}

// onHub is a FleetMiniCluster on the hub that a source owns, as a file declares it.
func onHub(name, owner, path string) *v1alpha1.FleetMiniCluster {
	return &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "hpc", Name: name, UID: "uid", ResourceVersion: "7",
		Labels:      map[string]string{v1alpha1.LabelSource: owner},
		Annotations: map[string]string{v1alpha1.AnnotationSourcePath: path + "#0", v1alpha1.AnnotationSourceDigest: "d1"},
	}}
}

// hubOf are objects of the hub by their keys.
func hubOf(objects ...Object) Hub {
	out := Hub{}
	for _, o := range objects {
		out[Key(KindOf(o), o.GetName())] = o
	}
	return out
}

func named(names ...string) []parse.Object {
	var out []parse.Object
	for _, name := range names {
		out = append(out, parse.Object{Kind: parse.KindMiniCluster, Name: name, MiniCluster: &fluxv1alpha2.MiniCluster{}})
	}
	return out
}

// inputOf is a commit that declares objects.
func inputOf(source *v1alpha1.GitSource, hub Hub, objects ...parse.Object) Input {
	return Input{Source: source, Commit: v1alpha1.Commit{Hash: fullCommit, Revision: "main@0123456"}, Parsed: parse.Result{Objects: objects}, Hub: hub}
}
