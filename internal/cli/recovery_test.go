package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/backup"
)

// canary is in every Secret of these tests.
const canary = "canary-of-a-key"

func ownDefinitions() []client.Object {
	var out []client.Object
	for plural, kind := range map[string]string{"memberclusters": "MemberCluster", "gitsources": "GitSource", "placements": "Placement", "fleetminiclusters": "FleetMiniCluster"} {
		out = append(out, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".minifleet.dev"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "minifleet.dev", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha1", Served: true, Storage: true}},
			},
		})
	}
	return out
}

func identityMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: v1alpha1.FleetConfigMap}, Data: data}
}

// wholeHub is a hub with something of everything that a backup has.
func wholeHub() []client.Object {
	hpc := namespace("hpc")
	hpc.Labels, hpc.Annotations = map[string]string{"team": "md"}, map[string]string{v1alpha1.AnnotationAllow: "HostNetwork", "example.org/other": "x"}
	login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "login"}, Data: map[string][]byte{"password": []byte(canary)}}
	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: "alpine"}, Data: map[string][]byte{"kubeconfig": []byte(canary)}}
	curve := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: "curve-1"}, Data: map[string][]byte{"curve": []byte("curve-" + canary)}}
	fleet := source()
	fleet.Spec.SecretRef = &v1alpha1.LocalReference{Name: "login"}
	kubeSystem := namespace("kube-system")
	kubeSystem.UID = "uid-of-hub"
	return append(ownDefinitions(), namespace("minifleet-system"), kubeSystem, hpc, login, kubeconfig, curve, fleet, lammps(), member("alpine"),
		identityMap(map[string]string{"id": "fleet-1", "epoch": "2", "members": "alpine u 2\n"}))
}

// emptyHub is one with the kinds, and what else is given.
func emptyHub(more ...client.Object) []client.Object {
	return append(append(ownDefinitions(), namespace("minifleet-system"), namespace("kube-system")), more...)
}

// asking gives restore members that have this epoch on record, or do not answer where it is 0.
func asking(epoch int64) func(*environment) {
	return func(env *environment) {
		env.askMember = func(context.Context, []byte, v1alpha1.MemberClusterSpec, string) (int64, error) {
			if epoch == 0 {
				return 0, errors.New("does not answer")
			}
			return epoch, nil
		}
	}
}

// backedUp is a backup of wholeHub.
func backedUp(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.backup.yaml")
	code, _, stderr, _ := play(t, scene{objects: wholeHub()}, append([]string{"backup", "-o", path}, args...)...)
	if code != 0 {
		t.Fatal(stderr)
	}
	return path
}

func TestBackupHasNoSecretUnlessAsked(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want bool
	}{"by itself": {nil, false}, "asked": {[]string{"--include-secrets"}, true}} {
		t.Run(name, func(t *testing.T) {
			path := backedUp(t, c.args...)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text := string(content)
			const encoded = "Y2FuYXJ5LW9mLWEta2V5" // the canary in Base64
			if has := strings.Contains(text, canary) || strings.Contains(text, encoded); has != c.want {
				t.Errorf("a key is in it: %v", has)
			}
			if strings.Contains(text, "Y3VydmUt") || strings.Contains(text, "curve-1") {
				t.Error("a CURVE key is in it")
			}
			if named := strings.Contains(text, "Secret minifleet-system/alpine: MemberCluster alpine"); named == c.want {
				t.Errorf("what to keep separately is named: %v", named)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v %v", info.Mode(), err)
			}
		})
	}
}

