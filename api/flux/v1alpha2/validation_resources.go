package v1alpha2

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateResources checks the requests and limits of a container as an API server does.
func validateResources(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	errs := validateResourceList(r.Limits, path.Child("limits"))
	errs = append(errs, validateResourceList(r.Requests, path.Child("requests"))...)
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		at, request := key(path.Child("requests"), string(name)), r.Requests[name]
		limit, limited := r.Limits[name]
		switch {
		case !limited && !mayOvercommit(name):
			errs = append(errs, field.Required(key(path.Child("limits"), string(name)), "set the limit too: this resource is given whole or not at all"))
		case limited && !mayOvercommit(name) && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at, request.String(), "must be the same as the limit, "+limit.String()))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), "must not be above the limit, "+limit.String()+": raise the limit or lower the request"))
		}
	}
	errs = append(errs, validateHugePages(path, r.Limits, r.Requests)...)
	if len(r.Claims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("claims"), "the pods of a MiniCluster have no resource claims: remove them"))
	}
	return errs
}

func validateResourceList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at, quantity := key(path, string(name)), list[name]
		if problems := validateResourceName(name, at); len(problems) > 0 {
			errs = append(errs, problems...)
			continue
		}
		switch {
		case quantity.Sign() < 0:
			errs = append(errs, field.Invalid(at, quantity.String(), "must not be negative"))
		case isExtended(name) && quantity.MilliValue()%1000 != 0:
			errs = append(errs, field.Invalid(at, quantity.String(), "must be a whole number"))
		case isHugePages(name) && !isMultiple(quantity, name):
			errs = append(errs, field.Invalid(at, quantity.String(), "must be a multiple of the page size in the resource's name"))
		}
	}
	return errs
}

// validateResourceName checks for a resource that containers have: one of Kubernetes itself, or one of
// somebody's domain.
func validateResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	switch {
	case len(validation.IsQualifiedName(string(name))) > 0:
		return invalid(path, string(name), validation.IsQualifiedName(string(name)))
	case !strings.Contains(string(name), "/"):
		if isHugePages(name) {
			return nil
		}
		switch name {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			return nil
		}
		return notSupported(path, string(name), "cpu", "memory", "ephemeral-storage", "hugepages-SIZE", "DOMAIN/NAME")
	case isExtended(name) && len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) > 0,
		strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix):
		return field.ErrorList{field.Invalid(path, short(string(name)), fmt.Sprintf(
			"must not begin with %s, and must be short enough for a quota to begin with it", corev1.DefaultResourceRequestsPrefix))}
	}
	return nil
}

// isExtended says whether a resource is one of somebody's domain, such as nvidia.com/gpu.
func isExtended(name corev1.ResourceName) bool {
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

func isHugePages(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func mayOvercommit(name corev1.ResourceName) bool {
	return !isExtended(name) && !isHugePages(name)
}

func isMultiple(quantity resource.Quantity, name corev1.ResourceName) bool {
	page, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	return err == nil && page.Sign() > 0 && page.Value() > 0 && page.MilliValue()%1000 == 0 && quantity.Value()%page.Value() == 0
}

// validateHugePages checks that huge pages do not stand alone.
func validateHugePages(path *field.Path, lists ...corev1.ResourceList) field.ErrorList {
	pages := false
	for _, list := range lists {
		for name := range list {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory {
				return nil
			}
			pages = pages || isHugePages(name)
		}
	}
	if !pages {
		return nil
	}
	return field.ErrorList{field.Required(path, "huge pages need cpu or memory beside them: add one")}
}
