package policy_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/miniclustertest"
	"github.com/minifleet/minifleet/internal/policy"
)

type spec = fluxv1alpha2.MiniClusterSpec

// list writes needs as "PERMISSION FIELD".
func list(needs []policy.Need) []string {
	var out []string
	for _, n := range needs {
		out = append(out, fmt.Sprintf("%s %s", n.Permission, n.Field))
	}
	return out
}

func one(c fluxv1alpha2.MiniClusterContainer) *spec {
	return &spec{Containers: []fluxv1alpha2.MiniClusterContainer{c}}
}

func secured(c corev1.SecurityContext) *spec {
	return one(fluxv1alpha2.MiniClusterContainer{SecurityContext: c})
}

func pod(p fluxv1alpha2.PodSpec) *spec { return &spec{Pod: p} }

func podSecured(c corev1.PodSecurityContext) *spec {
	return pod(fluxv1alpha2.PodSpec{SecurityContext: c})
}

func volume(v fluxv1alpha2.ContainerVolume) *spec {
	return one(fluxv1alpha2.MiniClusterContainer{Volumes: map[string]fluxv1alpha2.ContainerVolume{"v": v}})
}

func annotated(key, value string) *spec {
	return pod(fluxv1alpha2.PodSpec{Annotations: map[string]string{key: value}})
}

func limited(names ...corev1.ResourceName) *spec {
	limits := corev1.ResourceList{}
	for _, name := range names {
		limits[name] = resource.MustParse("1")
	}
	return one(fluxv1alpha2.MiniClusterContainer{Resources: corev1.ResourceRequirements{Limits: limits}})
}