func TestBackupLeavesNoHalfFile(t *testing.T) {
	funcs := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if list.GetObjectKind().GroupVersionKind().Kind == "GitSourceList" {
			return apierrors.NewForbidden(schema.GroupResource{Group: "minifleet.dev", Resource: "gitsources"}, "", errors.New("no"))
		}
		return c.List(ctx, list, opts...)
	}}
	dir := t.TempDir()
	code, stdout, stderr, _ := play(t, scene{objects: wholeHub(), funcs: funcs}, "backup", "-o", filepath.Join(dir, "b"))
	if code != 1 || stdout != "" || !strings.Contains(stderr, "reading GitSources") || !strings.Contains(stderr, "ask whoever administers the hub") {
		t.Errorf("%d %s", code, stderr)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestBackupReplacesNoDevice(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "null")
	if err := os.Symlink(os.DevNull, path); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr, _ := play(t, scene{objects: wholeHub()}, "backup", "-o", path)
	if code != 2 || stdout != "" || !strings.Contains(stderr, "is no regular file") {
		t.Errorf("%d %s%s", code, stdout, stderr)
	}
	if to, err := os.Readlink(path); err != nil || to != os.DevNull {
		t.Errorf("it is %q now, %v", to, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestRecoveryGolden(t *testing.T) {
	file := backedUp(t)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		scene scene
		args  []string
	}{
		"backup of no fleet": {scene{objects: emptyHub()}, []string{"backup"}},
		"backup of no hub":   {scene{}, []string{"backup"}},
		"restore":            {scene{objects: emptyHub(), stdin: string(content), edit: asking(4)}, []string{"restore", "-f", "-"}},
		"restore dry":        {scene{objects: emptyHub(), stdin: string(content), edit: asking(4)}, []string{"restore", "-f", "-", "--dry-run"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, _ := play(t, c.scene, c.args...)
			golden(t, name, transcript(c.args, code, stdout, stderr))
		})
	}
	path := filepath.Join(t.TempDir(), "f")
	code, stdout, stderr, _ := play(t, scene{objects: wholeHub()}, "backup", "-o", path)
	golden(t, "backup", strings.ReplaceAll(transcript([]string{"backup", "-o", "fleet.backup.yaml"}, code, stdout, stderr), path, "fleet.backup.yaml"))
}

func TestRestoreErrors(t *testing.T) {
	whole := backedUp(t)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	held := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: "controller.minifleet.dev"}, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("controller-0"), RenewTime: &metav1.MicroTime{Time: noon.Add(-5 * time.Second)}, LeaseDurationSeconds: ptr.To[int32](15),
	}}
	newer := lammps()
	newer.Status.Runs = newer.Status.Runs[:1]
	same := identityMap(map[string]string{"id": "fleet-1", "epoch": "2", "members": "alpine u 2\n"})
	for name, c := range map[string]struct {
		objects []client.Object
		stdin   string
		args    []string
		code    int
		want    string
	}{
		"no file":             {emptyHub(), "", []string{}, 2, "which backup? Name it with -f FILE"},
		"no such file":        {emptyHub(), "", []string{"-f", "/no/such/file"}, 2, "-f: open /no/such/file"},
		"a wrong flag":        {emptyHub(), "", []string{"-f", "-", "--existing", "all"}, 2, `--existing: "all" is none of keep, replace`},
		"a wrong member":      {emptyHub(), "", []string{"-f", "-", "--member", "a b"}, 2, `--member: "a b" is no name of a MemberCluster`},
		"nothing":             {emptyHub(), "", []string{"-f", "-"}, 2, "it is no backup"},
		"a part of it":        {emptyHub(), string(content[:len(content)-20]), []string{"-f", "-"}, 2, "damaged"},
		"edited":              {emptyHub(), strings.Replace(string(content), "size: 4", "size: 5", 1), []string{"-f", "-"}, 2, "its checksum is"},
		"of a newer format":   {emptyHub(), strings.Replace(string(content), "format: 1", "format: 2", 1), []string{"-f", "-"}, 2, "formats up to 1"},
		"without the kinds":   {[]client.Object{namespace("kube-system")}, string(content), []string{"-f", "-"}, 1, "`make install`"},
		"a running one":       {emptyHub(held), string(content), []string{"-f", "-"}, 1, "controller controller-0 is active on the hub"},
		"of another fleet":    {emptyHub(identityMap(map[string]string{"id": "fleet-2"})), string(content), []string{"-f", "-"}, 1, `the hub is of fleet "fleet-2"`},
		"in another place":    {emptyHub(), string(content), []string{"-f", "-", "--manager-namespace", "x"}, 2, "give --manager-namespace minifleet-system"},
		"with newer objects":  {emptyHub(same, namespace("hpc"), newer), string(content), []string{"-f", "-"}, 1, "the hub has FleetMiniCluster hpc/lammps, which are not as in the backup and may be newer"},
		"interrupted another": {emptyHub(identityMap(map[string]string{"id": "fleet-1", "restoring": "abc"})), string(content), []string{"-f", "-"}, 1, "with checksum abc, was interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			writes := 0
			counted := interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					writes++
					return errors.New("not expected")
				},
				Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
					writes++
					return errors.New("not expected")
				},
			}
			code, stdout, stderr, _ := play(t, scene{objects: c.objects, stdin: c.stdin, funcs: counted, edit: asking(2)}, append([]string{"restore"}, c.args...)...)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
			if writes > 0 {
				t.Error("something was changed")
			}
		})
	}
}

