package v1alpha2

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Names that a MiniCluster's pods already use for volumes.
var reservedVolumes = []string{"spack-software", "flux-operator-home", "minifleet-entrypoint", "minifleet-munge"}

// Validate reports every problem of a MiniCluster called name, each with what to do about it. The
// paths of the problems start at path, the spec's own. It judges the spec as Default would leave it,
// and changes nothing.
func Validate(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	spec = spec.DeepCopy()
	spec.Default()

	var errs field.ErrorList
	errs = append(errs, validateName(name, spec, field.NewPath("metadata", "name"))...)
	errs = append(errs, validateSizes(spec, path)...)
	errs = append(errs, validateContainers(name, spec, path.Child("containers"))...)
	errs = append(errs, validateServices(spec, path.Child("services"))...)
	errs = append(errs, validateFlux(&spec.Flux, path.Child("flux"))...)
	errs = append(errs, validatePod(&spec.Pod, path.Child("pod"))...)
	errs = append(errs, validateLabels(spec.JobLabels, path.Child("jobLabels"))...)
	if headless := spec.Network.HeadlessName; headless != "" {
		errs = append(errs, invalid(path.Child("network", "headlessName"), headless, validation.IsDNS1035Label(headless))...)
	}
	if archive := spec.Archive.Path; archive != "" && !strings.HasPrefix(archive, "/") {
		errs = append(errs, field.Invalid(path.Child("archive", "path"), archive, "must be an absolute path"))
	} else if strings.ContainsAny(archive, ",\n") {
		// Flux splits the options of its brokers at commas.
		errs = append(errs, field.Invalid(path.Child("archive", "path"), archive, "must not contain a comma or a line break"))
	}
	return errs
}

// validateName checks the name for its three uses: the headless Service, the container that runs Flux,
// and the pods' hostnames, NAME-INDEX.
func validateName(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	errs := invalid(path, name, validation.IsDNS1035Label(name))
	last := name + "-" + strconv.Itoa(int(max(spec.LargestSize(), 1)-1))
	if len(errs) == 0 && len(last) > validation.DNS1123LabelMaxLength {
		errs = append(errs, field.Invalid(path, name, fmt.Sprintf(
			"the last pod would be called %s, of %d characters, and a hostname has at most %d: choose a shorter name",
			last, len(last), validation.DNS1123LabelMaxLength)))
	}
	return errs
}

func validateSizes(spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Size < 1 {
		errs = append(errs, field.Invalid(path.Child("size"), spec.Size, "must be at least 1: the lead broker needs a pod"))
	}
	for _, f := range []struct {
		name  string
		value int32
	}{
		{"maxSize", spec.MaxSize}, {"minSize", spec.MinSize}, {"tasks", *spec.Tasks}, {"backoffLimit", spec.BackoffLimit},
	} {
		if f.value < 0 {
			errs = append(errs, field.Invalid(path.Child(f.name), f.value, "must not be negative"))
		}
	}
	if spec.MaxSize > 0 && spec.Size > spec.MaxSize {
		errs = append(errs, field.Invalid(path.Child("size"), spec.Size,
			fmt.Sprintf("must not be above maxSize, %d: raise maxSize or lower size", spec.MaxSize)))
	}
	if spec.MinSize > spec.Size {
		errs = append(errs, field.Invalid(path.Child("minSize"), spec.MinSize,
			fmt.Sprintf("must not be above size, %d: Flux would wait for brokers that never come", spec.Size)))
	}
	if spec.DeadlineSeconds < 1 {
		errs = append(errs, field.Invalid(path.Child("deadlineSeconds"), spec.DeadlineSeconds, "must be at least 1 second"))
	}
	return errs
}

func validateContainers(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	if len(spec.Containers) == 0 {
		return field.ErrorList{field.Required(path, "add the container that runs Flux")}
	}
	var errs field.ErrorList
	var runners []string
	volumes := map[string]ContainerVolume{}
	seen := map[string]bool{spec.Flux.Container.Name: true}
	for i := range spec.Containers {
		c, at := &spec.Containers[i], path.Index(i)
		// The container that runs Flux is called as the MiniCluster is, whatever its own name says.
		called := c.Name
		if c.RunFlux {
			called = name
			runners = append(runners, strconv.Itoa(i))
			errs = append(errs, validateRunner(c, at)...)
		} else {
			errs = append(errs, validateContainerName(c.Name, at.Child("name"))...)
			errs = append(errs, validateServiceName(c, spec.Network.HeadlessName, at.Child("name"))...)
		}
		if called != "" && seen[called] {
			errs = append(errs, field.Duplicate(at.Child("name"), called))
		}
		seen[called] = true
		errs = append(errs, validateContainer(c, spec.Flux.Container.Name, at)...)
		errs = append(errs, validateSharedVolumes(c.Volumes, volumes, at.Child("volumes"))...)
	}
	if len(runners) != 1 {
		errs = append(errs, field.Invalid(path, strings.Join(runners, ", "), fmt.Sprintf(
			"exactly one container runs Flux, and here %d do: set runFlux: true on one", len(runners))))
	}
	return errs
}

