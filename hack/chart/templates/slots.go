package templates

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minifleet/minifleet/hack/chart/tree"
)

// Names that config gives, with the prefix of config/default.
const (
	prefix     = "minifleet-"
	controller = prefix + "controller-manager"
)

// slot is a place in an object that values fill.
type slot struct {
	kind, name string
	fill       func(object tree.Node) error
}

// slots are all places. Each has to exist wherever its object does, so that no value stops to count.
var slots = []slot{
	{"Deployment", controller, fillDeployment},
	{"ServiceAccount", controller, func(o tree.Node) error { return annotate(o, ".Values.serviceAccount.annotations") }},
	{"Service", prefix + "dashboard", func(o tree.Node) error { return fillService(o, ".Values.dashboard.service") }},
	{"Service", prefix + "receiver", func(o tree.Node) error { return fillService(o, ".Values.receiver.service") }},
}

// workloads are kinds that have pods: of these the values reach one object only.
var workloads = []string{"CronJob", "DaemonSet", "Deployment", "Job", "Pod", "ReplicaSet", "StatefulSet"}

// fill puts the values into an object.
func fill(kind, name string, object tree.Node) error {
	i := slices.IndexFunc(slots, func(s slot) bool { return s.kind == kind && s.name == name })
	switch {
	case i >= 0:
		if err := slots[i].fill(object); err != nil {
			return fmt.Errorf("%s %s: %w: fit slots in hack/chart/templates/slots.go to it", kind, name, err)
		}
	case slices.Contains(workloads, kind):
		return fmt.Errorf("%s %s is new, and the values (image, resources, …) do not reach its pods: give it a slot in hack/chart/templates/slots.go", kind, name)
	}
	return nil
}

func mapAt(n tree.Node, path ...string) (*tree.Map, error) {
	found, err := tree.At(n, path...)
	if err != nil {
		return nil, err
	}
	m, ok := found.(*tree.Map)
	if !ok {
		return nil, fmt.Errorf("%s is no mapping", strings.Join(path, "."))
	}
	return m, nil
}

// replace puts an expression in place of a value.
func replace(m *tree.Map, key, expression string) error {
	f := m.Field(key)
	if f == nil {
		return fmt.Errorf("there is no %s", key)
	}
	f.Value = tree.Expression("{{ " + expression + " }}")
	return nil
}

// insert adds a field that the values have, where they do.
func insert(m *tree.Map, key, value string) error {
	if m.Field(key) != nil {
		return fmt.Errorf("%s is set, which %s is for", key, value)
	}
	m.Fields = append(m.Fields, tree.Field{Value: tree.Raw("{{- with " + value + " }}\n" + key + ": {{- toYaml . | nindent @+ }}\n{{- end }}\n")})
	return nil
}

// insertScalar is insert for what fits on the line of its key.
func insertScalar(m *tree.Map, key, value string) error {
	if m.Field(key) != nil {
		return fmt.Errorf("%s is set, which %s is for", key, value)
	}
	m.Fields = append(m.Fields, tree.Field{Value: tree.Raw("{{- with " + value + " }}\n" + key + ": {{ . | quote }}\n{{- end }}\n")})
	return nil
}

// more adds what the values have to a mapping or a list.
func more(value string) tree.Raw {
	return tree.Raw("{{- with " + value + " }}\n{{- toYaml . | nindent @ }}\n{{- end }}\n")
}

// extend adds items of the values to a list that each variant has.
func extend(m *tree.Map, key string, raw ...tree.Raw) error {
	f := m.Field(key)
	if f == nil {
		return fmt.Errorf("there is no %s", key)
	}
	list, ok := f.Value.(*tree.List)
	if !ok || len(f.Only) > 0 {
		return fmt.Errorf("%s is no list that is always there", key)
	}
	for _, r := range raw {
		list.Items = append(list.Items, tree.Item{Value: r})
	}
	return nil
}

// extendOptional adds items of the values to a list that only some variants have.
func extendOptional(m *tree.Map, key, value string) error {
	f := m.Field(key)
	if f == nil {
		m.Fields = append(m.Fields, tree.Field{Key: key, Value: &tree.List{}, Only: []string{value}})
		f = m.Field(key)
	} else if len(f.Only) > 0 {
		f.Only = append(f.Only, value)
	}
	list, ok := f.Value.(*tree.List)
	if !ok {
		return fmt.Errorf("%s is no list", key)
	}
	list.Items = append(list.Items, tree.Item{Value: more(value)})
	return nil
}