// crafted is a file that is whole, and has what no backup has.
func crafted(t *testing.T, header backup.Header, objects ...string) string {
	t.Helper()
	var out strings.Builder
	w, err := backup.NewWriter(&out, header)
	if err != nil {
		t.Fatal(err)
	}
	identity := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"minifleet-fleet","namespace":"minifleet-system"},"data":{"id":"fleet-1","epoch":"2"}}`
	for _, text := range append([]string{identity}, objects...) {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestRestoreRefusesWhatNoBackupHas(t *testing.T) {
	header := backup.Header{FleetID: "fleet-1", Epoch: 2, ManagerNamespace: "minifleet-system"}
	other := header
	other.FleetID = "fleet-9"
	for name, c := range map[string]struct {
		file string
		want string
	}{
		"a Pod":                      {crafted(t, header, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"kube-system"}}`), "Pod kube-system/p"},
		"a role":                     {crafted(t, header, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"minifleet-x"}}`), "ClusterRole minifleet-x"},
		"another ConfigMap":          {crafted(t, header, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"kube-system"}}`), "ConfigMap kube-system/x"},
		"a second identity":          {crafted(t, header, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"minifleet-fleet","namespace":"x"}}`), "more than one identity"},
		"an administrator":           {crafted(t, header, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"a"},"roleRef":{"kind":"ClusterRole","name":"cluster-admin"}}`), `"cluster-admin" is no role of MiniFleet`},
		"a token":                    {crafted(t, header, `{"apiVersion":"v1","kind":"Secret","type":"kubernetes.io/service-account-token","metadata":{"name":"a","namespace":"kube-system"}}`), "make a token"},
		"a Secret that nobody needs": {crafted(t, header, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"kube-system"}}`), "which no object in it needs"},
		"the kind of another group":  {crafted(t, header, `{"apiVersion":"example.org/v1","kind":"FleetMiniCluster","metadata":{"name":"a","namespace":"b"}}`), "FleetMiniCluster b/a"},
		"a header of another fleet":  {crafted(t, other), `it is of fleet "fleet-9"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr, _ := play(t, scene{objects: emptyHub(), stdin: c.file, edit: asking(2)}, "restore", "-f", "-", "--existing", "replace")
			if code != 2 || stdout != "" || !strings.Contains(stderr, c.want) || !strings.Contains(stderr, "nothing was changed") {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
		})
	}
}

