package identity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// hub is one that counts its writes; conflicts is how many of them are refused first.
type hub struct {
	client.Client
	writes, conflicts int
}

func (h *hub) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	h.writes++
	if h.conflicts > 0 {
		h.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, obj.GetName(), errors.New("changed"))
	}
	return h.Client.Update(ctx, obj, opts...)
}

func newHub(t *testing.T, objects ...client.Object) *hub {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "hub-uid"}}
	return &hub{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, system)...).
		WithStatusSubresource(&v1alpha1.MemberCluster{}).Build()}
}

func load(t *testing.T, h *hub) (*Identity, error) {
	t.Helper()
	return Load(t.Context(), Options{
		Reader: h, Writer: h, Namespace: "minifleet-system", Recorder: events.NewFakeRecorder(10), Log: logr.Discard(),
		Now: func() time.Time { return noon },
	})
}

func mustLoad(t *testing.T, h *hub) *Identity {
	t.Helper()
	i, err := load(t, h)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: "minifleet-fleet"}, Data: data}
}

func dataOf(t *testing.T, h *hub) map[string]string {
	t.Helper()
	cm := configMap(nil)
	if err := h.Get(t.Context(), client.ObjectKeyFromObject(cm), cm); err != nil {
		t.Fatal(err)
	}
	return cm.Data
}

func memberCluster(name, uid string) *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.MemberClusterStatus{ClusterUID: uid}}
}

func TestLoad(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		id      string // "" for a random one
		data    map[string]string
		unasked []string
	}{
		"a new fleet":               {nil, "", map[string]string{"epoch": "1", "members": ""}, nil},
		"members never reached":     {[]client.Object{memberCluster("a", "")}, "", map[string]string{"epoch": "1", "members": ""}, nil},
		"one that had no ConfigMap": {[]client.Object{memberCluster("a", "u"), memberCluster("b", "")}, "hub-uid", map[string]string{"epoch": "1", "members": "a u 1\n"}, nil},
		"the identity alone":        {[]client.Object{configMap(map[string]string{"id": "carried"})}, "carried", map[string]string{}, nil},
		"another hub's": {
			[]client.Object{configMap(map[string]string{"id": "carried", "epoch": "2", "members": "a u 1\nb v 2\n"})},
			"carried", map[string]string{"epoch": "2", "members": "a u 1\nb v 2\n"}, []string{"a"},
		},
		"another hub's, without members": {
			[]client.Object{configMap(map[string]string{"id": "carried", "epoch": "2"}), memberCluster("a", ""), memberCluster("b", "v")},
			"carried", map[string]string{"epoch": "2", "members": "a - 0\nb v 0\n"}, []string{"a", "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, c.objects...)
			i := mustLoad(t, h)
			data := dataOf(t, h)
			if data["id"] != i.FleetID() || c.id != "" && c.id != i.FleetID() || c.id == "" && len(i.FleetID()) != 36 {
				t.Errorf("id %q, data %q, want %q", i.FleetID(), data["id"], c.id)
			}
			delete(data, "id")
			if diff := cmp.Diff(c.data, data); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.unasked, i.Unasked()); diff != "" {
				t.Error(diff)
			}
			if again := mustLoad(t, h); again.FleetID() != i.FleetID() || again.UID() != "hub-uid" {
				t.Errorf("after a restart %s %s", again.FleetID(), again.UID())
			}
		})
	}
}

func TestLoadNamesWhatIsWrong(t *testing.T) {
	_, err := load(t, newHub(t, configMap(map[string]string{"id": "f", "epoch": "second"})))
	if err == nil || !strings.Contains(err.Error(), "ConfigMap minifleet-system/minifleet-fleet") || !strings.Contains(err.Error(), "data.epoch") {
		t.Errorf("error %v", err)
	}
}

