package backup

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out, err := decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: out}
}

const (
	member = `{apiVersion: minifleet.dev/v1alpha1, kind: MemberCluster, metadata: {name: alpine, uid: u1, resourceVersion: "7", generation: 3,
  annotations: {minifleet.dev/gone: "2026-01-01T00:00:00Z", minifleet.dev/drain: "true"}, finalizers: [minifleet.dev/cleanup, example.org/other],
  ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: x}], managedFields: [{manager: m}]},
  spec: {kubeconfigSecretRef: {name: alpine}}, status: {observedGeneration: 3, clusterUID: c1, identity: {server: "https://a"}, version: v1.36.4,
  orphans: [{uid: o1}, {uid: o2}], unownedJobs: [{name: j}], conditions: [{type: Ready}]}}`
	run = `{apiVersion: minifleet.dev/v1alpha1, kind: FleetMiniCluster, metadata: {name: lammps, namespace: hpc, uid: u2,
  annotations: {minifleet.dev/source-uid: s1, minifleet.dev/hold: "true"}},
  spec: {miniCluster: {size: 4, command: "line one\n---\nline two\n"}}, status: {observedGeneration: 2, runs: [{id: "0123456789", attempt: 1}], conditions: [{type: Ready, observedGeneration: 2}]}}`
)

