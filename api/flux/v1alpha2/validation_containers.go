package v1alpha2

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// servicesSuffix is what the pod of the services is called after its MiniCluster's name.
const servicesSuffix = "-services"

func validateContainers(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	if len(spec.Containers) == 0 {
		return field.ErrorList{field.Required(path, "add the container that runs Flux")}
	}
	errs := tooMany(spec.Containers, path)
	var runners []string
	pod := newPodNames(spec.Flux.Container.Name, spec.Flux.Container.MountPath)
	// The container that runs Flux is called as the MiniCluster is, whatever its own name says.
	pod.containers[name] = true
	if spec.Flux.MungeSecret != "" {
		pod.paths[mungePath] = "the key of flux.mungeSecret is there"
	}
	for i := range spec.Containers {
		c, at := &spec.Containers[i], path.Index(i)
		if c.RunFlux {
			runners = append(runners, strconv.Itoa(i))
			errs = append(errs, validateRunner(c, at)...)
		} else {
			errs = append(errs, validateContainerName(c.Name, at.Child("name"))...)
			errs = append(errs, pod.take(c.Name, at.Child("name"))...)
		}
		if c.Launcher && c.Batch {
			errs = append(errs, field.Invalid(at.Child("launcher"), true, "launcher and batch exclude each other: choose one"))
		}
		errs = append(errs, validateContainer(c, at)...)
		errs = append(errs, pod.validateVolumes(c.Volumes, at.Child("volumes"))...)
	}
	if len(runners) != 1 {
		errs = append(errs, field.Invalid(path, strings.Join(runners, ", "), fmt.Sprintf(
			"exactly one container runs Flux, and here %d do: set runFlux: true on one", len(runners))))
	}
	return errs
}

func validateServices(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	errs := tooMany(spec.Services, path)
	if host := name + servicesSuffix; len(spec.Services) > 0 && len(host) > validation.DNS1123LabelMaxLength && len(name) <= maxNameLength {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), short(name), fmt.Sprintf(
			"the pod of the services would be called %s, of %d characters, and a hostname has at most %d: choose a shorter name",
			host, len(host), validation.DNS1123LabelMaxLength)))
	}
	pod := newPodNames("", "")
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
		errs = append(errs, pod.take(c.Name, at.Child("name"))...)
		errs = append(errs, validateContainer(c, at)...)
		errs = append(errs, pod.validateVolumes(c.Volumes, at.Child("volumes"))...)
	}
	return errs
}

func tooMany(containers []MiniClusterContainer, path *field.Path) field.ErrorList {
	if len(containers) <= maxContainers {
		return nil
	}
	return field.ErrorList{field.TooMany(path, len(containers), maxContainers)}
}

// podNames is what the containers of a pod share: their names and volumes, and the paths that are taken.
type podNames struct {
	view       string // the volume and container of the view, if the pod has one
	containers map[string]bool
	volumes    map[string]ContainerVolume
	paths      map[string]string // of our own mounts, and what they are for
}

// newPodNames is of a pod with a view mounted at mountPath, or of one without.
func newPodNames(view, mountPath string) *podNames {
	p := &podNames{
		view: view, containers: map[string]bool{}, volumes: map[string]ContainerVolume{},
		paths: map[string]string{scriptsPath: "the scripts of the pods are there"},
	}
	if view != "" {
		p.containers[view] = true
		p.paths[homePath] = "the home directory of Flux is there"
		p.paths[softwarePath] = "the software of the view is there"
		p.paths[cleanPath(mountPath)] = "flux.container.mountPath is there"
	}
	return p
}

// take notes the name of a container, which must be free.
func (p *podNames) take(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	if p.containers[name] {
		e := field.Duplicate(path, short(name))
		e.Detail = "another container of the pod is called so: choose another name"
		if name == p.view {
			e.Detail = "the container of the view is called so (flux.container.name): choose another name"
		}
		return field.ErrorList{e}
	}
	p.containers[name] = true
	return nil
}

func validateContainerName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "name the container, or set runFlux: true if it runs Flux")}
	}
	return invalid(path, name, validation.IsDNS1123Label(name))
}