func TestLoadRefusesWhatIsBeingRestored(t *testing.T) {
	half := configMap(map[string]string{"id": "f", "epoch": "2", "restoring": "abc"})
	velero := configMap(map[string]string{"id": "f", "epoch": "2"})
	velero.Labels = map[string]string{"velero.io/restore-name": "nightly-1"}
	for name, c := range map[string]struct {
		cm   *corev1.ConfigMap
		want string
	}{
		"not all of it is there": {half, "data.restoring"},
		"Velero has put it back": {velero, `{"metadata":{"labels":{"velero.io/restore-name":null}},"data":{"epoch":"3"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, c.cm)
			if _, err := load(t, h); err == nil || !strings.Contains(err.Error(), c.want) || h.writes > 0 {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A process may wait for the lease while a backup is restored, or the epoch raised.
func TestLeadReadsTheIdentityAgain(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile map[string]string
		want      string // empty: it leads
	}{
		"nothing has changed":     {map[string]string{"id": "f", "epoch": "2"}, ""},
		"the epoch was raised":    {map[string]string{"id": "f", "epoch": "3"}, "from 2 to 3"},
		"a backup is restored":    {map[string]string{"id": "f", "epoch": "2", "restoring": "abc"}, "data.restoring"},
		"it is of another fleet":  {map[string]string{"id": "g", "epoch": "2"}, `from "f" to "g"`},
		"a member was registered": {map[string]string{"id": "f", "epoch": "2", "members": "a u 1\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t, configMap(map[string]string{"id": "f", "epoch": "2"}))
			i := mustLoad(t, h)
			lead := i.Lead()
			waiting, cancel := context.WithCancel(t.Context())
			cancel()
			if err := i.Enroll(waiting, "a", "u", 2); !errors.Is(err, context.Canceled) {
				t.Errorf("a member is used before this process leads: %v", err)
			}
			cm := configMap(c.meanwhile)
			if err := h.Client.Update(t.Context(), cm); err != nil {
				t.Fatal(err)
			}
			err := lead.Start(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("error %v", err)
			}
			if c.want != "" {
				if err := i.Enroll(waiting, "a", "u", 2); err == nil {
					t.Error("a member is used all the same")
				}
				return
			}
			if err := i.Enroll(t.Context(), "a", "u", 2); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConnected(t *testing.T) {
	h := newHub(t, configMap(map[string]string{"id": "f", "epoch": "2", "members": "a u 1\nb v 1\n"}))
	i, told := mustLoad(t, h), 0
	i.OnChange(func() { told++ })
	connect := func(member string) {
		t.Helper()
		if err := i.Connected(t.Context(), member, "u", 2); err != nil {
			t.Fatal(err)
		}
	}
	h.conflicts = 2
	connect("a")
	if h.writes != 3 || told != 1 {
		t.Errorf("%d writes, told %d times", h.writes, told)
	}
	connect("a")
	if h.writes != 3 || told != 1 {
		t.Errorf("the same again: %d writes, told %d times", h.writes, told)
	}
	connect("new")
	if told != 1 {
		t.Error("a new member was never unasked")
	}
	if diff := cmp.Diff("a u 2\nb v 1\nnew u 2\n", dataOf(t, h)["members"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b"}, i.Unasked()); diff != "" {
		t.Error(diff)
	}
	i.Declare("b", true)
	if i.Unasked() != nil || told != 2 {
		t.Errorf("unasked %v, told %d times", i.Unasked(), told)
	}
	if err := errors.Join(i.Forget(t.Context(), "b"), i.Forget(t.Context(), "b"), i.Forget(t.Context(), "unknown")); err != nil || h.writes != 5 {
		t.Errorf("%v, %d writes", err, h.writes)
	}
}

func TestEnroll(t *testing.T) {
	h := newHub(t, configMap(map[string]string{"id": "f", "epoch": "2", "members": "a u 1\n"}))
	i := mustLoad(t, h)
	for range 2 {
		for _, member := range []string{"a", "new"} {
			if err := i.Enroll(t.Context(), member, "v", 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff("a u 1\nnew v 2\n", dataOf(t, h)["members"]); diff != "" || h.writes != 1 {
		t.Errorf("%d writes %s", h.writes, diff)
	}
	if diff := cmp.Diff([]string{"a"}, i.Unasked()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "new"}, i.Members()); diff != "" {
		t.Error(diff)
	}
}

func TestWhatPeopleChangeStays(t *testing.T) {
	h := newHub(t, configMap(map[string]string{"id": "f", "epoch": "2", "members": "a u 1\n"}))
	i := mustLoad(t, h)
	edited := configMap(nil)
	if err := h.Get(t.Context(), client.ObjectKeyFromObject(edited), edited); err != nil {
		t.Fatal(err)
	}
	edited.Data = map[string]string{"id": "f", "epoch": "3", "members": "", "note": "kept"}
	if err := h.Client.Update(t.Context(), edited); err != nil {
		t.Fatal(err)
	}
	i.read = noon.Add(-time.Hour)
	if again, err := i.Refresh(t.Context()); err != nil || again == 0 {
		t.Fatalf("%v %v", again, err)
	}
	if i.Unasked() != nil || i.Epoch() != 2 {
		t.Errorf("unasked %v in epoch %d", i.Unasked(), i.Epoch())
	}
	if err := i.Connected(t.Context(), "b", "v", 2); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"id": "f", "epoch": "3", "members": "b v 2\n", "note": "kept"}
	if diff := cmp.Diff(want, dataOf(t, h)); diff != "" {
		t.Error(diff)
	}
}

func TestRaise(t *testing.T) {
	h := newHub(t, configMap(map[string]string{"id": "f", "members": "a u 1\n"}))
	i := mustLoad(t, h)
	if err := i.Raise(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if i.Epoch() != 4 || dataOf(t, h)["epoch"] != "4" || len(i.Unasked()) != 1 {
		t.Errorf("epoch %d, %v, unasked %v", i.Epoch(), dataOf(t, h), i.Unasked())
	}
	if err := i.Raise(t.Context(), 3); err != nil || i.Epoch() != 4 {
		t.Errorf("%v, epoch %d", err, i.Epoch())
	}
}

func TestDeletedConfigMapIsMadeAnew(t *testing.T) {
	h := newHub(t, configMap(map[string]string{"id": "f", "epoch": "2", "members": "a u 2\n"}))
	i := mustLoad(t, h)
	if err := h.Delete(t.Context(), configMap(nil)); err != nil {
		t.Fatal(err)
	}
	if err := i.Connected(t.Context(), "b", "v", 2); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"id": "f", "epoch": "2", "members": "a u 2\nb v 2\n"}, dataOf(t, h)); diff != "" {
		t.Error(diff)
	}
}

func TestAnotherFleetsConfigMapIsNotChanged(t *testing.T) {
	h := newHub(t, configMap(map[string]string{"id": "f"}))
	i := mustLoad(t, h)
	other := configMap(nil)
	if err := h.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
		t.Fatal(err)
	}
	other.Data["id"] = "g"
	if err := h.Client.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := i.Connected(t.Context(), "b", "v", 1); err == nil || h.writes != 0 {
		t.Errorf("%v, %d writes", err, h.writes)
	}
}
