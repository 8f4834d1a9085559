package helmtest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/hack/chart"
	"github.com/minifleet/minifleet/hack/chart/templates"
	"github.com/minifleet/minifleet/hack/chart/values"
	"github.com/minifleet/minifleet/hack/chart/variants"
)

// labelsOfHelm are what the chart adds to every object. With keepAnnotation they are all in which what Helm installs differs from
// what kustomize does.
var labelsOfHelm = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/name", "app.kubernetes.io/version", "helm.sh/chart",
}

// keepAnnotation is of the kinds that are to outlive the release.
const keepAnnotation = "helm.sh/resource-policy"

var keptKinds = []string{"CustomResourceDefinition", "Namespace"}

// switchOf sets the value of a component.
func switchOf(component string, on bool) string {
	for _, s := range templates.Switches {
		if s.Component == component {
			return fmt.Sprintf("%s=%t", s.Value, on)
		}
	}
	return ""
}

func config(t *testing.T) *variants.Config {
	t.Helper()
	files, err := chart.ReadFolder(filepath.Join(root(t), "config"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := variants.Read(files, templates.Components())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// everything are arguments that install all there is.
func everything(c *variants.Config) []string {
	sets := []string{"namespace.create=true", "crds.enabled=true"}
	for _, component := range c.Components {
		sets = append(sets, switchOf(component, true))
	}
	return []string{"--set", strings.Join(sets, ",")}
}

func TestLint(t *testing.T) {
	all := append(everything(config(t)), "--set", "dashboard.ingress.enabled=true,dashboard.ingress.host=a.example.org")
	for _, h := range helms(t) {
		for name, args := range map[string][]string{"defaults": nil, "everything": all} {
			t.Run(h.name+" with "+name, func(t *testing.T) {
				h.run(t, append([]string{"lint", "--strict", folder(t)}, args...)...)
			})
		}
	}
}

// The chart as it is committed is that of config.
func TestTheChartIsGenerated(t *testing.T) {
	dir := t.TempDir()
	if err := chart.Generate(filepath.Join(root(t), "config"), dir); err != nil {
		t.Fatal(err)
	}
	want, err := chart.ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	have, err := chart.ReadFolder(folder(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("run make generate:\n%s", diff)
	}
}

func TestTemplateIsWhatKustomizeBuilds(t *testing.T) {
	c := config(t)
	programs := helms(t)
	for n := range 1 << len(c.Components) {
		sets := []string{"namespace.create=true"}
		var on []string
		for i, component := range c.Components {
			sets = append(sets, switchOf(component, n&(1<<i) != 0))
			if n&(1<<i) != 0 {
				on = append(on, component)
			}
		}
		t.Run("with "+strings.Join(on, " "), func(t *testing.T) {
			want := map[key]object{}
			objects, err := c.Build(on...)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				want[keyOf(t, want, o)] = o
			}
			if !slices.Contains(on, "network-policy") {
				// Parts have their own, which are switched off with it.
				maps.DeleteFunc(want, func(k key, _ object) bool { return k.Kind == "NetworkPolicy" })
			}
			// Both read the same templates; what they might make different is seen in two of the combinations.
			all := n == 0 || n == 1<<len(c.Components)-1
			if !all {
				maps.DeleteFunc(want, func(k key, _ object) bool { return k.Kind == "CustomResourceDefinition" })
			}
			for i, h := range programs {
				if i == len(programs)-1 || all {
					compare(t, h.name, want, h.template(t, "--set", strings.Join(sets, ","), "--set", fmt.Sprintf("crds.enabled=%t", all)))
				}
			}
		})
	}
}

// The namespace of the release takes the place of that of kustomize, and nothing else changes.
func TestTemplateInAnotherNamespace(t *testing.T) {
	c := config(t)
	args := append(everything(c), "--namespace", "1234")
	have := newest(t).template(t, args...)
	want := newest(t).template(t, everything(c)...)
	moved := map[key]object{}
	for k, o := range want {
		if k.Kind != "CustomResourceDefinition" {
			o, _ = renamed(o, c.Namespace, "1234").(object)
			k.Name = strings.ReplaceAll(k.Name, c.Namespace, "1234")
		}
		moved[k] = o
	}
	if diff := cmp.Diff(moved, have); diff != "" {
		t.Error(diff)
	}
}

func renamed(value any, from, to string) any {
	switch v := value.(type) {
	case object:
		out := object{}
		for k, x := range v {
			out[k] = renamed(x, from, to)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = renamed(x, from, to)
		}
		return out
	case string:
		return strings.ReplaceAll(v, from, to)
	default:
		return v
	}
}

func compare(t *testing.T, program string, want, have map[key]object) {
	t.Helper()
	if diff := cmp.Diff(slices.SortedFunc(maps.Keys(want), keyOrder), slices.SortedFunc(maps.Keys(have), keyOrder)); diff != "" {
		t.Errorf("%s, objects:\n%s", program, diff)
	}
	for k, o := range have {
		without(t, k, o, want[k])
		if diff := cmp.Diff(normal(want[k]), normal(o)); diff != "" {
			t.Errorf("%s, %v:\n%s", program, k, diff)
		}
	}
}

func keyOrder(a, b key) int { return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name) }

// without removes what only Helm adds, which has to be there.
func without(t *testing.T, k key, o, want object) {
	t.Helper()
	labels, _ := at(o, "metadata", "labels").(object)
	wanted, _ := at(want, "metadata", "labels").(object)
	for _, l := range labelsOfHelm {
		if labels[l] == nil {
			t.Errorf("%v has no label %s", k, l)
		}
		if wanted[l] == nil {
			delete(labels, l)
		}
	}
	annotations, _ := at(o, "metadata", "annotations").(object)
	if kept := annotations[keepAnnotation] == "keep"; kept != slices.Contains(keptKinds, k.Kind) {
		t.Errorf("%v has annotation %s: %t", k, keepAnnotation, kept)
	}
	delete(annotations, keepAnnotation)
	if metadata, _ := at(o, "metadata").(object); len(annotations) == 0 {
		delete(metadata, "annotations")
	}
}

// sets are lists whose order means nothing; arguments are flags after the one command.
var sets = map[string]bool{"args": true, "env": true, "ports": true, "volumes": true, "volumeMounts": true}

// normal makes equal what means the same: numbers of any type, and sets of any order.
func normal(value any) any {
	switch v := value.(type) {
	case object:
		out := object{}
		for k, x := range v {
			out[k] = normal(x)
			if list, ok := out[k].([]any); ok && sets[k] {
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = normal(x)
		}
		return out
	case int:
		return float64(v)
	case int64:
		return float64(v)
	default:
		return v
	}
}

// samples are a setting of each value that is not its default, with what it needs besides. What is rendered has to differ from
// what is rendered with only that.
var samples = map[string]struct{ set, needs string }{
	"image.repository":            {set: "image.repository=registry.example.org/minifleet"},
	"image.tag":                   {set: "image.tag=v9"},
	"image.digest":                {set: "image.digest=sha256:" + strings.Repeat("a", 64)},
	"image.pullPolicy":            {set: "image.pullPolicy=Always"},
	"image.pullSecrets":           {set: "image.pullSecrets[0].name=registry"},
	"replicas":                    {set: "replicas=2"},
	"resources":                   {set: "resources.limits.memory=2Gi"},
	"gomemlimit":                  {set: "gomemlimit=1GiB"},
	"nodeSelector":                {set: "nodeSelector.role=control"},
	"tolerations":                 {set: "tolerations[0].operator=Exists"},
	"affinity":                    {set: "affinity.nodeAffinity.a=b"},
	"topologySpreadConstraints":   {set: "topologySpreadConstraints[0].maxSkew=1,topologySpreadConstraints[0].topologyKey=zone,topologySpreadConstraints[0].whenUnsatisfiable=DoNotSchedule"},
	"priorityClassName":           {set: "priorityClassName=system-cluster-critical"},
	"podLabels":                   {set: "podLabels.team=a"},
	"podAnnotations":              {set: "podAnnotations.team=a"},
	"extraArgs":                   {set: "extraArgs={--log-level=debug}"},
	"extraEnv":                    {set: "extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=x"},
	"extraVolumes":                {set: "extraVolumes[0].name=ca,extraVolumes[0].configMap.name=ca"},
	"extraVolumeMounts":           {set: "extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/ca"},
	"serviceAccount.annotations":  {set: "serviceAccount.annotations.role=a"},
	"namespace.create":            {set: "namespace.create=true"},
	"crds.enabled":                {set: "crds.enabled=true"},
	"admissionPolicy.enabled":     {set: "admissionPolicy.enabled=false"},
	"networkPolicy.enabled":       {set: "networkPolicy.enabled=false"},
	"dashboard.enabled":           {set: "dashboard.enabled=true"},
	"dashboard.writes":            {set: "dashboard.writes=true", needs: "dashboard.enabled=true"},
	"clusterProfiles.enabled":     {set: "clusterProfiles.enabled=true"},
	"monitoring.enabled":          {set: "monitoring.enabled=true"},
	"receiver.enabled":            {set: "receiver.enabled=true"},
	"dashboard.tlsSecretName":     {set: "dashboard.tlsSecretName=other", needs: "dashboard.enabled=true"},
	"dashboard.extraArgs":         {set: "dashboard.extraArgs={--dashboard-url=https://a}", needs: "dashboard.enabled=true"},
	"dashboard.service.type":      {set: "dashboard.service.type=LoadBalancer", needs: "dashboard.enabled=true"},
	"dashboard.ingress.enabled":   {set: "dashboard.ingress.enabled=true", needs: "dashboard.enabled=true,dashboard.ingress.host=a"},
	"dashboard.ingress.host":      {set: "dashboard.ingress.host=b", needs: "dashboard.enabled=true,dashboard.ingress.enabled=true,dashboard.ingress.host=a"},
	"dashboard.ingress.className": {set: "dashboard.ingress.className=b", needs: "dashboard.enabled=true,dashboard.ingress.enabled=true,dashboard.ingress.host=a"},
	"dashboard.ingress.tlsSecretName": {
		set: "dashboard.ingress.tlsSecretName=b", needs: "dashboard.enabled=true,dashboard.ingress.enabled=true,dashboard.ingress.host=a"},
	"dashboard.ingress.annotations": {
		set: "dashboard.ingress.annotations.a=b", needs: "dashboard.enabled=true,dashboard.ingress.enabled=true,dashboard.ingress.host=a"},
	"dashboard.service.loadBalancerClass": {set: "dashboard.service.loadBalancerClass=b", needs: "dashboard.enabled=true"},
	"dashboard.service.annotations":       {set: "dashboard.service.annotations.a=b", needs: "dashboard.enabled=true"},
}

func TestEveryValueCounts(t *testing.T) {
	h := newest(t)
	bases := map[string]map[key]object{}
	base := func(t *testing.T, needs string) map[key]object {
		if bases[needs] == nil {
			bases[needs] = h.template(t, "--set", needs)
		}
		return bases[needs]
	}
	for _, path := range paths(t) {
		t.Run(path, func(t *testing.T) {
			sample, has := samples[strings.Replace(path, "receiver", "dashboard", 1)]
			if own, is := samples[path]; is {
				sample = own
			} else if has {
				sample.set = strings.ReplaceAll(strings.ReplaceAll(sample.set, "dashboard", "receiver"), "--receiver", "--dashboard")
				sample.needs = strings.ReplaceAll(sample.needs, "dashboard", "receiver")
			}
			if !has && sample.set == "" {
				t.Fatal("the test has no sample of this value")
			}
			if cmp.Equal(base(t, sample.needs), h.template(t, "--set", sample.needs, "--set", sample.set)) {
				t.Errorf("%s changes nothing", sample.set)
			}
		})
	}
}

// paths are those of values.yaml, as its table has them.
func paths(t *testing.T) []string {
	t.Helper()
	c := config(t)
	made, err := templates.Make(c)
	if err != nil {
		t.Fatal(err)
	}
	return values.Paths(values.List(values.Config{Parts: made.Parts, Default: made.Default}))
}

func deployment(objects map[key]object) (pod, container object) {
	pod, _ = at(objects[key{"Deployment", "minifleet-controller-manager"}], "spec", "template", "spec").(object)
	containers, _ := pod["containers"].([]any)
	container, _ = containers[0].(object)
	return pod, container
}

func variable(container object, name string) string {
	list, _ := container["env"].([]any)
	for _, item := range list {
		if at(item, "name") == name {
			return text(at(item, "value"))
		}
	}
	return "-"
}

func TestImage(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for set, want := range map[string]string{
		"": "minifleet:dev",
		"image.repository=r.example.org:5000/a/b,image.tag=v1":                           "r.example.org:5000/a/b:v1",
		"image.repository=r.example.org/a,image.tag=v1,image.digest=" + digest:           "r.example.org/a@" + digest,
		"image.repository=r.example.org/a,image.pullPolicy=Never,image.digest=" + digest: "r.example.org/a@" + digest,
	} {
		if _, container := deployment(newest(t).template(t, "--set", set)); container["image"] != want {
			t.Errorf("%s: %v, want %s", set, container["image"], want)
		}
	}
}

func TestMemory(t *testing.T) {
	for set, want := range map[string]string{
		"":                                             "800MiB",
		"resources.limits.memory=2Gi":                  "1600MiB",
		"resources.limits.memory=512Mi":                "400MiB",
		"resources.limits.memory=1.5Gi":                "1200MiB",
		"resources.limits.memory=2G":                   "1490MiB",
		"resources.limits.memory=1073741824":           "800MiB",
		"resources.limits.memory=null":                 "-",
		"resources.limits=null":                        "-",
		"resources=null":                               "-",
		"gomemlimit=off":                               "off",
		"gomemlimit=3GiB,resources.limits.memory=2Gi":  "3GiB",
		"gomemlimit=3GiB,resources.limits.memory=null": "3GiB",
	} {
		if _, container := deployment(newest(t).template(t, "--set", set)); variable(container, "GOMEMLIMIT") != want {
			t.Errorf("%s: %s, want %s", set, variable(container, "GOMEMLIMIT"), want)
		}
	}
	out := newest(t).fails(t, "template", "x", folder(t), "--set", "resources.limits.memory=lots")
	if !strings.Contains(out, `resources.limits.memory: "lots" is no amount of memory`) {
		t.Error(out)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ set, named string }{
		"a misspelt key":            {"replica=2", "replica"},
		"one below another":         {"image.digets=x", "digets"},
		"one of a Service":          {"dashboard.service.typ=NodePort", "typ"},
		"one of the resources":      {"resources.limit.memory=1Gi", "limit"},
		"a text for a number":       {"replicas=many", "replicas"},
		"fewer than none":           {"replicas=-1", "replicas"},
		"a text for a switch":       {"dashboard.enabled=yes", "enabled"},
		"a digest without its kind": {"image.digest=abc", "digest"},
		"a digest in the name":      {"image.repository=a@sha256:b", "repository"},
		"an unknown pull policy":    {"image.pullPolicy=Sometimes", "pullPolicy"},
		"a label of the selector":   {`podLabels.app\.kubernetes\.io/name=other`, "app.kubernetes.io/name"},
		"an argument, no flag":      {"extraArgs={dashboard}", "extraArgs"},
		"a variable with no name":   {"extraEnv[0].value=x", "extraEnv"},
		"no list of Secrets":        {"image.pullSecrets=registry", "pullSecrets"},
		"another type of Service":   {"receiver.service.type=ExternalName", "type"},
		"no name of a Secret":       {"dashboard.tlsSecretName=A_B", "tlsSecretName"},
		"no amount":                 {"gomemlimit=much", "gomemlimit"},
	} {
		for _, h := range helms(t) {
			t.Run(name+", "+h.name, func(t *testing.T) {
				out := h.fails(t, "template", "x", folder(t), "--set", c.set)
				if !strings.Contains(out, c.named) || !strings.Contains(out, "schema") {
					t.Errorf("%s: %s", c.set, out)
				}
			})
		}
	}
	// As a part of another chart it gets values that are of all its charts.
	newest(t).template(t, "--set", "global.registry=x")
}

// The admission policy is left out where the cluster does not serve it.
func TestPolicyOfTheCluster(t *testing.T) {
	policy := "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
	for name, c := range map[string]struct {
		args []string
		want bool
	}{
		"no cluster":               {nil, true},
		"no cluster, an old one":   {[]string{"--kube-version", "1.29.4"}, false},
		"no cluster, a recent one": {[]string{"--kube-version", "1.30.0-gke.1"}, true},
		"a cluster without":        {[]string{"--api-versions", "v1/Pod", "--kube-version", "1.31"}, false},
		"a cluster with":           {[]string{"--api-versions", "v1/Pod", "--api-versions", policy, "--kube-version", "1.29"}, true},
		"not wanted":               {[]string{"--set", "admissionPolicy.enabled=false"}, false},
	} {
		for _, h := range helms(t) {
			objects := h.template(t, c.args...)
			for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
				if _, has := objects[key{kind, "minifleet-gitsource-allow"}]; has != c.want {
					t.Errorf("%s, %s: %s is %t", h.name, name, kind, has)
				}
			}
		}
	}
}

func TestIngressNeedsAHost(t *testing.T) {
	out := newest(t).fails(t, "template", "x", folder(t), "--set", "dashboard.enabled=true,dashboard.ingress.enabled=true")
	if !strings.Contains(out, "dashboard.ingress.host: say by which name the dashboard is reached") {
		t.Error(out)
	}
}

// Each value is in the table for people.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(folder(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths(t) {
		if !strings.Contains(string(readme), "| `"+path+"` |") {
			t.Errorf("README.md does not have %s", path)
		}
	}
}