func TestNeeds(t *testing.T) {
	const container, security = "spec.containers[0].", "spec.containers[0].securityContext."
	cases := map[string]struct {
		spec *spec
		want []string
	}{
		"nothing": {one(fluxv1alpha2.MiniClusterContainer{Command: "true"}), nil},

		"hostPath": {volume(fluxv1alpha2.ContainerVolume{HostPath: "/data"}), []string{"HostPath " + container + "volumes[v].hostPath"}},
		"hostPath beside another kind": {volume(fluxv1alpha2.ContainerVolume{HostPath: "/data", EmptyDir: true}),
			[]string{"HostPath " + container + "volumes[v].hostPath"}},
		"hostPath below /dev": {volume(fluxv1alpha2.ContainerVolume{HostPath: "/dev/infiniband"}),
			[]string{"HostPath " + container + "volumes[v].hostPath", "HostDevices " + container + "volumes[v].hostPath"}},
		"hostPath of /dev in another spelling": {volume(fluxv1alpha2.ContainerVolume{HostPath: "/data/..//dev/."}),
			[]string{"HostPath " + container + "volumes[v].hostPath", "HostDevices " + container + "volumes[v].hostPath"}},
		"hostPath of all": {volume(fluxv1alpha2.ContainerVolume{HostPath: "/"}),
			[]string{"HostPath " + container + "volumes[v].hostPath", "HostDevices " + container + "volumes[v].hostPath"}},
		"hostPath of memory": {volume(fluxv1alpha2.ContainerVolume{HostPath: "/dev/shm"}), []string{"HostPath " + container + "volumes[v].hostPath"}},
		"hostPath out of memory": {volume(fluxv1alpha2.ContainerVolume{HostPath: "/dev/shm/../sda"}),
			[]string{"HostPath " + container + "volumes[v].hostPath", "HostDevices " + container + "volumes[v].hostPath"}},
		"volumes that are not the node's": {one(fluxv1alpha2.MiniClusterContainer{Volumes: map[string]fluxv1alpha2.ContainerVolume{
			"a": {ClaimName: "claim"}, "b": {ConfigMapName: "map"}, "c": {SecretName: "secret"}, "d": {EmptyDir: true, EmptyDirMedium: "memory"},
			"e": {CSIDriver: "gcsfuse.csi.storage.gke.io", CSIDriverAttributes: map[string]string{"bucketName": "b"}},
		}}), nil},
		"MiniFleet's own token": {&spec{
			Containers: []fluxv1alpha2.MiniClusterContainer{{
				Volumes: map[string]fluxv1alpha2.ContainerVolume{"v": {SecretName: "minifleet-member-token"}},
				Secrets: map[string]fluxv1alpha2.Secret{"TOKEN": {Name: "minifleet-member-token", Key: "token"}},
			}},
			Flux: fluxv1alpha2.FluxSpec{MungeSecret: "minifleet-member-token"},
		}, []string{
			"ServiceAccountToken spec.containers[0].secrets[TOKEN].name", "ServiceAccountToken spec.containers[0].volumes[v].secretName",
			"ServiceAccountToken spec.flux.mungeSecret",
		}},

		"hostPID and hostIPC": {pod(fluxv1alpha2.PodSpec{HostPID: true, HostIPC: true}),
			[]string{"HostNamespaces spec.pod.hostIPC", "HostNamespaces spec.pod.hostPID"}},
		"processes shared within the pod": {&spec{ShareProcessNamespace: true}, nil},

		"privileged":                {secured(corev1.SecurityContext{Privileged: ptr.To(true)}), []string{"Privileged " + security + "privileged"}},
		"not privileged":            {secured(corev1.SecurityContext{Privileged: ptr.To(false)}), nil},
		"escalation, as is default": {secured(corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(true)}), nil},
		"capabilities": {secured(corev1.SecurityContext{Capabilities: &corev1.Capabilities{
			Add: []corev1.Capability{"CHOWN", "SYS_PTRACE", "ALL", "CAP_CHOWN", "chown"}, Drop: []corev1.Capability{"ALL"},
		}}), []string{
			"Privileged " + security + "capabilities.add[1]", "Privileged " + security + "capabilities.add[2]",
			"Privileged " + security + "capabilities.add[3]", "Privileged " + security + "capabilities.add[4]",
		}},
		"procMount":           {secured(corev1.SecurityContext{ProcMount: ptr.To(corev1.UnmaskedProcMount)}), []string{"Privileged " + security + "procMount"}},
		"procMount, default":  {secured(corev1.SecurityContext{ProcMount: ptr.To(corev1.DefaultProcMount)}), nil},
		"seccomp, unconfined": {secured(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"}}), []string{"Privileged " + security + "seccompProfile.type"}},
		"seccomp, confined":   {secured(corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}}), nil},
		"AppArmor, unconfined": {podSecured(corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: "Unconfined"}}),
			[]string{"Privileged spec.pod.securityContext.appArmorProfile.type"}},
		"SELinux": {secured(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "r", Type: "spc_t", Level: "s0"}}), []string{
			"Privileged " + security + "seLinuxOptions.type", "Privileged " + security + "seLinuxOptions.user", "Privileged " + security + "seLinuxOptions.role",
		}},
		"SELinux, level": {secured(corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Type: "container_t", Level: "s0:c1,c2"}}), nil},
		"sysctls": {podSecured(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_rmem"}, {Name: "kernel.shmmax"}}}),
			[]string{"Privileged spec.pod.securityContext.sysctls[1]"}},
		"Windows": {podSecured(corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{
			HostProcess: ptr.To(true), RunAsUserName: ptr.To(`NT AUTHORITY\System`), GMSACredentialSpecName: ptr.To("account"), GMSACredentialSpec: ptr.To("{}"),
		}}), []string{
			"Privileged spec.pod.securityContext.windowsOptions.hostProcess", "RunAsRoot spec.pod.securityContext.windowsOptions.runAsUserName",
			"ServiceAccount spec.pod.securityContext.windowsOptions.gmsaCredentialSpecName", "ServiceAccount spec.pod.securityContext.windowsOptions.gmsaCredentialSpec",
		}},
		"Windows, an ordinary user": {podSecured(corev1.PodSecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: ptr.To("ContainerUser")}}), nil},

		"root in a container": {secured(corev1.SecurityContext{RunAsUser: ptr.To(int64(0)), RunAsGroup: ptr.To(int64(0))}),
			[]string{"RunAsRoot " + security + "runAsUser", "RunAsRoot " + security + "runAsGroup"}},
		"root in the pods": {podSecured(corev1.PodSecurityContext{
			RunAsUser: ptr.To(int64(0)), RunAsGroup: ptr.To(int64(0)), FSGroup: ptr.To(int64(0)), SupplementalGroups: []int64{7, 0},
		}), []string{
			"RunAsRoot spec.pod.securityContext.runAsUser", "RunAsRoot spec.pod.securityContext.runAsGroup",
			"RunAsRoot spec.pod.securityContext.fsGroup", "RunAsRoot spec.pod.securityContext.supplementalGroups[1]",
		}},
		"other users": {podSecured(corev1.PodSecurityContext{RunAsUser: ptr.To(int64(1000)), FSGroup: ptr.To(int64(1000)), RunAsNonRoot: ptr.To(true)}), nil},

		"service account":          {pod(fluxv1alpha2.PodSpec{ServiceAccountName: "admin"}), []string{"ServiceAccount spec.pod.serviceAccountName"}},
		"service account, default": {pod(fluxv1alpha2.PodSpec{ServiceAccountName: "default"}), nil},
		"token":                    {pod(fluxv1alpha2.PodSpec{AutomountServiceAccountToken: true}), []string{"ServiceAccountToken spec.pod.automountServiceAccountToken"}},

		"ordinary resources": {limited("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "amd.com/gpu",
			"gpu.intel.com/i915", "google.com/tpu", "vpc.amazonaws.com/efa", "rdma/hca_shared_devices_a", "kubernetes.io/batch-cpu"), nil},
		"devices": {limited("squat.ai/fuse", "smarter-devices/fuse", "devices.kubevirt.io/kvm", "github.com/fuse", "deviceclass.resource.kubernetes.io/disk",
			"notkubernetes.io/a", "evil.nvidia.com/a"), []string{
			"HostDevices " + container + "resources.limits[deviceclass.resource.kubernetes.io/disk]",
			"HostDevices " + container + "resources.limits[devices.kubevirt.io/kvm]",
			"HostDevices " + container + "resources.limits[evil.nvidia.com/a]",
			"HostDevices " + container + "resources.limits[github.com/fuse]",
			"HostDevices " + container + "resources.limits[notkubernetes.io/a]",
			"HostDevices " + container + "resources.limits[smarter-devices/fuse]",
			"HostDevices " + container + "resources.limits[squat.ai/fuse]",
		}},
		"claimed devices": {one(fluxv1alpha2.MiniClusterContainer{Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "c"}}}}),
			[]string{"HostDevices " + container + "resources.claims[0]"}},

		"annotation of AppArmor":                 {annotated("container.apparmor.security.beta.kubernetes.io/a", "unconfined"), []string{"Privileged spec.pod.annotations[container.apparmor.security.beta.kubernetes.io/a]"}},
		"annotation of AppArmor, confined":       {annotated("container.apparmor.security.beta.kubernetes.io/a", "runtime/default"), nil},
		"annotation of seccomp":                  {annotated("seccomp.security.alpha.kubernetes.io/pod", "unconfined"), []string{"Privileged spec.pod.annotations[seccomp.security.alpha.kubernetes.io/pod]"}},
		"annotation of seccomp, for a container": {annotated("container.seccomp.security.alpha.kubernetes.io/a", ""), []string{"Privileged spec.pod.annotations[container.seccomp.security.alpha.kubernetes.io/a]"}},
		"annotation of CPUs":                     {annotated("cpu-quota.crio.io", "disable"), []string{"Privileged spec.pod.annotations[cpu-quota.crio.io]"}},
		"annotation of CDI":                      {annotated("cdi.k8s.io/a", "vendor.com/disk=all"), []string{"HostDevices spec.pod.annotations[cdi.k8s.io/a]"}},
		"annotation of NRI, devices":             {annotated("devices.nri.io/container.a", "- path: /dev/sda"), []string{"HostDevices spec.pod.annotations[devices.nri.io/container.a]"}},
		"annotation of NRI, mounts":              {annotated("mounts.nri.io", "- source: /"), []string{"HostPath spec.pod.annotations[mounts.nri.io]"}},
		"annotation of CRI-O, devices":           {annotated("io.kubernetes.cri-o.Devices", "/dev/fuse"), []string{"HostDevices spec.pod.annotations[io.kubernetes.cri-o.Devices]"}},
		"annotation of CRI-O, shared memory":     {annotated("io.kubernetes.cri-o.ShmSize", "1Gi"), nil},
		"annotation of CRI-O, others":            {annotated("io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw", "true"), []string{"Privileged spec.pod.annotations[io.kubernetes.cri-o.cgroup2-mount-hierarchy-rw]"}},
		"annotation of systemd":                  {annotated("org.systemd.property.SuccessAction", "'poweroff-force'"), []string{"Privileged spec.pod.annotations[org.systemd.property.SuccessAction]"}},
		"annotation of further networks":         {annotated("k8s.v1.cni.cncf.io/networks", "fast"), []string{"PodAnnotations spec.pod.annotations[k8s.v1.cni.cncf.io/networks]"}},

		"every container": {&spec{
			Containers: []fluxv1alpha2.MiniClusterContainer{{}, {SecurityContext: corev1.SecurityContext{Privileged: ptr.To(true)}}},
			Services: []fluxv1alpha2.MiniClusterContainer{{
				SecurityContext: corev1.SecurityContext{Privileged: ptr.To(true)},
				Volumes:         map[string]fluxv1alpha2.ContainerVolume{"v": {HostPath: "/data"}},
				Resources:       corev1.ResourceRequirements{Requests: corev1.ResourceList{"squat.ai/fuse": resource.MustParse("1")}},
			}},
			Flux: fluxv1alpha2.FluxSpec{Container: fluxv1alpha2.FluxContainer{
				SecurityContext: corev1.SecurityContext{Privileged: ptr.To(true)},
				Resources:       corev1.ResourceRequirements{Limits: corev1.ResourceList{"squat.ai/fuse": resource.MustParse("1")}},
			}},
		}, []string{
			"Privileged spec.containers[1].securityContext.privileged",
			"HostPath spec.services[0].volumes[v].hostPath", "HostDevices spec.services[0].resources.requests[squat.ai/fuse]",
			"Privileged spec.services[0].securityContext.privileged",
			"HostDevices spec.flux.container.resources.limits[squat.ai/fuse]", "Privileged spec.flux.container.securityContext.privileged",
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := c.spec.DeepCopy()
			if diff := cmp.Diff(c.want, list((policy.Rules{}).Needs(c.spec, field.NewPath("spec")))); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, c.spec); diff != "" {
				t.Errorf("the spec was changed:\n%s", diff)
			}
		})
	}
}