// validateServiceNames checks the names of Services: that of the headless one, and those of sidecars with
// ports, whose Services are called as they are.
func validateServiceNames(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	headless := spec.Network.HeadlessName
	var errs field.ErrorList
	if headless != "" {
		errs = invalid(path.Child("network", "headlessName"), headless, validation.IsDNS1035Label(headless))
	} else {
		headless = name
	}
	for i := range spec.Containers {
		c, at := &spec.Containers[i], path.Child("containers").Index(i).Child("name")
		switch {
		case c.RunFlux || len(c.Ports) == 0 || len(validation.IsDNS1123Label(c.Name)) > 0:
		case c.Name == headless && headless != name:
			errs = append(errs, field.Invalid(at, short(c.Name), "the headless Service has this name: choose another for one of them"))
		default:
			errs = append(errs, invalid(at, c.Name, validation.IsDNS1035Label(c.Name))...)
		}
	}
	return errs
}

// validateRunner checks what only the container that runs Flux may combine.
func validateRunner(c *MiniClusterContainer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(c.Name) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(path.Child("name"), "", validation.DNS1123SubdomainMaxLength))
	}
	if c.Command != "" && c.Commands.Script != "" {
		errs = append(errs, field.Forbidden(path.Child("commands", "script"), "command and script exclude each other: choose one"))
	}
	if c.Batch && c.Command == "" {
		errs = append(errs, field.Required(path.Child("command"), "a batch needs the lines to run, one job each"))
	}
	return errs
}

// validateContainer checks a container for itself.
func validateContainer(c *MiniClusterContainer, path *field.Path) field.ErrorList {
	errs := validateImage(c.Image, path.Child("image"))
	switch corev1.PullPolicy(c.ImagePullPolicy) {
	case "", corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever:
	default:
		errs = append(errs, notSupported(path.Child("imagePullPolicy"), c.ImagePullPolicy,
			string(corev1.PullAlways), string(corev1.PullIfNotPresent), string(corev1.PullNever))...)
	}
	errs = append(errs, validateAbsolute(c.WorkingDir, path.Child("workingDir"))...)
	errs = append(errs, validatePorts(c.Ports, path.Child("ports"))...)
	errs = append(errs, validateEnvironment(c, path)...)
	errs = append(errs, validateAbsolute(c.Logs, path.Child("logs"))...)
	errs = append(errs, validateObjectName(c.ImagePullSecret, path.Child("imagePullSecret"))...)
	errs = append(errs, validateResources(&c.Resources, path.Child("resources"))...)
	return append(errs, validateSecurityContext(&c.SecurityContext, path.Child("securityContext"))...)
}

func validatePorts(ports []int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[int32]bool{}
	for i, port := range ports {
		at := path.Index(i)
		errs = append(errs, invalid(at, port, validation.IsValidPortNum(int(port)))...)
		if seen[port] {
			e := field.Duplicate(at, port)
			e.Detail = "remove it"
			errs = append(errs, e)
		}
		seen[port] = true
	}
	return errs
}

func validateEnvironment(c *MiniClusterContainer, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(c.Environment)) {
		errs = append(errs, invalid(key(path.Child("environment"), name), name, validation.IsEnvVarName(name))...)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		at, secret := key(path.Child("secrets"), name), c.Secrets[name]
		errs = append(errs, invalid(at, name, validation.IsEnvVarName(name))...)
		if _, both := c.Environment[name]; both {
			e := field.Duplicate(at, short(name))
			e.Detail = "environment sets this variable too: remove it from one of them"
			errs = append(errs, e)
		}
		errs = append(errs, invalid(at.Child("name"), secret.Name, validation.IsDNS1123Subdomain(secret.Name))...)
		errs = append(errs, invalid(at.Child("key"), secret.Key, validation.IsConfigMapKey(secret.Key))...)
	}
	return errs
}

// imageReference is NAME[:TAG][@DIGEST] as container runtimes read it. Letters of the host only may be
// capital.
var imageReference = func() *regexp.Regexp {
	const (
		label  = `[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?`
		host   = `(?:` + label + `(?:\.` + label + `)*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?`
		part   = `[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*`
		tag    = `:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}`
		digest = `@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`
	)
	return regexp.MustCompile(`^(?:` + host + `/)?` + part + `(?:/` + part + `)*(?:` + tag + `)?(?:` + digest + `)?$`)
}()

// maxImage is the longest name of an image, in bytes, and room for its tag and digest.
const maxImage = 512

func validateImage(image string, path *field.Path) field.ErrorList {
	if len(image) <= maxImage && imageReference.MatchString(image) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, short(image),
		"must be the name of an image, such as ghcr.io/owner/name:tag, in small letters and without spaces")}
}
