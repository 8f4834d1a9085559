package v1alpha2

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Names that a MiniCluster's pods already use for volumes.
var reservedVolumes = []string{"spack-software", "flux-operator-home", "minifleet-entrypoint", "minifleet-munge"}

// Where a MiniCluster's pods have mounts of their own, beside flux.container.mountPath.
const (
	scriptsPath  = "/flux_operator"
	homePath     = "/home/flux-operator"
	softwarePath = "/opt/software"
	mungePath    = "/etc/munge" // with flux.mungeSecret
	sharedMemory = "/dev/shm"   // where an emptyDir without a path goes
)

// validateVolumes checks the volumes of one container, and notes them for those after it.
func (p *podNames) validateVolumes(volumes map[string]ContainerVolume, at *field.Path) field.ErrorList {
	if len(volumes) > maxVolumes {
		return field.ErrorList{field.TooMany(at, len(volumes), maxVolumes)}
	}
	var errs field.ErrorList
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		volume, at := volumes[name], key(at, name)
		errs = append(errs, invalid(at, name, validation.IsDNS1123Label(name))...)
		if slices.Contains(reservedVolumes, name) || name != "" && name == p.view {
			errs = append(errs, field.Invalid(at, short(name), "the MiniCluster's pods have a volume of this name: choose another"))
		}
		errs = append(errs, p.validateMount(&volume, taken, name, at.Child("path"))...)
		errs = append(errs, validateVolumeSource(&volume, at)...)
		errs = append(errs, p.share(name, volume, at)...)
	}
	return errs
}

// validateMount checks where a volume is mounted; taken are the paths of the container's other volumes.
func (p *podNames) validateMount(v *ContainerVolume, taken map[string]string, name string, at *field.Path) field.ErrorList {
	if v.Path == "" && !v.EmptyDir {
		return field.ErrorList{field.Required(at, "say where to mount the volume")}
	}
	where := sharedMemory
	if v.Path != "" {
		where = cleanPath(v.Path)
	}
	problem := unfitMount(v.Path)
	if why, ours := p.paths[where]; ours && problem == "" {
		problem = why + ": choose another path"
	} else if other, both := taken[where]; both && problem == "" {
		problem = fmt.Sprintf("the volume %s is mounted there: choose another path", short(other))
	}
	taken[where] = name
	if problem == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, short(v.Path), problem)}
}

// unfitMount says why nothing can be mounted at a path, or "".
func unfitMount(where string) string {
	clean := cleanPath(where)
	switch {
	case where == "":
		return ""
	case len(where) > maxPathLength:
		return fmt.Sprintf("must be no more than %d bytes", maxPathLength)
	case strings.Contains(where, ":"):
		return "must not contain ':'"
	case slices.Contains(strings.Split(where, "/"), ".."):
		return "must not contain '..': write the path in full"
	case clean == "/" || clean == "/proc" || strings.HasPrefix(clean, "/proc/"):
		return "nothing can be mounted there: choose another path"
	case strings.HasPrefix(clean, scriptsPath+"/"):
		return "the scripts of the pods are mounted read-only at " + scriptsPath + ": choose another path"
	}
	return ""
}

// cleanPath is a path as the container runtime understands it: from the root, and in its shortest form.
func cleanPath(p string) string {
	return path.Clean("/" + p)
}

// share checks that a volume is the same in every container of a pod that mounts it, though each may mount
// it elsewhere.
func (p *podNames) share(name string, volume ContainerVolume, at *field.Path) field.ErrorList {
	volume.Path, volume.ReadOnly = "", false
	other, seen := p.volumes[name]
	if !seen {
		p.volumes[name] = volume
		return nil
	}
	if equality.Semantic.DeepEqual(volume, other) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, short(name),
		"another container has a different volume of this name: rename one, or make them the same")}
}