func TestDenied(t *testing.T) {
	s := pod(fluxv1alpha2.PodSpec{HostPID: true, AutomountServiceAccountToken: true, ServiceAccountName: "admin"})
	needs := (policy.Rules{}).Needs(s, field.NewPath("spec"))
	allowed := []v1alpha1.Permission{v1alpha1.PermissionServiceAccountToken}
	want := []string{"ServiceAccount spec.pod.serviceAccountName", "HostNamespaces spec.pod.hostPID"}
	if diff := cmp.Diff(want, list(policy.Denied(needs, allowed))); diff != "" {
		t.Errorf("denied (-want +got):\n%s", diff)
	}
	if got := policy.Denied(needs, v1alpha1.Permissions()); got != nil {
		t.Errorf("with everything allowed, %v is denied", list(got))
	}
	if diff := cmp.Diff([]v1alpha1.Permission{"HostNamespaces", "ServiceAccount", "ServiceAccountToken"}, policy.Permissions(append(needs, needs...))); diff != "" {
		t.Errorf("permissions (-want +got):\n%s", diff)
	}
}

func TestExplain(t *testing.T) {
	needs := (policy.Rules{}).Needs(pod(fluxv1alpha2.PodSpec{HostPID: true, HostIPC: true, AutomountServiceAccountToken: true}), field.NewPath("spec"))
	want := "spec.pod.automountServiceAccountToken: gives the pods a token for the member's API server, which takes the permission ServiceAccountToken; " +
		"and 2 more fields, of the permissions HostNamespaces"
	if diff := cmp.Diff(want, policy.Explain(needs, 1)); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		list    string
		want    []v1alpha1.Permission
		unknown []string
	}{
		"empty":         {"", nil, nil},
		"one":           {"HostPath", []v1alpha1.Permission{"HostPath"}, nil},
		"several":       {"HostPath,RunAsRoot, Privileged\n", []v1alpha1.Permission{"HostPath", "RunAsRoot", "Privileged"}, nil},
		"misspelt":      {"hostpath,HostPath,*", []v1alpha1.Permission{"HostPath"}, []string{"hostpath", "*"}},
		"no permission": {" , ,", nil, nil},
		"not a list":    {`["HostPath"]`, nil, []string{`["HostPath"]`}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, unknown := policy.Parse(c.list)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.unknown, unknown); diff != "" {
				t.Errorf("unknown (-want +got):\n%s", diff)
			}
		})
	}
	all, unknown := policy.Parse(policy.Join(v1alpha1.Permissions()))
	if diff := cmp.Diff(v1alpha1.Permissions(), all); diff != "" || unknown != nil {
		t.Errorf("what Join writes is not read back: %s %v", diff, unknown)
	}
}

