package v1alpha2

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	noWindows  = "is for pods on Windows, and a MiniCluster's run on Linux: remove it"
	noUserZero = "the container would have to run as root, which runAsNonRoot forbids: set another user, or remove runAsNonRoot"
)

// validateSecurityContext checks what an API server or a node would refuse of a container.
func validateSecurityContext(s *corev1.SecurityContext, path *field.Path) field.ErrorList {
	errs := validateIDs(path, s.RunAsUser, s.RunAsGroup)
	if s.AllowPrivilegeEscalation != nil && !*s.AllowPrivilegeEscalation {
		if s.Privileged != nil && *s.Privileged {
			errs = append(errs, field.Invalid(path.Child("allowPrivilegeEscalation"), false,
				"a privileged container cannot be kept from it: remove one of the two"))
		}
		if s.Capabilities != nil && slices.Contains(s.Capabilities.Add, "CAP_SYS_ADMIN") {
			errs = append(errs, field.Invalid(path.Child("allowPrivilegeEscalation"), false,
				"a container with the capability CAP_SYS_ADMIN cannot be kept from it: remove one of the two"))
		}
	}
	if s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount {
		errs = append(errs, notSupported(path.Child("procMount"), string(*s.ProcMount), string(corev1.DefaultProcMount))...)
	}
	return append(errs, validateProfiles(s.SeccompProfile, s.AppArmorProfile, s.WindowsOptions, path)...)
}

