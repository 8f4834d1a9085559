package v1alpha2

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestReferences(t *testing.T) {
	container := func(change func(*MiniClusterContainer)) *MiniClusterSpec {
		s := valid()
		change(&s.Containers[0])
		return s
	}
	volume := func(v ContainerVolume) *MiniClusterSpec {
		return container(func(c *MiniClusterContainer) { c.Volumes = map[string]ContainerVolume{"data": v} })
	}
	tests := map[string]struct {
		spec *MiniClusterSpec
		want []Reference
	}{
		"none": {valid(), []Reference{}},
		"a pull secret": {
			container(func(c *MiniClusterContainer) { c.ImagePullSecret = "registry" }),
			[]Reference{{Kind: "Secret", Name: "registry", Fields: []string{"spec.containers[0].imagePullSecret"}}},
		},
		"variables of one Secret, once, with their keys": {
			container(func(c *MiniClusterContainer) {
				c.Secrets = map[string]Secret{"B": {"s3", "id"}, "A": {"s3", "token"}, "C": {"s3", "id"}}
			}),
			[]Reference{{Kind: "Secret", Name: "s3", Keys: []string{"id", "token"}, Fields: []string{
				"spec.containers[0].secrets[A]", "spec.containers[0].secrets[B]", "spec.containers[0].secrets[C]",
			}}},
		},
		"a volume of a Secret": {
			volume(ContainerVolume{Path: "/d", SecretName: "license"}),
			[]Reference{{Kind: "Secret", Name: "license", Fields: []string{"spec.containers[0].volumes[data].secretName"}}},
		},
		"a volume of a ConfigMap, with items": {
			volume(ContainerVolume{Path: "/d", ConfigMapName: "input", Items: map[string]string{"in.b": "b", "in.a": "a"}}),
			[]Reference{{Kind: "ConfigMap", Name: "input", Keys: []string{"in.a", "in.b"}, Fields: []string{"spec.containers[0].volumes[data].configMapName"}}},
		},
		"of two kinds that a volume names, the one that is mounted": {
			volume(ContainerVolume{Path: "/d", SecretName: "license", ConfigMapName: "input"}),
			[]Reference{{Kind: "Secret", Name: "license", Fields: []string{"spec.containers[0].volumes[data].secretName"}}},
		},
		"what a CSI volume names beside its driver is not mounted": {volume(ContainerVolume{Path: "/d", CSIDriver: "x", SecretName: "s"}), []Reference{}},
		"what a hostPath volume names beside its path is not":      {volume(ContainerVolume{Path: "/d", HostPath: "/x", ConfigMapName: "s"}), []Reference{}},
		"what an emptyDir names beside itself is not":              {volume(ContainerVolume{Path: "/d", EmptyDir: true, ConfigMapName: "s"}), []Reference{}},
		"a claim does not travel":                                  {volume(ContainerVolume{Path: "/d", ClaimName: "s"}), []Reference{}},
		"a service account does not travel":                        {&MiniClusterSpec{Pod: PodSpec{ServiceAccountName: "s"}}, []Reference{}},
		"a Secret and a ConfigMap of one name, and Flux's own ones": {
			&MiniClusterSpec{
				Containers: []MiniClusterContainer{{}, {ImagePullSecret: "b", Volumes: map[string]ContainerVolume{"v": {ConfigMapName: "b"}}}},
				Services:   []MiniClusterContainer{{ImagePullSecret: "a", Secrets: map[string]Secret{"KEY": {"munge", "k"}}}},
				Flux:       FluxSpec{MungeSecret: "munge", Container: FluxContainer{ImagePullSecret: "b"}},
			},
			[]Reference{
				{Kind: "ConfigMap", Name: "b", Fields: []string{"spec.containers[1].volumes[v].configMapName"}},
				{Kind: "Secret", Name: "a", Fields: []string{"spec.services[0].imagePullSecret"}},
				{Kind: "Secret", Name: "b", Fields: []string{"spec.containers[1].imagePullSecret", "spec.flux.container.imagePullSecret"}},
				{Kind: "Secret", Name: "munge", Keys: []string{"k"}, Fields: []string{"spec.services[0].secrets[KEY]", "spec.flux.mungeSecret"}},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := test.spec.DeepCopy()
			if diff := cmp.Diff(test.want, References(test.spec, field.NewPath("spec"))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(before, test.spec); diff != "" {
				t.Errorf("the spec was changed:\n%s", diff)
			}
		})
	}
}
