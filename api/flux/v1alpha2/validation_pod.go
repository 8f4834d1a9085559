package v1alpha2

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validatePod(name string, spec *MiniClusterSpec, specPath *field.Path) field.ErrorList {
	p, path := &spec.Pod, specPath.Child("pod")
	errs := validatePodLabels(name, p.Labels, path.Child("labels"))
	errs = append(errs, validateAnnotations(name, spec, path.Child("annotations"))...)
	errs = append(errs, validatePolicies(p, path)...)
	if p.HostPID && spec.ShareProcessNamespace {
		errs = append(errs, field.Forbidden(specPath.Child("shareProcessNamespace"),
			"excludes pod.hostPID, with which containers see each other's processes anyway: remove it"))
	}
	errs = append(errs, validateObjectName(p.ServiceAccountName, path.Child("serviceAccountName"))...)
	errs = append(errs, validateObjectName(p.RuntimeClassName, path.Child("runtimeClassName"))...)
	errs = append(errs, validateObjectName(p.SchedulerName, path.Child("schedulerName"))...)
	errs = append(errs, validateLabels(p.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, validateNodeAffinity(p.NodeAffinity, path.Child("nodeAffinity"))...)
	for i, t := range p.Tolerations {
		errs = append(errs, validateToleration(t, path.Child("tolerations").Index(i))...)
	}
	errs = append(errs, validateResourceList(p.Resources, path.Child("resources"))...)
	errs = append(errs, validateHugePages(path.Child("resources"), p.Resources)...)
	if len(p.Resources) > 0 && p.RuntimeClassName == "" {
		errs = append(errs, field.Forbidden(path.Child("resources"),
			"are the overhead of a RuntimeClass, and Kubernetes refuses pods that have one without: set runtimeClassName, or give containers resources"))
	}
	return append(errs, validatePodSecurityContext(&p.SecurityContext, p.HostIPC, path.Child("securityContext"))...)
}

func validatePolicies(p *PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch corev1.RestartPolicy(p.RestartPolicy) {
	case "", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
	default:
		errs = append(errs, notSupported(path.Child("restartPolicy"), p.RestartPolicy,
			string(corev1.RestartPolicyOnFailure), string(corev1.RestartPolicyNever))...)
	}
	switch corev1.DNSPolicy(p.DNSPolicy) {
	case "", corev1.DNSClusterFirst, corev1.DNSClusterFirstWithHostNet, corev1.DNSDefault:
	default:
		errs = append(errs, notSupported(path.Child("dnsPolicy"), p.DNSPolicy,
			string(corev1.DNSClusterFirst), string(corev1.DNSClusterFirstWithHostNet), string(corev1.DNSDefault))...)
	}
	return errs
}

// validatePodLabels checks labels of pods. Some of them are how a Job knows its pods.
func validatePodLabels(name string, labels map[string]string, path *field.Path) field.ErrorList {
	errs := validateLabels(labels, path)
	for _, label := range []string{batchv1.ControllerUidLabel, "controller-uid", batchv1.JobNameLabel, "job-name"} {
		if value, set := labels[label]; set && (value != name || strings.HasSuffix(label, "controller-uid")) {
			errs = append(errs, field.Forbidden(key(path, label), "the Job sets this label of its pods: remove it"))
		}
	}
	return errs
}

// Annotations of pods that an API server reads, beside those of profiles.
const (
	mirrorAnnotation       = "kubernetes.io/config.mirror"
	tolerationsAnnotation  = "scheduler.alpha.kubernetes.io/tolerations"
	deletionCostAnnotation = "controller.kubernetes.io/pod-deletion-cost"
	// maxAnnotations is what Kubernetes allows for keys and values, in bytes, less some for its own.
	maxAnnotations = 256<<10 - 4<<10
)

func validateAnnotations(name string, spec *MiniClusterSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	total := 0
	for _, annotation := range slices.Sorted(maps.Keys(spec.Pod.Annotations)) {
		at, value := key(path, annotation), spec.Pod.Annotations[annotation]
		total += len(annotation) + len(value)
		errs = append(errs, invalid(at, annotation, validation.IsQualifiedName(strings.ToLower(annotation)))...)
		if problem := unfitAnnotation(name, spec, annotation, value); problem != "" {
			errs = append(errs, field.Invalid(at, short(value), problem))
		}
	}
	if total > maxAnnotations {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(
			"have %d bytes, and %d are the most that Kubernetes takes: make them shorter", total, maxAnnotations)))
	}
	return errs
}

