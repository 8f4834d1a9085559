package curvesecret_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/api/flux/curve"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/curvesecret"
)

const manager = "minifleet-system"

var began = metav1.NewTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))

// hub is a hub on which MiniFleet may read the Secrets of its own namespace, and of others where bound is set.
type hub struct {
	client.Client
	store *curvesecret.Store
	bound bool
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	h := &hub{}
	forbidden := func(key client.ObjectKey) error {
		return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, nil)
	}
	note := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: manager, Name: "curve-certificates", CreationTimestamp: began}, Type: curvesecret.Type}
	h.Client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, note)...).
		WithIndex(&corev1.Secret{}, "type", func(client.Object) []string { return []string{string(curvesecret.Type)} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, is := obj.(*corev1.Secret); is && key.Namespace != manager && !h.bound {
					return forbidden(key)
				}
				return c.Get(ctx, key, obj, opts...)
			},
		}).Build()
	h.store = &curvesecret.Store{Client: h.Client, Reader: h.Client, Namespace: manager}
	return h
}

// app is FleetMiniCluster hpc/app, made so long after certificates came to be kept in the manager's namespace.
func app(uid types.UID, after time.Duration) *v1alpha1.FleetMiniCluster {
	return &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "hpc", Name: "app", UID: uid, CreationTimestamp: metav1.NewTime(began.Add(after)),
	}}
}

func certificate(t *testing.T) []byte {
	t.Helper()
	cert, err := curve.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return cert.Encode()
}

// earlier is the Secret that an earlier version made for an object.
func earlier(f *v1alpha1.FleetMiniCluster, cert []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.Namespace, Name: f.Name + ".curve",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(f, v1alpha1.GroupVersion.WithKind("FleetMiniCluster"))},
		},
		Data: map[string][]byte{curvesecret.DataKey: cert},
	}
}

func (h *hub) kept(t *testing.T) *corev1.Secret {
	t.Helper()
	var s corev1.Secret
	key := types.NamespacedName{Namespace: manager, Name: curvesecret.Name(types.NamespacedName{Namespace: "hpc", Name: "app"})}
	if err := h.Get(t.Context(), key, &s); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return &s
}