func validateVolumeSource(v *ContainerVolume, at *field.Path) field.ErrorList {
	errs := validateOneSource(v, at)
	errs = append(errs, validateEmptyDir(v, at)...)
	if v.HostPath != "" {
		errs = append(errs, validateAbsolute(v.HostPath, at.Child("hostPath"))...)
		if slices.Contains(strings.Split(v.HostPath, "/"), "..") {
			errs = append(errs, field.Invalid(at.Child("hostPath"), short(v.HostPath), "must not contain '..': write the path in full"))
		}
	}
	errs = append(errs, validateObjectName(v.SecretName, at.Child("secretName"))...)
	errs = append(errs, validateObjectName(v.ConfigMapName, at.Child("configMapName"))...)
	errs = append(errs, validateObjectName(v.ClaimName, at.Child("claimName"))...)
	errs = append(errs, validateItems(v, at.Child("items"))...)
	return append(errs, validateCSI(v, at)...)
}

// sources are the fields that each make a volume of a kind.
func (v *ContainerVolume) sources() []string {
	var set []string
	for _, source := range []struct {
		field string
		set   bool
	}{
		{"csiDriver", v.CSIDriver != ""}, {"secretName", v.SecretName != ""}, {"emptyDir", v.EmptyDir},
		{"hostPath", v.HostPath != ""}, {"configMapName", v.ConfigMapName != ""}, {"claimName", v.ClaimName != ""},
	} {
		if source.set {
			set = append(set, source.field)
		}
	}
	return set
}

func validateOneSource(v *ContainerVolume, at *field.Path) field.ErrorList {
	sources := v.sources()
	if len(sources) < 2 {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, "a volume has one source, and here it has "+strings.Join(sources, " and ")+": keep one")}
}

// validateEmptyDir checks what is for an emptyDir only, which a volume without any source is too.
func validateEmptyDir(v *ContainerVolume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	isOne := v.EmptyDir || len(v.sources()) == 0
	for _, f := range []struct{ name, value string }{
		{"emptyDirMedium", v.EmptyDirMedium}, {"emptyDirSizeLimit", v.EmptyDirSizeLimit},
	} {
		if f.value != "" && !isOne {
			errs = append(errs, field.Forbidden(at.Child(f.name), "is for an emptyDir only: set emptyDir: true in place of the source, or remove it"))
		}
	}
	if v.EmptyDirMedium != "" && !strings.EqualFold(v.EmptyDirMedium, "memory") {
		errs = append(errs, notSupported(at.Child("emptyDirMedium"), v.EmptyDirMedium, "memory", "")...)
	}
	if v.EmptyDirSizeLimit != "" {
		if limit, err := resource.ParseQuantity(v.EmptyDirSizeLimit); err != nil || limit.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Child("emptyDirSizeLimit"), short(v.EmptyDirSizeLimit),
				"must be a quantity that is not negative, such as 64Gi"))
		}
	}
	return errs
}

func validateItems(v *ContainerVolume, at *field.Path) field.ErrorList {
	if len(v.Items) == 0 {
		return nil
	}
	if v.ConfigMapName == "" {
		return field.ErrorList{field.Forbidden(at, "are keys of a ConfigMap: set configMapName, or remove them")}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(v.Items)) {
		file, at := v.Items[name], key(at, name)
		errs = append(errs, invalid(at, name, validation.IsConfigMapKey(name))...)
		if file == "" || strings.HasPrefix(file, "/") || strings.HasPrefix(file, "..") || slices.Contains(strings.Split(file, "/"), "..") {
			errs = append(errs, field.Invalid(at, short(file), "must be a path below the volume's, without '..'"))
		}
	}
	return errs
}

// maxCSIDriver is the longest name of a CSI driver.
const maxCSIDriver = 63

func validateCSI(v *ContainerVolume, at *field.Path) field.ErrorList {
	if v.CSIDriver == "" {
		if len(v.CSIDriverAttributes) > 0 {
			return field.ErrorList{field.Forbidden(at.Child("csiDriverAttributes"), "are for a CSI driver: set csiDriver, or remove them")}
		}
		return nil
	}
	errs := invalid(at.Child("csiDriver"), v.CSIDriver, validation.IsDNS1123Subdomain(strings.ToLower(v.CSIDriver)))
	if len(v.CSIDriver) > maxCSIDriver {
		errs = append(errs, field.Invalid(at.Child("csiDriver"), short(v.CSIDriver), fmt.Sprintf("must be no more than %d characters", maxCSIDriver)))
	}
	return errs
}