// TestManifests says which manifests need what. All others run without any permission.
func TestManifests(t *testing.T) {
	needManifests(t, miniclustertest.Own(), map[string][]string{
		"nested": {
			"Privileged spec.containers[0].securityContext.privileged",
			"Privileged spec.containers[0].securityContext.capabilities.add[0]",
		},
		"placement": {
			"PodAnnotations spec.pod.annotations[example.org/cost-center]",
			"ServiceAccount spec.pod.serviceAccountName", "ServiceAccountToken spec.pod.automountServiceAccountToken",
			"HostNamespaces spec.pod.hostIPC", "HostNamespaces spec.pod.hostPID",
		},
		"services":      {"PodAnnotations spec.pod.annotations[example.org/note]"},
		"servicefields": {"HostPath spec.services[0].volumes[originals].hostPath"},
		"sidecar":       {"ServiceAccount spec.pod.serviceAccountName"},
		"view":          {"RunAsRoot spec.flux.container.securityContext.runAsUser"},
		"volumes":       {"HostPath spec.containers[0].volumes[index].hostPath"},
	})
}

func TestSharedManifests(t *testing.T) {
	shared, err := miniclustertest.Shared()
	if err != nil {
		t.Skipf("what these need is not compared: %v", err)
	}
	needManifests(t, shared, map[string][]string{
		"elasticity-basic":               {"HostPath spec.containers[0].volumes[data].hostPath"},
		"machine-learning-pytorch":       {"Privileged spec.containers[0].securityContext.privileged"},
		"storage-aws-somospie-s3fs-fuse": {"Privileged spec.containers[0].securityContext.privileged"},
		"tests-singularity":              {"Privileged spec.containers[0].securityContext.privileged"},
	})
}

func needManifests(t *testing.T, manifests []miniclustertest.Manifest, want map[string][]string) {
	t.Helper()
	for _, m := range manifests {
		t.Run(m.Name, func(t *testing.T) {
			decoded, err := m.MiniCluster()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[m.Name], list((policy.Rules{}).Needs(&decoded.Spec, field.NewPath("spec")))); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
			delete(want, m.Name)
		})
	}
	for name := range want {
		t.Errorf("there is no manifest %s", name)
	}
}