// unfitAnnotation says why an API server would refuse a pod for an annotation, or "".
func unfitAnnotation(name string, spec *MiniClusterSpec, annotation, value string) string {
	switch {
	case annotation == mirrorAnnotation:
		return "is for pods that a node makes by itself: remove it"
	case annotation == tolerationsAnnotation && value != "":
		return "Kubernetes no longer tolerates anything for it: use pod.tolerations"
	case annotation == deletionCostAnnotation:
		if cost, err := strconv.ParseInt(value, 10, 32); err != nil || strconv.FormatInt(cost, 10) != value {
			return "must be a whole number of 32 bits"
		}
	case annotation == corev1.SeccompPodAnnotationKey || strings.HasPrefix(annotation, corev1.SeccompContainerAnnotationKeyPrefix):
		return "Kubernetes no longer reads it: use securityContext.seccompProfile"
	case strings.HasPrefix(annotation, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix):
		return unfitAppArmor(name, spec, strings.TrimPrefix(annotation, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix), value)
	}
	return ""
}

// unfitAppArmor says what is wrong with the annotation that gives a container a profile, or "".
func unfitAppArmor(name string, spec *MiniClusterSpec, container, profile string) string {
	fields := spec.Pod.SecurityContext.AppArmorProfile != nil || spec.Flux.Container.SecurityContext.AppArmorProfile != nil
	known := container == name || container == spec.Flux.Container.Name
	for i := range spec.Containers {
		known = known || !spec.Containers[i].RunFlux && spec.Containers[i].Name == container
		fields = fields || spec.Containers[i].SecurityContext.AppArmorProfile != nil
	}
	switch {
	case fields:
		return "securityContext.appArmorProfile is set too: remove the annotation, which it replaces"
	case !known:
		return "names a container that the pods do not have: the one that runs Flux is called " + short(name)
	case profile != "" && profile != corev1.DeprecatedAppArmorBetaProfileRuntimeDefault &&
		profile != corev1.DeprecatedAppArmorBetaProfileNameUnconfined &&
		!strings.HasPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix):
		return "must be runtime/default, unconfined or localhost/PROFILE"
	}
	return ""
}

func validateNodeAffinity(affinity map[string][]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, label := range slices.Sorted(maps.Keys(affinity)) {
		at := key(path, label)
		errs = append(errs, invalid(at, label, validation.IsQualifiedName(label))...)
		if len(affinity[label]) == 0 {
			errs = append(errs, field.Required(at, "list the values that suit"))
		}
		for i, value := range affinity[label] {
			errs = append(errs, invalid(at.Index(i), value, validation.IsValidLabelValue(value))...)
		}
	}
	return errs
}

func validateToleration(t Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = invalid(path.Child("key"), t.Key, validation.IsQualifiedName(t.Key))
	}
	switch corev1.TolerationOperator(t.Operator) {
	case "", corev1.TolerationOpEqual:
		if t.Key == "" {
			errs = append(errs, field.Required(path.Child("key"), "name the taint's key, or set operator: Exists to tolerate all"))
		}
		errs = append(errs, invalid(path.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	case corev1.TolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), short(t.Value), "Exists takes no value: remove it, or use Equal"))
		}
	default:
		errs = append(errs, notSupported(path.Child("operator"), t.Operator,
			string(corev1.TolerationOpEqual), string(corev1.TolerationOpExists))...)
	}
	switch corev1.TaintEffect(t.Effect) {
	case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, notSupported(path.Child("effect"), t.Effect, string(corev1.TaintEffectNoSchedule),
			string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute))...)
	}
	return errs
}
