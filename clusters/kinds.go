package clusters

import (
	"path"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kind is a kind of object that MiniFleet creates on members. All that depends on the kind follows from its line in
// owned: what the caches hold and watch, the REST mapping, the rights that a connection is checked for and those in
// config/member, what is cleaned up and in which order, and which refusals cast doubt on a connection.
type kind struct {
	gvk  schema.GroupVersionKind
	verb []string // what a role on a member has to allow
	// object and list make empty ones.
	object func() client.Object
	list   func() client.ObjectList
	// runs says that the kind is pods or makes some. Pods that still run may need all else, which is deleted when
	// there is nothing more of these kinds.
	runs bool
}

var (
	writable = []string{"get", "list", "watch", "create", "patch", "delete"}

	// owned are the kinds that MiniFleet creates on members, in the order in which they are cleaned up. The caches
	// hold of these only objects with our label, so that memory does not depend on what else the member holds. Of
	// Pods these are the ones that MiniFleet creates itself, for services: those of Jobs do not bear the label.
	owned = []kind{
		{
			gvk: batchv1.SchemeGroupVersion.WithKind("Job"), verb: writable, runs: true,
			object: func() client.Object { return &batchv1.Job{} }, list: func() client.ObjectList { return &batchv1.JobList{} },
		},
		{
			gvk: corev1.SchemeGroupVersion.WithKind("Pod"), verb: []string{"get", "list", "watch", "create", "delete"}, runs: true,
			object: func() client.Object { return &corev1.Pod{} }, list: func() client.ObjectList { return &corev1.PodList{} },
		},
		{
			gvk: corev1.SchemeGroupVersion.WithKind("Service"), verb: writable,
			object: func() client.Object { return &corev1.Service{} }, list: func() client.ObjectList { return &corev1.ServiceList{} },
		},
		{
			gvk: corev1.SchemeGroupVersion.WithKind("ConfigMap"), verb: writable,
			object: func() client.Object { return &corev1.ConfigMap{} }, list: func() client.ObjectList { return &corev1.ConfigMapList{} },
		},
		{
			gvk: corev1.SchemeGroupVersion.WithKind("Secret"), verb: writable,
			object: func() client.Object { return &corev1.Secret{} }, list: func() client.ObjectList { return &corev1.SecretList{} },
		},
	}
)

// other is a use of a kind that MiniFleet does not own.
type other struct {
	gvk   schema.GroupVersionKind
	scope meta.RESTScope
	name  string // of the only object that is used; empty for any
	sub   string // the subresource that is used; empty for the objects themselves
	// all and confined are what roles have to allow: one for all namespaces, and one that is bound in single namespaces.
	// With is what the latter takes besides for the whole cluster, where that can be had.
	all, confined, with []string
}

var others = []other{
	// What pods of runs have said, for those who ask for it on the hub.
	{gvk: corev1.SchemeGroupVersion.WithKind("Pod"), scope: meta.RESTScopeNamespace, sub: "log", all: []string{"get"}, confined: []string{"get"}},
	// Why pods are not created or do not start.
	{gvk: corev1.SchemeGroupVersion.WithKind("Event"), scope: meta.RESTScopeNamespace, all: []string{"list"}, confined: []string{"list"}},
	// Namespaces that are missing; labels of those that are there, and the identity of one where there is no more.
	{gvk: corev1.SchemeGroupVersion.WithKind("Namespace"), scope: meta.RESTScopeRoot, all: []string{"create", "get"}, confined: []string{"get"}},
	// The identity of the cluster.
	{gvk: corev1.SchemeGroupVersion.WithKind("Namespace"), scope: meta.RESTScopeRoot, name: identityNamespace, with: []string{"get"}},
	// Room.
	{gvk: corev1.SchemeGroupVersion.WithKind("Node"), scope: meta.RESTScopeRoot, all: []string{"list", "watch"}},
}

// identityNamespace is the namespace whose UID identifies a cluster.
const identityNamespace = "kube-system"

// OwnedKinds returns an empty object of each kind that MiniFleet creates on members, and that the caches of a Member
// hold.
func OwnedKinds() []client.Object {
	out := make([]client.Object, len(owned))
	for i, k := range owned {
		out[i] = k.object()
	}
	return out
}

// resourceOf is the name of a kind in URLs and roles.
func resourceOf(gvk schema.GroupVersionKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return plural.Resource
}

// restMapper knows the few kinds that are used on members, so that no discovery is needed, which a sick
// member answers slowly. It is the same for all members.
var restMapper = sync.OnceValue(newRESTMapper)

func newRESTMapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion, batchv1.SchemeGroupVersion, authorizationv1.SchemeGroupVersion})
	m.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"), meta.RESTScopeRoot)
	for _, k := range owned {
		m.Add(k.gvk, meta.RESTScopeNamespace)
		// The cache of a single namespace asks about lists, too.
		m.Add(k.gvk.GroupVersion().WithKind(k.gvk.Kind+"List"), meta.RESTScopeNamespace)
	}
	for _, o := range others {
		if o.sub == "" {
			m.Add(o.gvk, o.scope)
		}
	}
	return m
}

// isOwnedList says whether the path of a request is that of a list of an owned kind.
func isOwnedList(urlPath string) bool {
	last := path.Base(urlPath)
	for _, k := range owned {
		if last == resourceOf(k.gvk) {
			return true
		}
	}
	return false
}