func validateServices(spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen, volumes := map[string]bool{}, map[string]ContainerVolume{}
	for i := range spec.Services {
		c, at := &spec.Services[i], path.Index(i)
		if c.RunFlux {
			errs = append(errs, field.Forbidden(at.Child("runFlux"), "a service runs beside Flux: move it to containers"))
		}
		for _, f := range []struct{ name, value string }{
			{"pre", c.Commands.Pre}, {"brokerPre", c.Commands.BrokerPre}, {"workerPre", c.Commands.WorkerPre},
		} {
			if f.value != "" {
				errs = append(errs, field.Forbidden(at.Child("commands", f.name), "a service has no broker: use servicePre"))
			}
		}
		errs = append(errs, validateContainerName(c.Name, at.Child("name"))...)
		if c.Name != "" && seen[c.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		seen[c.Name] = true
		errs = append(errs, validateContainer(c, "", at)...)
		errs = append(errs, validateSharedVolumes(c.Volumes, volumes, at.Child("volumes"))...)
	}
	return errs
}

func validateContainerName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "name the container, or set runFlux: true if it runs Flux")}
	}
	return invalid(path, name, validation.IsDNS1123Label(name))
}

// validateServiceName checks the name of a sidecar with ports, whose Service is called as it is.
func validateServiceName(c *MiniClusterContainer, headlessName string, path *field.Path) field.ErrorList {
	if len(c.Ports) == 0 || c.Name == "" {
		return nil
	}
	if c.Name == headlessName {
		return field.ErrorList{field.Invalid(path, c.Name, "the headless Service has this name: choose another for one of them")}
	}
	return invalid(path, c.Name, validation.IsDNS1035Label(c.Name))
}

// validateRunner checks what only the container that runs Flux may combine.
func validateRunner(c *MiniClusterContainer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Launcher && c.Batch {
		errs = append(errs, field.Invalid(path.Child("launcher"), true, "launcher and batch exclude each other: choose one"))
	}
	if c.Command != "" && c.Commands.Script != "" {
		errs = append(errs, field.Invalid(path.Child("commands", "script"), "(script)", "command and script exclude each other: choose one"))
	}
	if c.Batch && c.Command == "" {
		errs = append(errs, field.Required(path.Child("command"), "a batch needs the lines to run, one job each"))
	}
	return errs
}

func validateContainer(c *MiniClusterContainer, viewVolume string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch corev1.PullPolicy(c.ImagePullPolicy) {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		errs = append(errs, field.NotSupported(path.Child("imagePullPolicy"), corev1.PullPolicy(c.ImagePullPolicy),
			[]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever}))
	}
	seen := map[int32]bool{}
	for i, port := range c.Ports {
		at := path.Child("ports").Index(i)
		errs = append(errs, invalid(at, port, validation.IsValidPortNum(int(port)))...)
		if seen[port] {
			errs = append(errs, field.Duplicate(at, port))
		}
		seen[port] = true
	}
	errs = append(errs, validateEnvironment(c.Environment, path.Child("environment"))...)
	for _, variable := range slices.Sorted(maps.Keys(c.Secrets)) {
		at, secret := path.Child("secrets").Key(variable), c.Secrets[variable]
		errs = append(errs, invalid(at, variable, validation.IsEnvVarName(variable))...)
		if _, both := c.Environment[variable]; both {
			errs = append(errs, field.Duplicate(at, variable))
		}
		errs = append(errs, invalid(at.Child("name"), secret.Name, validation.IsDNS1123Subdomain(secret.Name))...)
		errs = append(errs, invalid(at.Child("key"), secret.Key, validation.IsConfigMapKey(secret.Key))...)
	}
	if c.Logs != "" && !strings.HasPrefix(c.Logs, "/") {
		errs = append(errs, field.Invalid(path.Child("logs"), c.Logs, "must be an absolute path"))
	}
	errs = append(errs, validateObjectName(c.ImagePullSecret, path.Child("imagePullSecret"))...)
	return append(errs, validateVolumes(c.Volumes, viewVolume, path.Child("volumes"))...)
}