// annotate adds annotations of the values to an object that has none, or has some.
func annotate(object tree.Node, value string) error {
	metadata, err := mapAt(object, "metadata")
	if err != nil {
		return err
	}
	return addTo(metadata, "annotations", value)
}

// addTo adds keys of the values to a mapping.
func addTo(m *tree.Map, key, value string) error {
	f := m.Field(key)
	if f == nil {
		return insert(m, key, value)
	}
	inner, ok := f.Value.(*tree.Map)
	if !ok {
		return fmt.Errorf("%s is no mapping", key)
	}
	inner.Fields = append(inner.Fields, tree.Field{Value: more(value)})
	return nil
}

func fillService(object tree.Node, values string) error {
	if err := annotate(object, values+".annotations"); err != nil {
		return err
	}
	spec, err := mapAt(object, "spec")
	if err != nil {
		return err
	}
	if spec.Field("selector") != nil {
		return fmt.Errorf("it selects pods, so that the replica which leads would not be the one that is reached")
	}
	// ClusterIP is what the API server makes of none.
	if spec.Field("type") != nil {
		return fmt.Errorf("type is set, which %s.type is for", values)
	}
	spec.Fields = append(spec.Fields, tree.Field{Value: tree.Raw("{{- if ne " + values + ".type \"ClusterIP\" }}\ntype: {{ " + values + ".type }}\n{{- end }}\n")})
	return insertScalar(spec, "loadBalancerClass", values+".loadBalancerClass")
}

// steps runs until something fails.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func fillDeployment(object tree.Node) error {
	spec, err := mapAt(object, "spec")
	if err != nil {
		return err
	}
	template, err := mapAt(spec, "template", "metadata")
	if err != nil {
		return err
	}
	pod, err := mapAt(spec, "template", "spec")
	if err != nil {
		return err
	}
	return steps(
		func() error { return replace(spec, "replicas", ".Values.replicas") },
		func() error { return addTo(template, "labels", ".Values.podLabels") },
		func() error { return addTo(template, "annotations", ".Values.podAnnotations") },
		func() error { return fillPod(pod) },
	)
}

func fillPod(pod *tree.Map) error {
	for _, field := range []string{"nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"} {
		if err := insert(pod, field, ".Values."+field); err != nil {
			return err
		}
	}
	containers, err := tree.At(pod, "containers")
	if err != nil {
		return err
	}
	if list, ok := containers.(*tree.List); !ok || len(list.Items) != 1 || pod.Field("initContainers") != nil {
		return fmt.Errorf("there is not exactly one container, and the values (image, resources, …) are for one")
	}
	container, err := mapAt(containers, "controller")
	if err != nil {
		return err
	}
	return steps(
		func() error { return insert(pod, "imagePullSecrets", ".Values.image.pullSecrets") },
		func() error { return insertScalar(pod, "priorityClassName", ".Values.priorityClassName") },
		func() error { return fillSecretNames(pod) },
		func() error { return extendOptional(pod, "volumes", ".Values.extraVolumes") },
		func() error { return fillContainer(container) },
	)
}

// fillSecretNames has the values name the Secrets of the certificates.
func fillSecretNames(pod *tree.Map) error {
	for _, part := range []string{"dashboard", "receiver"} {
		secret, err := mapAt(pod, "volumes", part+"-tls", "secret")
		if err != nil {
			return err
		}
		if err := replace(secret, "secretName", ".Values."+part+".tlsSecretName | quote"); err != nil {
			return err
		}
	}
	return nil
}

const dashboardArgs = `{{- if .Values.dashboard.enabled }}
{{- if .Values.dashboard.writes }}
- --dashboard-writes
{{- end }}
{{- with .Values.dashboard.extraArgs }}
{{- toYaml . | nindent @ }}
{{- end }}
{{- end }}
`

const receiverArgs = `{{- if .Values.receiver.enabled }}
{{- with .Values.receiver.extraArgs }}
{{- toYaml . | nindent @ }}
{{- end }}
{{- end }}
`