func TestCertificateIsMadeOnceAndKeptInTheManagersNamespace(t *testing.T) {
	f := app("1", time.Hour)
	h := newHub(t, f)
	if had, err := h.store.Exists(t.Context(), f); had || err != nil {
		t.Errorf("there is one before the first run: %v", err)
	}
	first, err := h.store.Ensure(t.Context(), f, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range []bool{true, false} {
		again, err := h.store.Ensure(t.Context(), f, missing, nil)
		if err != nil || !bytes.Equal(again, first) {
			t.Errorf("another one, with missing %t: %v", missing, err)
		}
	}
	if had, err := h.store.Exists(t.Context(), f); !had || err != nil {
		t.Errorf("it does not exist: %v", err)
	}
	kept := h.kept(t)
	if kept.Annotations[v1alpha1.AnnotationOwner] != "hpc/app" || len(kept.OwnerReferences) > 0 || !*kept.Immutable {
		t.Errorf("got %+v", kept)
	}
	if err := h.store.Delete(t.Context(), f); err != nil || h.kept(t).Name != "" {
		t.Errorf("it stays: %v", err)
	}
}

func TestNamesOfCertificatesDoNotCollide(t *testing.T) {
	names := map[string]bool{}
	for _, key := range []types.NamespacedName{
		{Namespace: "a", Name: "b-c"}, {Namespace: "a-b", Name: "c"}, {Namespace: "a", Name: "b.c"}, {Namespace: "a", Name: strings.Repeat("x", 253)},
	} {
		name := curvesecret.Name(key)
		if names[name] || len(name) > 63 {
			t.Errorf("%s: %s", key, name)
		}
		names[name] = true
	}
}

func TestCertificateOfADeletedObjectIsNotUsedAgain(t *testing.T) {
	f := app("2", time.Hour)
	h := newHub(t, f)
	was, err := h.store.Ensure(t.Context(), app("1", time.Hour), true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if had, err := h.store.Exists(t.Context(), f); !had || err != nil {
		t.Errorf("that of an earlier one, which may run, does not count: %v", err)
	}
	now, err := h.store.Ensure(t.Context(), f, true, nil)
	if err != nil || bytes.Equal(was, now) || h.kept(t).Annotations[v1alpha1.AnnotationOwnerUID] != "2" {
		t.Errorf("the key of an earlier object is used: %v", err)
	}
	// A cache that is behind has nothing replaced that the object on the hub uses.
	if _, err := h.store.Ensure(t.Context(), app("1", time.Hour), false, nil); err == nil || !bytes.Equal(h.kept(t).Data[curvesecret.DataKey], now) {
		t.Errorf("got %v", err)
	}
	if err := h.store.Delete(t.Context(), app("1", time.Hour)); err != nil || h.kept(t).Name == "" {
		t.Errorf("the successor's was deleted: %v", err)
	}
}

func TestCertificateThatAnEarlierObjectHasLeftIsDeletedWithItsSuccessor(t *testing.T) {
	f := app("2", time.Hour)
	h := newHub(t, f)
	if _, err := h.store.Ensure(t.Context(), app("1", time.Hour), true, nil); err != nil {
		t.Fatal(err)
	}
	if kept, err := h.store.Kept(t.Context(), f); !kept || err != nil {
		t.Errorf("it is not there: %v", err)
	}
	if err := h.store.Delete(t.Context(), f); err != nil || h.kept(t).Name != "" {
		t.Errorf("it was left again: %v", err)
	}
}

// Whoever takes a name asks for a certificate under it, unless that was deleted with the FleetMiniCluster that had the name.
func TestWhatMayBeLeft(t *testing.T) {
	first, name := app("1", time.Hour), client.ObjectKeyFromObject(app("1", time.Hour))
	all := func() bool { return true }
	h := newHub(t)
	may := func(want bool, when string) {
		t.Helper()
		if h.store.MayBeLeft(name) != want {
			t.Errorf("%s: %t", when, !want)
		}
	}
	collect := func(stays int, allAsked func() bool) {
		t.Helper()
		if stay, err := h.store.Collect(t.Context(), allAsked); stay != stays || err != nil {
			t.Errorf("%d stay: %v", stay, err)
		}
	}
	may(true, "before any was listed")
	collect(0, all)
	may(false, "there is none")
	if _, err := h.store.Ensure(t.Context(), first, true, nil); err != nil {
		t.Fatal(err)
	}
	collect(1, func() bool { return false })
	if h.kept(t).Name == "" {
		t.Error("it was deleted although a member cannot be asked")
	}
	may(true, "its FleetMiniCluster is no more")
	collect(0, all)
	collect(0, all)
	may(false, "it was deleted")

	h.store.Deleted(name, "1")
	may(true, "the finalizer was taken off since")
	collect(0, all)
	may(false, "there was no certificate then")

	if _, err := h.store.Ensure(t.Context(), first, true, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	h.store.Deleted(name, "1")
	may(false, "it was deleted with its FleetMiniCluster")
}

func TestCollectDeletesWhatNobodyOwns(t *testing.T) {
	for name, tc := range map[string]struct {
		there *v1alpha1.FleetMiniCluster
		stays bool
	}{
		"the object is there":     {there: app("1", time.Hour), stays: true},
		"it was deleted":          {},
		"it was created anew":     {there: app("2", time.Hour), stays: true}, // until it runs
		"it is of another's name": {there: &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "app", UID: "1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tc.there != nil {
				objects = append(objects, tc.there)
			}
			h := newHub(t, objects...)
			if _, err := h.store.Ensure(t.Context(), app("1", time.Hour), true, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := h.store.Collect(t.Context(), func() bool { return true }); err != nil || (h.kept(t).Name != "") != tc.stays {
				t.Errorf("stays: %t, %v", h.kept(t).Name != "", err)
			}
			if err := h.store.Begin(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// What an earlier version has left is found by the age of the object.
func TestCertificatesOfAnEarlierVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		after         time.Duration
		there, bound  bool
		had           bool // as Exists says
		old, onMember bool // where the certificate is from
	}{
		"an object of today, whose namespace cannot be read":          {after: time.Second},
		"an older one, whose certificate cannot be read":              {after: -time.Hour, there: true, had: true, onMember: true},
		"an older one without any, whose namespace cannot be read":    {after: -time.Hour, had: true, onMember: true},
		"one of the same second":                                      {had: true, onMember: true},
		"an older one, whose certificate can be read":                 {after: -time.Hour, there: true, bound: true, had: true, old: true},
		"an older one without any, and that can be seen":              {after: -time.Hour, bound: true, onMember: true},
		"one of today, beside a Secret that somebody has named alike": {after: time.Hour, there: true, bound: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := app("1", tc.after)
			old, onMember := certificate(t), certificate(t)
			objects := []client.Object{f}
			if tc.there {
				objects = append(objects, earlier(f, old))
			}
			h := newHub(t, objects...)
			h.bound = tc.bound
			if had, err := h.store.Exists(t.Context(), f); had != tc.had || err != nil {
				t.Errorf("exists: %t, %v", had, err)
			}
			got, err := h.store.Ensure(t.Context(), f, true, func(context.Context) []byte { return onMember })
			if err != nil || bytes.Equal(got, old) != tc.old || bytes.Equal(got, onMember) != tc.onMember {
				t.Errorf("got the old one: %t, that of the member: %t, %v", bytes.Equal(got, old), bytes.Equal(got, onMember), err)
			}
			if !bytes.Equal(h.kept(t).Data[curvesecret.DataKey], got) {
				t.Error("it is not kept")
			}
			h.bound = true
			err = h.Get(t.Context(), client.ObjectKeyFromObject(earlier(f, old)), &corev1.Secret{})
			if there := err == nil; there != (tc.there && !tc.old) {
				t.Errorf("that of the earlier version is there: %t", there)
			}
			if had, err := h.store.Exists(t.Context(), f); !had || err != nil {
				t.Errorf("exists: %t, %v", had, err)
			}
		})
	}
}

func TestWhatAMemberHasIsOnlyTakenIfItIsACertificate(t *testing.T) {
	f := app("1", -time.Hour)
	h := newHub(t, f)
	for _, text := range []string{"", "no certificate"} {
		got, err := h.store.Ensure(t.Context(), f, true, func(context.Context) []byte { return []byte(text) })
		if _, parseErr := curve.Parse(got); err != nil || parseErr != nil {
			t.Errorf("%q: %v, %v", text, err, parseErr)
		}
	}
}

func TestASecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	f := app("1", time.Hour)
	name := curvesecret.Name(client.ObjectKeyFromObject(f))
	h := newHub(t, f, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: manager, Name: name}})
	if _, err := h.store.Ensure(t.Context(), f, true, nil); err == nil || !strings.Contains(err.Error(), manager+"/"+name) {
		t.Errorf("got %v", err)
	}
	if err := h.store.Delete(t.Context(), f); err == nil {
		t.Error("it was deleted")
	}
}
