package v1alpha2

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kinds of a Reference.
const (
	KindSecret    = "Secret"
	KindConfigMap = "ConfigMap"
)

// Reference is a Secret or a ConfigMap that a MiniCluster's pods need in their namespace.
//
// +kubebuilder:object:generate=false
type Reference struct {
	// Kind is KindSecret or KindConfigMap.
	Kind string
	// Name of the object.
	Name string
	// Fields are the paths of the fields that name it, in the order of the spec.
	Fields []string
	// Keys are those that must be in it, sorted. There are none where the object is taken as a whole.
	Keys []string
}

// References are the Secrets and ConfigMaps that a spec at path names, each once, sorted by kind and name.
// PersistentVolumeClaims and service accounts are not among them: they mean nothing in another cluster.
func References(spec *MiniClusterSpec, path *field.Path) []Reference {
	found := references{}
	for i := range spec.Containers {
		found.container(&spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range spec.Services {
		found.container(&spec.Services[i], path.Child("services").Index(i))
	}
	flux := path.Child("flux")
	found.add(KindSecret, spec.Flux.Container.ImagePullSecret, flux.Child("container", "imagePullSecret"))
	found.add(KindSecret, spec.Flux.MungeSecret, flux.Child("mungeSecret"))

	out := make([]Reference, 0, len(found))
	for _, reference := range found {
		slices.Sort(reference.Keys)
		reference.Keys = slices.Compact(reference.Keys)
		out = append(out, *reference)
	}
	slices.SortFunc(out, func(a, b Reference) int {
		if c := strings.Compare(a.Kind, b.Kind); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// references are those that were found so far, by kind and name.
//
// +kubebuilder:object:generate=false
type references map[[2]string]*Reference

func (r references) add(kind, name string, path *field.Path, keys ...string) {
	if name == "" {
		return
	}
	id := [2]string{kind, name}
	if r[id] == nil {
		r[id] = &Reference{Kind: kind, Name: name}
	}
	r[id].Fields = append(r[id].Fields, path.String())
	r[id].Keys = append(r[id].Keys, keys...)
}

func (r references) container(c *MiniClusterContainer, path *field.Path) {
	r.add(KindSecret, c.ImagePullSecret, path.Child("imagePullSecret"))
	for _, variable := range slices.Sorted(maps.Keys(c.Secrets)) {
		secret := c.Secrets[variable]
		r.add(KindSecret, secret.Name, path.Child("secrets").Key(variable), secret.Key)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Volumes)) {
		r.volume(c.Volumes[name], path.Child("volumes").Key(name))
	}
}

// volume follows the order in which the fields of a ContainerVolume say what kind it is: what is named
// beside the field that wins is not mounted.
func (r references) volume(v ContainerVolume, path *field.Path) {
	switch {
	case v.CSIDriver != "":
	case v.SecretName != "":
		r.add(KindSecret, v.SecretName, path.Child("secretName"))
	case v.EmptyDir, v.HostPath != "":
	case v.ConfigMapName != "":
		r.add(KindConfigMap, v.ConfigMapName, path.Child("configMapName"), slices.Sorted(maps.Keys(v.Items))...)
	}
}