func validatePodSecurityContext(s *corev1.PodSecurityContext, hostIPC bool, path *field.Path) field.ErrorList {
	errs := validateIDs(path, s.RunAsUser, s.RunAsGroup)
	if s.FSGroup != nil {
		errs = append(errs, invalid(path.Child("fsGroup"), *s.FSGroup, validation.IsValidGroupID(*s.FSGroup))...)
	}
	for i, group := range s.SupplementalGroups {
		errs = append(errs, invalid(path.Child("supplementalGroups").Index(i), group, validation.IsValidGroupID(group))...)
	}
	errs = append(errs, oneOf(s.FSGroupChangePolicy, path.Child("fsGroupChangePolicy"), corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)...)
	errs = append(errs, oneOf(s.SupplementalGroupsPolicy, path.Child("supplementalGroupsPolicy"),
		corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	errs = append(errs, oneOf(s.SELinuxChangePolicy, path.Child("seLinuxChangePolicy"),
		corev1.SELinuxChangePolicyRecursive, corev1.SELinuxChangePolicyMountOption)...)
	errs = append(errs, validateSysctls(s.Sysctls, hostIPC, path.Child("sysctls"))...)
	return append(errs, validateProfiles(s.SeccompProfile, s.AppArmorProfile, s.WindowsOptions, path)...)
}

func validateIDs(path *field.Path, user, group *int64) field.ErrorList {
	var errs field.ErrorList
	if user != nil {
		errs = append(errs, invalid(path.Child("runAsUser"), *user, validation.IsValidUserID(*user))...)
	}
	if group != nil {
		errs = append(errs, invalid(path.Child("runAsGroup"), *group, validation.IsValidGroupID(*group))...)
	}
	return errs
}

func oneOf[T ~string](value *T, path *field.Path, known ...T) field.ErrorList {
	if value == nil || slices.Contains(known, *value) {
		return nil
	}
	names := make([]string, len(known))
	for i := range known {
		names[i] = string(known[i])
	}
	return notSupported(path, string(*value), names...)
}

func validateProfiles(seccomp *corev1.SeccompProfile, armor *corev1.AppArmorProfile, windows *corev1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if seccomp != nil {
		errs = append(errs, validateProfile(string(seccomp.Type), seccomp.LocalhostProfile, path.Child("seccompProfile"))...)
		if file := seccomp.LocalhostProfile; file != nil && (strings.HasPrefix(*file, "/") || slices.Contains(strings.Split(*file, "/"), "..")) {
			errs = append(errs, field.Invalid(path.Child("seccompProfile", "localhostProfile"), short(*file),
				"must be a path below the node's folder of profiles, without '..'"))
		}
	}
	if armor != nil {
		errs = append(errs, validateProfile(string(armor.Type), armor.LocalhostProfile, path.Child("appArmorProfile"))...)
		if name := armor.LocalhostProfile; name != nil && (strings.TrimSpace(*name) != *name || len(*name) > maxPathLength) {
			errs = append(errs, field.Invalid(path.Child("appArmorProfile", "localhostProfile"), short(*name),
				"must be the name of a profile, without spaces around it"))
		}
	}
	if windows != nil {
		errs = append(errs, field.Forbidden(path.Child("windowsOptions"), noWindows))
	}
	return errs
}

// validateProfile checks the type of a seccomp or AppArmor profile, and that only one of the node has a name.
func validateProfile(kind string, file *string, path *field.Path) field.ErrorList {
	switch kind {
	case "":
		return field.ErrorList{field.Required(path.Child("type"), "say which: Localhost, RuntimeDefault or Unconfined")}
	case "Localhost":
		if file == nil || *file == "" {
			return field.ErrorList{field.Required(path.Child("localhostProfile"), "name the node's profile")}
		}
	case "RuntimeDefault", "Unconfined":
		if file != nil {
			return field.ErrorList{field.Forbidden(path.Child("localhostProfile"), "is for the type Localhost: change the type, or remove it")}
		}
	default:
		return notSupported(path.Child("type"), kind, "Localhost", "RuntimeDefault", "Unconfined")
	}
	return nil
}

// sysctlName is the name of a kernel parameter, with dots or slashes.
var sysctlName = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

// ipcSysctls are the beginnings of the parameters that belong to the IPC namespace.
var ipcSysctls = []string{"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."}

func validateSysctls(sysctls []corev1.Sysctl, hostIPC bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, s := range sysctls {
		at := path.Index(i).Child("name")
		if len(s.Name) > validation.DNS1123SubdomainMaxLength || !sysctlName.MatchString(s.Name) {
			errs = append(errs, field.Invalid(at, short(s.Name), "must be the name of a kernel parameter, such as kernel.shm_rmid_forced"))
			continue
		}
		if seen[s.Name] {
			errs = append(errs, field.Duplicate(at, short(s.Name)))
		}
		seen[s.Name] = true
		dotted := strings.ReplaceAll(s.Name, "/", ".")
		if hostIPC && slices.ContainsFunc(ipcSysctls, func(prefix string) bool { return strings.HasPrefix(dotted, prefix) }) {
			errs = append(errs, field.Forbidden(at, "would be set for the whole node with hostIPC: remove one of the two"))
		}
	}
	return errs
}

// validateUsers checks that no container of the pods must run as root and may not.
func validateUsers(spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	errs := validateUser(&spec.Pod, &spec.Flux.Container.SecurityContext, path.Child("flux", "container"), path)
	for i := range spec.Containers {
		errs = append(errs, validateUser(&spec.Pod, &spec.Containers[i].SecurityContext, path.Child("containers").Index(i), path)...)
	}
	for i := range spec.Services {
		errs = append(errs, validateUser(&spec.Pod, &spec.Services[i].SecurityContext, path.Child("services").Index(i), path)...)
	}
	// One user of the pod concerns all containers, and is told once.
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return slices.CompactFunc(errs, func(a, b *field.Error) bool { return a.Field == b.Field })
}

func validateUser(pod *PodSpec, own *corev1.SecurityContext, container, spec *field.Path) field.ErrorList {
	user, at := own.RunAsUser, container.Child("securityContext", "runAsUser")
	if user == nil {
		user, at = pod.SecurityContext.RunAsUser, spec.Child("pod", "securityContext", "runAsUser")
	}
	nonRoot := own.RunAsNonRoot
	if nonRoot == nil {
		nonRoot = pod.SecurityContext.RunAsNonRoot
	}
	if user == nil || *user != 0 || nonRoot == nil || !*nonRoot {
		return nil
	}
	return field.ErrorList{field.Invalid(at, int64(0), noUserZero)}
}
