package grant_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/sanitize"
)

type permissions = []v1alpha1.Permission

func allowing(list string) map[string]string {
	return map[string]string{v1alpha1.AnnotationAllow: list}
}

func source(allow permissions, needs ...v1alpha1.DeclaredNeed) *v1alpha1.GitSource {
	return &v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "fleet"},
		Spec:       v1alpha1.GitSourceSpec{Allow: allow},
		Status:     v1alpha1.GitSourceStatus{Needs: needs},
	}
}

func declared(name, digest string) v1alpha1.DeclaredNeed {
	return v1alpha1.DeclaredNeed{Name: name, Digest: digest}
}

func TestOfNamespace(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        grant.Namespace
	}{
		"is not there":        {nil, grant.Namespace{Name: "hpc"}},
		"has no annotation":   {map[string]string{"other": "HostPath"}, grant.Namespace{Name: "hpc"}},
		"commas and spaces":   {allowing("HostPath, RunAsRoot Privileged"), grant.Namespace{Name: "hpc", Permissions: permissions{"HostPath", "RunAsRoot", "Privileged"}}},
		"unknown is reported": {allowing("HostPath,hostpath,Root"), grant.Namespace{Name: "hpc", Permissions: permissions{"HostPath"}, Unknown: []string{"hostpath", "Root"}}},
		"unknown alone":       {allowing("everything"), grant.Namespace{Name: "hpc", Unknown: []string{"everything"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, grant.OfNamespace("hpc", tc.annotations), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("namespace (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCommandsAddToWhatIsAllowed(t *testing.T) {
	namespace := grant.OfNamespace("hpc", allowing("RunAsRoot,Privileged"))
	for name, tc := range map[string]struct{ got, want string }{
		"namespace": {
			namespace.Command(permissions{"HostPath", "RunAsRoot"}),
			"kubectl annotate --overwrite namespace hpc minifleet.dev/allow=HostPath,Privileged,RunAsRoot",
		},
		"namespace that is not there": {
			grant.OfNamespace("hpc", nil).Command(permissions{"HostPath"}),
			"kubectl annotate --overwrite namespace hpc minifleet.dev/allow=HostPath",
		},
		"source": {
			grant.SourceCommand(source(permissions{"RunAsRoot", "Privileged"}), permissions{"HostPath", "Privileged"}),
			`kubectl -n hpc patch gitsource fleet --type merge -p '{"spec":{"allow":["HostPath","Privileged","RunAsRoot"]}}'`,
		},
		"source that allows nothing": {
			grant.SourceCommand(source(nil), permissions{"HostPath"}),
			`kubectl -n hpc patch gitsource fleet --type merge -p '{"spec":{"allow":["HostPath"]}}'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(permissions{"RunAsRoot", "Privileged"}, namespace.Permissions); diff != "" {
		t.Errorf("a command has changed what it was made of:\n%s", diff)
	}
}

// What a source allows is for what it declares with the overrides that it declares.
func TestOverridesThatASourceDeclares(t *testing.T) {
	with := func(overrides string) v1alpha1.DeclaredNeed {
		return v1alpha1.DeclaredNeed{Name: "m", Digest: "new", Overrides: overrides}
	}
	const differ = "spec.placement has not the overrides that GitSource hpc/fleet declares for this MiniCluster, so what that allows does not count. "
	const namespaced = "Placement hpc/p has not the overrides that GitSource hpc/fleet declares for this MiniCluster, so what that allows does not count. "
	for name, tc := range map[string]struct {
		needs []v1alpha1.DeclaredNeed
		asked grant.Asked
		ref   bool
		// asItIs and overridden say why the source does not count; empty if it does.
		asItIs, overridden string
	}{
		"none, as declared":                      {needs: []v1alpha1.DeclaredNeed{with("")}},
		"as declared":                            {needs: []v1alpha1.DeclaredNeed{with("a")}, asked: grant.Asked{Overrides: "a"}},
		"while another version is being applied": {needs: []v1alpha1.DeclaredNeed{with("b"), with("a")}, asked: grant.Asked{Overrides: "a"}},
		"somebody else's":                        {needs: []v1alpha1.DeclaredNeed{with("")}, asked: grant.Asked{Overrides: "x"}, overridden: differ},
		"somebody else's Placement":              {needs: []v1alpha1.DeclaredNeed{with("")}, asked: grant.Asked{Overrides: "x"}, ref: true, overridden: namespaced},
		"others than declared":                   {needs: []v1alpha1.DeclaredNeed{with("a")}, asked: grant.Asked{Overrides: "x"}, asItIs: differ, overridden: differ},
		"none, though some are declared":         {needs: []v1alpha1.DeclaredNeed{with("a")}, asItIs: differ, overridden: differ},
		"the Placement is not there yet":         {needs: []v1alpha1.DeclaredNeed{with("a")}, asked: grant.Asked{Unplaced: true}},
		"those of another MiniCluster": {needs: []v1alpha1.DeclaredNeed{with(""), {Name: "l", Digest: "new", Overrides: "x"}, {Name: "m", Digest: "old", Overrides: "x"}},
			asked: grant.Asked{Overrides: "x"}, overridden: differ},
	} {
		t.Run(name, func(t *testing.T) {
			object := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "m", Labels: map[string]string{v1alpha1.LabelSource: "fleet"}}}
			if tc.ref {
				object.Spec.PlacementRef = &v1alpha1.LocalReference{Name: "p"}
			}
			tc.asked.Digest = "new"
			set := grant.For(grant.OfNamespace("hpc", allowing("RunAsRoot")), object, source(permissions{"HostPath"}, tc.needs...), tc.asked)
			for what, c := range map[string]struct {
				set grant.Set
				why string
			}{"as it is": {set, tc.asItIs}, "overridden": {set.Overridden(), tc.overridden}} {
				want := permissions{"HostPath", "RunAsRoot"}
				if c.why != "" {
					want = permissions{"RunAsRoot"}
				}
				if diff := cmp.Diff(want, c.set.Permissions()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", what, diff)
				}
				if c.set.NoSource != c.why {
					t.Errorf("%s: %q, want %q", what, c.set.NoSource, c.why)
				}
			}
		})
	}
}

// Where nobody keeps people from editing spec.allow, it does not count.
func TestWhatIsNotEnforcedDoesNotCount(t *testing.T) {
	object := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "m", Labels: map[string]string{v1alpha1.LabelSource: "fleet"}}}
	asked := grant.Asked{Digest: "new", Unenforced: "the hub has no policy: install it"}
	set := grant.For(grant.OfNamespace("hpc", nil), object, source(permissions{"HostPath"}, declared("m", "new")), asked)
	if got := set.Permissions(); len(got) > 0 {
		t.Errorf("it has %v", got)
	}
	want := "What GitSource hpc/fleet allows does not count: the hub has no policy: install it. Remove what is named, or allow it in this namespace of the hub: "
	if got := set.Remedy(permissions{"HostPath"}); !strings.HasPrefix(got, want) {
		t.Errorf("it is told: %s", got)
	}
	none := grant.For(grant.OfNamespace("hpc", nil), object, source(nil, declared("m", "new")), asked)
	if none.NoSource != "" || none.Source == nil {
		t.Errorf("a source that allows nothing is told of the policy: %q", none.NoSource)
	}
}

func TestFor(t *testing.T) {
	other := source(permissions{"HostPath"}, declared("m", "new"))
	other.Name = "other"
	elsewhere := source(permissions{"HostPath"}, declared("m", "new"))
	elsewhere.Namespace = "elsewhere"
	const absent = "There is no GitSource hpc/fleet any more that could allow it. "
	const differs = "GitSource hpc/fleet does not declare this MiniCluster as it is here, so what it allows does not count. "
	for name, tc := range map[string]struct {
		namespace string
		label     string
		source    *v1alpha1.GitSource
		want      permissions
		noSource  string
	}{
		"nobody":                                 {},
		"namespace":                              {namespace: "HostPath", want: permissions{"HostPath"}},
		"source":                                 {label: "fleet", source: source(permissions{"HostPath"}, declared("m", "new")), want: permissions{"HostPath"}},
		"both, sorted, each once":                {namespace: "RunAsRoot,HostPath", label: "fleet", source: source(permissions{"Privileged", "HostPath"}, declared("m", "new")), want: permissions{"HostPath", "Privileged", "RunAsRoot"}},
		"one of several that are declared":       {label: "fleet", source: source(permissions{"HostPath"}, declared("l", "a"), declared("m", "old"), declared("m", "new")), want: permissions{"HostPath"}},
		"a label alone grants nothing":           {label: "fleet", source: source(permissions{"HostPath"}), noSource: differs},
		"a label without its source":             {namespace: "RunAsRoot", label: "fleet", want: permissions{"RunAsRoot"}, noSource: absent},
		"another digest grants nothing":          {label: "fleet", source: source(permissions{"HostPath"}, declared("m", "old")), noSource: differs},
		"another name's digest grants nothing":   {label: "fleet", source: source(permissions{"HostPath"}, declared("l", "new")), noSource: differs},
		"a source that no label names":           {source: source(permissions{"HostPath"}, declared("m", "new"))},
		"another source than the label's":        {label: "fleet", source: other, noSource: absent},
		"a source of another namespace":          {label: "fleet", source: elsewhere, noSource: absent},
		"a source that declares but allows none": {label: "fleet", source: source(nil, declared("m", "new"))},
	} {
		t.Run(name, func(t *testing.T) {
			object := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "m", Labels: map[string]string{v1alpha1.LabelSource: tc.label}}}
			set := grant.For(grant.OfNamespace("hpc", allowing(tc.namespace)), object, tc.source, grant.Asked{Digest: "new"})
			if diff := cmp.Diff(tc.want, set.Permissions(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
			if set.NoSource != tc.noSource {
				t.Errorf("no source: %q, want %q", set.NoSource, tc.noSource)
			}
			if counts := tc.noSource == "" && tc.label != ""; (set.Source != nil) != counts {
				t.Errorf("the source counts: %v, want %v", set.Source != nil, counts)
			}
		})
	}
}

func TestRemedy(t *testing.T) {
	const inNamespace = "Remove what is named, or allow it in this namespace of the hub: kubectl annotate --overwrite namespace hpc minifleet.dev/allow="
	for name, tc := range map[string]struct {
		set  grant.Set
		want string
	}{
		"the namespace, where no source is named": {
			grant.Set{Namespace: grant.OfNamespace("hpc", allowing("RunAsRoot"))},
			inNamespace + "HostPath,RunAsRoot",
		},
		"the namespace, where the source does not count": {
			grant.Set{Namespace: grant.OfNamespace("hpc", nil), NoSource: "It is not there. "},
			"It is not there. " + inNamespace + "HostPath",
		},
		"the source, where it counts": {
			grant.Set{Namespace: grant.OfNamespace("hpc", allowing("RunAsRoot")), Source: source(permissions{"Privileged"})},
			`Remove what is named, or allow it for this source: kubectl -n hpc patch gitsource fleet --type merge -p '{"spec":{"allow":["HostPath","Privileged"]}}'`,
		},
		"with what is unknown": {
			grant.Set{Namespace: grant.OfNamespace("hpc", allowing("Hostpath"))},
			inNamespace + "HostPath. The annotation minifleet.dev/allow of namespace hpc has words that are no permission: Hostpath (there are " + known() + ")",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.set.Remedy(permissions{"HostPath"})); diff != "" {
				t.Errorf("remedy (-want +got):\n%s", diff)
			}
		})
	}
}

func known() string {
	var all []string
	for _, p := range v1alpha1.Permissions() {
		all = append(all, string(p))
	}
	return strings.Join(all, ",")
}

func TestUnknownNoteIsBounded(t *testing.T) {
	for name, list := range map[string]string{
		"long":  strings.Repeat("x", 100_000),
		"many":  strings.Repeat("x ", 50_000),
		"steer": "\x1b[2J",
	} {
		t.Run(name, func(t *testing.T) {
			note := grant.OfNamespace("hpc", allowing(list)).UnknownNote()
			if note == "" || len(note) > sanitize.MaxNote || strings.ContainsRune(note, '\x1b') {
				t.Errorf("%d bytes: %q", len(note), note)
			}
		})
	}
	if note := grant.OfNamespace("hpc", allowing("HostPath")).UnknownNote(); note != "" {
		t.Errorf("nothing is unknown, but: %s", note)
	}
}