func validateVolumes(volumes map[string]ContainerVolume, viewVolume string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		volume, at := volumes[name], path.Key(name)
		errs = append(errs, invalid(at, name, validation.IsDNS1123Label(name))...)
		if slices.Contains(reservedVolumes, name) || (name == viewVolume && viewVolume != "") {
			errs = append(errs, field.Invalid(at, name, "the MiniCluster's pods have a volume of this name: choose another"))
		}
		switch {
		case volume.Path == "" && !volume.EmptyDir:
			errs = append(errs, field.Required(at.Child("path"), "say where to mount the volume"))
		case strings.Contains(volume.Path, ":"):
			errs = append(errs, field.Invalid(at.Child("path"), volume.Path, "must not contain ':'"))
		}
		errs = append(errs, validateVolumeSource(&volume, at)...)
	}
	return errs
}

func validateVolumeSource(v *ContainerVolume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if v.EmptyDirMedium != "" && !strings.EqualFold(v.EmptyDirMedium, "memory") {
		errs = append(errs, field.NotSupported(path.Child("emptyDirMedium"), v.EmptyDirMedium, []string{"memory", ""}))
	}
	if v.EmptyDirSizeLimit != "" {
		if _, err := resource.ParseQuantity(v.EmptyDirSizeLimit); err != nil {
			errs = append(errs, field.Invalid(path.Child("emptyDirSizeLimit"), v.EmptyDirSizeLimit, "must be a quantity, such as 64Gi"))
		}
	}
	if v.HostPath != "" && !strings.HasPrefix(v.HostPath, "/") {
		errs = append(errs, field.Invalid(path.Child("hostPath"), v.HostPath, "must be an absolute path"))
	}
	errs = append(errs, validateObjectName(v.SecretName, path.Child("secretName"))...)
	errs = append(errs, validateObjectName(v.ConfigMapName, path.Child("configMapName"))...)
	errs = append(errs, validateObjectName(v.ClaimName, path.Child("claimName"))...)
	for _, key := range slices.Sorted(maps.Keys(v.Items)) {
		if file := v.Items[key]; file == "" || strings.HasPrefix(file, "/") || slices.Contains(strings.Split(file, "/"), "..") {
			errs = append(errs, field.Invalid(path.Child("items").Key(key), file, "must be a path below the volume's, without '..'"))
		}
	}
	return errs
}

// validateSharedVolumes checks that a volume is the same in every container of a pod that mounts it,
// though each may mount it elsewhere, and adds the volumes to those seen.
func validateSharedVolumes(volumes, seen map[string]ContainerVolume, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		source := volumes[name]
		source.Path, source.ReadOnly = "", false
		if other, ok := seen[name]; ok && !equality.Semantic.DeepEqual(source, other) {
			errs = append(errs, field.Invalid(path.Key(name), name,
				"another container has a different volume of this name: rename one, or make them the same"))
			continue
		}
		seen[name] = source
	}
	return errs
}