const memoryLimit = `{{- with include "minifleet.gomemlimit" . }}
- name: GOMEMLIMIT
  value: {{ . | quote }}
{{- end }}
`

func fillContainer(container *tree.Map) error {
	env, err := tree.At(container, "env")
	if err != nil {
		return err
	}
	list, ok := env.(*tree.List)
	if !ok || list.Named(memoryVariable) == nil {
		return fmt.Errorf("there is no variable %s", memoryVariable)
	}
	list.Named(memoryVariable).Value = tree.Raw(memoryLimit)
	return steps(
		func() error { return replace(container, "image", `include "minifleet.image" . | quote`) },
		func() error { return insertScalar(container, "imagePullPolicy", ".Values.image.pullPolicy") },
		func() error {
			return extend(container, "args", dashboardArgs, receiverArgs, more(".Values.extraArgs"))
		},
		func() error { return extend(container, "env", more(".Values.extraEnv")) },
		func() error { return extendOptional(container, "volumeMounts", ".Values.extraVolumeMounts") },
		func() error {
			f := container.Field("resources")
			if f == nil {
				return fmt.Errorf("there are no resources")
			}
			*f = tree.Field{Value: tree.Raw("{{- with .Values.resources }}\nresources: {{- toYaml . | nindent @+ }}\n{{- end }}\n")}
			return nil
		},
	)
}

const memoryVariable = "GOMEMLIMIT"

// Settings are what config sets and the values have as defaults.
type Settings struct {
	Repository, Tag string
	Replicas        int64
	Resources       map[string]any
	// GoMemory and Memory are GOMEMLIMIT and the limit of memory, in MiB.
	GoMemory, Memory int64
	// PodLabels and PodAnnotations are keys that values may not set.
	PodLabels, PodAnnotations []string
}

// settings reads them from the Deployment.
func settings(deployment map[string]any) (Settings, error) {
	var s Settings
	t := tree.Literal(deployment)
	get := func(path ...string) any {
		n, err := tree.At(t, path...)
		if scalar, ok := n.(tree.Scalar); ok && err == nil {
			return scalar.Value
		}
		return nil
	}
	in := func(path ...string) []string {
		return append([]string{"spec", "template", "spec", "containers", "controller"}, path...)
	}
	image, _ := get(in("image")...).(string)
	var found bool
	if s.Repository, s.Tag, found = strings.Cut(image, ":"); !found {
		return s, fmt.Errorf("the image %q has no tag", image)
	}
	switch r := get("spec", "replicas").(type) {
	case int:
		s.Replicas = int64(r)
	case int64:
		s.Replicas = r
	case float64:
		s.Replicas = int64(r)
	default:
		return s, fmt.Errorf("there is no spec.replicas")
	}
	limit, _ := get(in("resources", "limits", "memory")...).(string)
	goLimit, _ := get(in("env", memoryVariable, "value")...).(string)
	var err error
	if s.Memory, err = mebibytes(limit); err != nil {
		return s, fmt.Errorf("the limit of memory: %w", err)
	}
	// Go writes MiB where Kubernetes writes Mi.
	if s.GoMemory, err = mebibytes(strings.TrimSuffix(goLimit, "B")); err != nil {
		return s, fmt.Errorf("%s: %w", memoryVariable, err)
	}
	s.Resources = resourcesOf(deployment)
	s.PodLabels, s.PodAnnotations = keysAt(t, "labels"), keysAt(t, "annotations")
	return s, nil
}

func mebibytes(quantity string) (int64, error) {
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", quantity, err)
	}
	if q.Value() < 1<<20 || q.Value()%(1<<20) != 0 {
		return 0, fmt.Errorf("%s is no number of MiB", quantity)
	}
	return q.Value() >> 20, nil
}

func resourcesOf(deployment map[string]any) map[string]any {
	var value any = deployment
	for _, key := range []string{"spec", "template", "spec", "containers"} {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	list, _ := value.([]any)
	if len(list) == 0 {
		return nil
	}
	container, _ := list[0].(map[string]any)
	out, _ := container["resources"].(map[string]any)
	return out
}

func keysAt(deployment tree.Node, field string) []string {
	m, err := mapAt(deployment, "spec", "template", "metadata", field)
	if err != nil {
		return nil
	}
	var out []string
	for _, f := range m.Fields {
		out = append(out, f.Key)
	}
	return out
}