// A restore that keeps what the hub has does so too when it is run again after an interruption, but for what it had only begun.
func TestInterruptedRestoreKeeps(t *testing.T) {
	content, err := os.ReadFile(backedUp(t))
	if err != nil {
		t.Fatal(err)
	}
	_, checksum, err := backup.Read(bytes.NewReader(content), func(*unstructured.Unstructured) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	newer, begun := lammps(), lammps()
	newer.Status.Runs = newer.Status.Runs[:1]
	begun.Status = v1alpha1.FleetMiniClusterStatus{}
	for name, c := range map[string]struct {
		have *v1alpha1.FleetMiniCluster
		want int
	}{"newer": {newer, 1}, "begun": {begun, len(lammps().Status.Runs)}} {
		t.Run(name, func(t *testing.T) {
			interrupted := identityMap(map[string]string{"id": "fleet-1", "epoch": "5", "members": "alpine u 2\n", v1alpha1.FleetRestoringKey: checksum})
			code, stdout, stderr, hub := play(t, scene{objects: emptyHub(interrupted, namespace("hpc"), c.have), stdin: string(content), edit: asking(2)},
				"restore", "-f", "-", "--existing", "keep")
			var got v1alpha1.FleetMiniCluster
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(c.have), &got); err != nil {
				t.Fatal(err)
			}
			if code != 0 || len(got.Status.Runs) != c.want {
				t.Errorf("exit code %d, %d runs, want %d: %s%s", code, len(got.Status.Runs), c.want, stdout, stderr)
			}
		})
	}
}

// A controller that begins to lead while a backup is being restored has it stop, and the identity says that it did not end.
func TestRestoreStopsForAController(t *testing.T) {
	content, err := os.ReadFile(backedUp(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, renewed := range map[string]time.Time{"by this clock": noon, "by another clock": noon.Add(-time.Hour)} {
		t.Run(name, func(t *testing.T) { restoreWithController(t, string(content), renewed) })
	}
}

// restoreWithController restores on a hub whose lease a controller takes when the identity is put back.
func restoreWithController(t *testing.T, content string, renewed time.Time) {
	t.Helper()
	funcs := interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
		if err := c.Create(ctx, obj, opts...); err != nil || obj.GetName() != v1alpha1.FleetConfigMap {
			return err
		}
		return c.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "minifleet-system", Name: "controller.minifleet.dev"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("controller-0"), RenewTime: &metav1.MicroTime{Time: renewed}, LeaseDurationSeconds: ptr.To[int32](15),
		}})
	}}
	code, _, stderr, hub := play(t, scene{objects: emptyHub(), stdin: content, funcs: funcs, edit: asking(2)}, "restore", "-f", "-")
	var identity corev1.ConfigMap
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "minifleet-system", Name: v1alpha1.FleetConfigMap}, &identity); err != nil {
		t.Fatal(err)
	}
	if code != 1 || !strings.Contains(stderr, " is active on the hub") || identity.Data[v1alpha1.FleetRestoringKey] == "" {
		t.Errorf("exit code %d, %v: %s", code, identity.Data, stderr)
	}
	var runs v1alpha1.FleetMiniClusterList
	if err := hub.List(t.Context(), &runs); err != nil || len(runs.Items) > 0 {
		t.Errorf("%d FleetMiniClusters were restored, %v", len(runs.Items), err)
	}
}

func TestRestoreTellsWhoIsGivenWhat(t *testing.T) {
	header := backup.Header{FleetID: "fleet-1", Epoch: 2, ManagerNamespace: "minifleet-system"}
	file := crafted(t, header, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"a","namespace":"minifleet-system"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"minifleet-impersonator"},
		"subjects":[{"kind":"User","name":"eve"},{"kind":"ServiceAccount","namespace":"x","name":"y"}]}`)
	for _, args := range [][]string{{"--dry-run"}, {}} {
		code, stdout, stderr, _ := play(t, scene{objects: emptyHub(), stdin: file, edit: asking(2)}, append([]string{"restore", "-f", "-"}, args...)...)
		if want := "RoleBinding minifleet-system/a: created; it gives minifleet-impersonator to User eve, ServiceAccount x/y\n"; code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
}