// Options of the brokers stand in shell words, so they are held to the characters that they need.
var (
	fluxDuration = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)?$`)
	fluxTopology = regexp.MustCompile(`^[A-Za-z0-9:._/+=,-]+$`)
)

func validateFlux(f *FluxSpec, path *field.Path) field.ErrorList {
	container := path.Child("container")
	errs := validateContainerName(f.Container.Name, container.Child("name"))
	if slices.Contains(reservedVolumes, f.Container.Name) {
		errs = append(errs, field.Invalid(container.Child("name"), f.Container.Name, "names a volume of the pods: choose another"))
	}
	if p := f.Container.MountPath; !strings.HasPrefix(p, "/") || strings.ContainsAny(p, ":,\n") {
		errs = append(errs, field.Invalid(container.Child("mountPath"), p, "must be an absolute path, without ':' and ','"))
	}
	if !fluxDuration.MatchString(f.ConnectTimeout) {
		errs = append(errs, field.Invalid(path.Child("connectTimeout"), f.ConnectTimeout, "must be a duration as Flux writes it, such as 5s"))
	}
	if f.Topology != "" && !fluxTopology.MatchString(f.Topology) {
		errs = append(errs, field.Invalid(path.Child("topology"), f.Topology, "must be a topology as Flux writes it, such as kary:2"))
	}
	if hasOpenQuote(f.OptionFlags) {
		errs = append(errs, field.Invalid(path.Child("optionFlags"), f.OptionFlags, "a quote is not closed"))
	}
	if f.LogLevel < 0 || f.LogLevel > 7 {
		errs = append(errs, field.Invalid(path.Child("logLevel"), f.LogLevel, "must be from 1 (alert) to 7 (debug)"))
	}
	errs = append(errs, validateObjectName(f.Container.ImagePullSecret, container.Child("imagePullSecret"))...)
	errs = append(errs, validateObjectName(f.MungeSecret, path.Child("mungeSecret"))...)
	for _, name := range slices.Sorted(maps.Keys(f.Environment)) {
		// These are exported by a shell, which knows no other names.
		errs = append(errs, invalid(path.Child("environment"), name, validation.IsCIdentifier(name))...)
	}
	return append(errs, validateBursting(&f.Bursting, path.Child("bursting"))...)
}

// hasOpenQuote says whether a quote in text, of either kind, is not closed.
func hasOpenQuote(text string) bool {
	var quote rune
	for _, c := range text {
		switch {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		}
	}
	return quote != 0
}

func validateBursting(b *Bursting, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if b.Hostlist != "" && len(b.Clusters) > 0 {
		errs = append(errs, field.Invalid(path.Child("hostlist"), b.Hostlist, "hostlist and clusters exclude each other: choose one"))
	}
	if lead := b.LeadBroker; lead != (FluxBroker{}) {
		at := path.Child("leadBroker")
		if lead.Address == "" {
			errs = append(errs, field.Required(at.Child("address"), "say where the lead broker is reached"))
		}
		errs = append(errs, invalid(at.Child("name"), lead.Name, validation.IsDNS1123Label(lead.Name))...)
		if lead.Size < 1 {
			errs = append(errs, field.Invalid(at.Child("size"), lead.Size, "must be at least 1"))
		}
		errs = append(errs, invalid(at.Child("port"), lead.Port, validation.IsValidPortNum(int(lead.Port)))...)
	}
	seen := map[string]bool{}
	for i, cluster := range b.Clusters {
		at := path.Child("clusters").Index(i)
		errs = append(errs, invalid(at.Child("name"), cluster.Name, validation.IsDNS1123Label(cluster.Name))...)
		if seen[cluster.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), cluster.Name))
		}
		seen[cluster.Name] = true
		if cluster.Size < 1 {
			errs = append(errs, field.Invalid(at.Child("size"), cluster.Size, "must be at least 1"))
		}
	}
	return errs
}

func validatePod(p *PodSpec, path *field.Path) field.ErrorList {
	errs := validateLabels(p.Labels, path.Child("labels"))
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		errs = append(errs, invalid(path.Child("annotations"), key, validation.IsQualifiedName(strings.ToLower(key)))...)
	}
	switch corev1.RestartPolicy(p.RestartPolicy) {
	case "", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
	default:
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), corev1.RestartPolicy(p.RestartPolicy),
			[]corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	}
	switch corev1.DNSPolicy(p.DNSPolicy) {
	case "", corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault:
	default:
		errs = append(errs, field.NotSupported(path.Child("dnsPolicy"), corev1.DNSPolicy(p.DNSPolicy),
			[]corev1.DNSPolicy{corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault}))
	}
	for i, t := range p.Tolerations {
		errs = append(errs, validateToleration(t, path.Child("tolerations").Index(i))...)
	}
	errs = append(errs, validateLabels(p.NodeSelector, path.Child("nodeSelector"))...)
	for _, label := range slices.Sorted(maps.Keys(p.NodeAffinity)) {
		if len(p.NodeAffinity[label]) == 0 {
			errs = append(errs, field.Required(path.Child("nodeAffinity").Key(label), "list the values that suit"))
		}
	}
	return errs
}

func validateToleration(t Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch corev1.TolerationOperator(t.Operator) {
	case "", corev1.TolerationOpEqual:
		if t.Key == "" {
			errs = append(errs, field.Required(path.Child("key"), "name the taint's key, or set operator: Exists to tolerate all"))
		}
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "Exists takes no value: remove it, or use Equal"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), corev1.TolerationOperator(t.Operator),
			[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
	}
	switch corev1.TaintEffect(t.Effect) {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, field.NotSupported(path.Child("effect"), corev1.TaintEffect(t.Effect),
			[]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}))
	}
	return errs
}

func validateLabels(labels map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		errs = append(errs, invalid(path, key, validation.IsQualifiedName(key))...)
		errs = append(errs, invalid(path.Key(key), labels[key], validation.IsValidLabelValue(labels[key]))...)
	}
	return errs
}

func validateEnvironment(environment map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		errs = append(errs, invalid(path, name, validation.IsEnvVarName(name))...)
	}
	return errs
}

func validateObjectName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	return invalid(path, name, validation.IsDNS1123Subdomain(name))
}

// invalid turns the messages of the API machinery's checks into problems of one field.
func invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, message := range messages {
		errs = append(errs, field.Invalid(path, value, message))
	}
	return errs
}