func made(t *testing.T, objects ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Header{FleetID: "f", Epoch: 2, Program: "v9"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range objects {
		if err := w.Add(object(t, text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	file := made(t, member, run)
	var got []*unstructured.Unstructured
	header, checksum, err := Read(bytes.NewReader(file), func(obj *unstructured.Unstructured) error {
		got = append(got, obj)
		return nil
	})
	if err != nil || header.FleetID != "f" || header.Epoch != 2 || len(checksum) != 64 {
		t.Fatalf("%v %+v %q", err, header, checksum)
	}
	if diff := cmp.Diff([]*unstructured.Unstructured{object(t, member), object(t, run)}, got); diff != "" {
		t.Error(diff)
	}
	if again := made(t, member, run); !bytes.Equal(file, again) {
		t.Error("the same objects make another file")
	}
}

// What is in an object is read as it was, whatever it is.
func TestEveryTextIsRead(t *testing.T) {
	for name, text := range map[string]string{
		"steers a terminal": "\x1b[2J\u009b31m\u202e", "a separator": "---\n", "separators": "a\n---\n---\nb", "spaces first": "  a\n b\n\n", "line ends": "a\r\nb\r",
		"a word": "yes", "a number": "0123", "a time": "2026-01-01T00:00:00Z", "tabs": "\ta\n\t", "a merge": "<<", "beyond": "\U0001F600\ufeff\u2028",
	} {
		t.Run(name, func(t *testing.T) {
			obj := object(t, run)
			if err := unstructured.SetNestedField(obj.Object, text, "spec", "text"); err != nil {
				t.Fatal(err)
			}
			obj.SetAnnotations(map[string]string{text: text})
			var b bytes.Buffer
			w, err := NewWriter(&b, Header{})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Add(obj), w.Close()); err != nil {
				t.Fatal(err)
			}
			var got *unstructured.Unstructured
			if _, _, err := Read(&b, func(o *unstructured.Unstructured) error { got = o; return nil }); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(obj, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDamage(t *testing.T) {
	file := made(t, member, run)
	cut := func(n int) []byte { return file[:len(file)-n] }
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":                      {nil, "no backup"},
		"something else":             {[]byte("apiVersion: v1\nkind: Secret\n"), "no backup"},
		"cut within the last":        {cut(30), "damaged"},
		"without its last document":  {file[:bytes.LastIndex(file, separator)], "ends before its last document"},
		"half of it":                 {file[:len(file)/2], "damaged"},
		"a byte changed":             {bytes.Replace(file, []byte("size: 4"), []byte("size: 5"), 1), "its checksum is"},
		"an epoch changed":           {bytes.Replace(file, []byte("epoch: 2"), []byte("epoch: 1"), 1), "its checksum is"},
		"something appended":         {append(bytes.Clone(file), "---\nkind: Secret\n"...), "damaged"},
		"of a newer format":          {bytes.Replace(file, []byte("format: 1"), []byte("format: 2"), 1), "formats up to 1"},
		"an object without its name": {bytes.Replace(file, []byte("  name: lammps\n"), nil, 1), "no name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Read(bytes.NewReader(c.file), func(*unstructured.Unstructured) error { return nil })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			if strings.Contains(c.want, "damaged") && !errors.Is(err, ErrDamaged) {
				t.Errorf("%v is not ErrDamaged", err)
			}
		})
	}
}

func TestKeepAndPrepare(t *testing.T) {
	kept := Keep(object(t, member))
	if diff := cmp.Diff([]string{"minifleet.dev/cleanup"}, kept.GetFinalizers()); diff != "" || len(kept.GetOwnerReferences()) > 0 || kept.GetUID() != "u1" {
		t.Errorf("%s %v", diff, kept.Object["metadata"])
	}
	r := Prepare(kept, nil)
	want := object(t, `{apiVersion: minifleet.dev/v1alpha1, kind: MemberCluster, metadata: {name: alpine, annotations: {minifleet.dev/drain: "true"}, finalizers: [minifleet.dev/cleanup]},
  spec: {kubeconfigSecretRef: {name: alpine}}, status: {clusterUID: c1, identity: {server: "https://a"}}}`)
	if diff := cmp.Diff(want, r.Object); diff != "" || len(r.LeftOut) != 2 {
		t.Errorf("%q %s", r.LeftOut, diff)
	}
}

func TestPrepareOfARun(t *testing.T) {
	r := Prepare(Keep(object(t, run)), Sources{"s1": types.UID("s2")})
	want := object(t, `{apiVersion: minifleet.dev/v1alpha1, kind: FleetMiniCluster, metadata: {name: lammps, namespace: hpc, annotations: {minifleet.dev/source-uid: s2, minifleet.dev/hold: "true"}},
  spec: {miniCluster: {size: 4, command: "line one\n---\nline two\n"}}, status: {runs: [{id: "0123456789", attempt: 1}], conditions: [{type: Ready}]}}`)
	if diff := cmp.Diff(want, r.Object); diff != "" {
		t.Error(diff)
	}
	if Digest(r.Object) == Digest(Prepare(Keep(object(t, run)), nil).Object) {
		t.Error("another source, the same digest")
	}
}

// A line that does not end is not read as a whole, and one that is longer than a buffer is read as it is.
func TestLongLines(t *testing.T) {
	endless := io.MultiReader(bytes.NewReader(made(t)[:20]), zeros{})
	if _, _, err := Read(endless, func(*unstructured.Unstructured) error { return nil }); err == nil || !strings.Contains(err.Error(), "more than 16 MiB") {
		t.Errorf("error %v", err)
	}
	long := object(t, run)
	if err := unstructured.SetNestedField(long.Object, strings.Repeat("x", 1<<16)+"\u0085---\n"+strings.Repeat("y", 1<<17), "spec", "text"); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	w, err := NewWriter(&file, Header{})
	if err := errors.Join(err, w.Add(long), w.Close()); err != nil {
		t.Fatal(err)
	}
	_, _, err = Read(&file, func(got *unstructured.Unstructured) error {
		if diff := cmp.Diff(long, got); diff != "" {
			t.Error(diff)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// A source without a UID, which the hub has, is not that of what names none.
func TestPrepareWithoutASource(t *testing.T) {
	r := Prepare(object(t, `{apiVersion: minifleet.dev/v1alpha1, kind: Placement, metadata: {name: p, namespace: hpc}}`), Sources{"": "s2"})
	if len(r.Object.GetAnnotations()) > 0 {
		t.Errorf("%v", r.Object.GetAnnotations())
	}
}

func TestKeepNamespace(t *testing.T) {
	got := KeepNamespace(object(t, `{apiVersion: v1, kind: Namespace, metadata: {name: hpc, uid: u, labels: {kubernetes.io/metadata.name: hpc, team: md},
  annotations: {minifleet.dev/allow: HostNetwork, example.org/other: x}}, spec: {finalizers: [kubernetes]}, status: {phase: Active}}`))
	want := object(t, `{apiVersion: v1, kind: Namespace, metadata: {name: hpc, labels: {team: md}, annotations: {minifleet.dev/allow: HostNetwork}}}`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSecretRefs(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		want   []SecretRef
	}{
		"a member": {member, []SecretRef{{"minifleet-system", "alpine", "MemberCluster alpine"}}},
		"a source": {`{kind: GitSource, metadata: {name: s, namespace: hpc}, spec: {secretRef: {name: login}, proxySecretRef: {name: proxy}, verify: {secretRef: {name: keys}}, receiver: {secretRef: {name: login}}}}`,
			[]SecretRef{{"hpc", "keys", "GitSource hpc/s"}, {"hpc", "login", "GitSource hpc/s"}, {"hpc", "proxy", "GitSource hpc/s"}}},
		"of a later kind": {`{kind: Notification, metadata: {name: "n", namespace: hpc}, spec: {targets: [{secretRef: {name: hook}}]}}`, []SecretRef{{"hpc", "hook", "Notification hpc/n"}}},
		"a run":           {`{kind: FleetMiniCluster, metadata: {name: r, namespace: hpc}, spec: {miniCluster: {secretRef: {name: users}}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, SecretRefs(object(t, c.object), "minifleet-system")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNext(t *testing.T) {
	kept := Identity{"id": "f", "epoch": "2", "members": "alpine u 2\nbasalt v 1\n"}
	for name, c := range map[string]struct {
		onHub   Identity
		members []string
		want    Identity
	}{
		"a new hub":        {nil, nil, Identity{"id": "f", "epoch": "5", "members": "alpine u 2\nbasalt v 1\n"}},
		"never connected":  {nil, []string{"cinder", "alpine"}, Identity{"id": "f", "epoch": "5", "members": "alpine u 2\nbasalt v 1\ncinder - 0\n"}},
		"the hub has more": {Identity{"id": "f", "epoch": "3", "members": "dune w 3\n", "note": "x"}, nil, Identity{"id": "f", "epoch": "5", "members": "alpine u 2\nbasalt v 1\ndune w 3\n", "note": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Next(kept, c.onHub, 5, c.members)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if !kept.Led() || (Identity{"epoch": "3", "members": kept["members"]}).Led() {
		t.Error("whether it was led")
	}
	if _, err := (Identity{"epoch": "many"}).Epoch(); err == nil {
		t.Error("no error")
	}
}
