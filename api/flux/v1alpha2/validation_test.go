package v1alpha2

import (
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// valid returns a spec that has no problems.
func valid() *MiniClusterSpec {
	return &MiniClusterSpec{Size: 4, Containers: []MiniClusterContainer{{Image: "lammps", Command: "lmp -in in.hns"}}}
}

func TestValidate(t *testing.T) {
	sidecar := MiniClusterContainer{Name: "proxy", Image: "nginx", Ports: []int32{80}}
	tests := map[string]struct {
		name   string
		change func(*MiniClusterSpec)
		want   []string // the fields that have a problem, in order
	}{
		"as it is": {},
		"a sidecar": {change: func(s *MiniClusterSpec) {
			s.Containers[0].RunFlux = true
			s.Containers = append(s.Containers, sidecar)
		}},
		"everything at once": {
			name: "Not_A_Label",
			change: func(s *MiniClusterSpec) {
				s.Size, s.MaxSize, s.MinSize = 4, 2, 5
				s.Pod.RestartPolicy = "Always"
				s.Containers[0].ImagePullPolicy = "Sometimes"
			},
			want: []string{
				"metadata.name", "spec.size", "spec.minSize", "spec.containers[0].imagePullPolicy", "spec.pod.restartPolicy",
			},
		},
		"longest hostname": {
			name:   strings.Repeat("a", 58),
			change: func(s *MiniClusterSpec) { s.Size = 10_000 },
		},
		"hostname too long only at the largest size": {
			name:   strings.Repeat("a", 58),
			change: func(s *MiniClusterSpec) { s.Size, s.MaxSize = 4, 10_001 },
			want:   []string{"metadata.name"},
		},
		"negative numbers": {
			change: func(s *MiniClusterSpec) {
				tasks := int32(-1)
				s.Size, s.Tasks, s.BackoffLimit, s.DeadlineSeconds, s.MinSize = -1, &tasks, -1, -1, -2
			},
			want: []string{"spec.size", "spec.minSize", "spec.tasks", "spec.backoffLimit", "spec.deadlineSeconds"},
		},
		"no containers": {
			change: func(s *MiniClusterSpec) { s.Containers = nil },
			want:   []string{"spec.containers"},
		},
		"two run Flux": {
			change: func(s *MiniClusterSpec) {
				s.Containers = []MiniClusterContainer{{RunFlux: true}, {Name: "b", RunFlux: true}}
			},
			want: []string{"spec.containers"},
		},
		"none runs Flux": {
			change: func(s *MiniClusterSpec) { s.Containers = []MiniClusterContainer{{Name: "a"}, {Name: "b"}} },
			want:   []string{"spec.containers"},
		},
		"nameless and duplicate sidecars": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].RunFlux = true
				s.Containers = append(s.Containers, MiniClusterContainer{}, sidecar, sidecar, MiniClusterContainer{Name: "flux-view"})
			},
			want: []string{"spec.containers[1].name", "spec.containers[3].name", "spec.containers[4].name"},
		},
		"a sidecar called as the MiniCluster": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].RunFlux = true
				s.Containers = append(s.Containers, MiniClusterContainer{Name: "lammps"})
			},
			want: []string{"spec.containers[1].name"},
		},
		"a sidecar's Service called as the headless one": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].RunFlux = true
				s.Containers = append(s.Containers, sidecar)
				s.Network.HeadlessName = "proxy"
			},
			want: []string{"spec.containers[1].name"},
		},
		"what Flux would split": {
			change: func(s *MiniClusterSpec) {
				s.Archive.Path, s.Flux.Container.MountPath, s.Flux.OptionFlags = "/a,b", "/m,n", "-o 'a"
			},
			want: []string{"spec.flux.container.mountPath", "spec.flux.optionFlags", "spec.archive.path"},
		},
		"modes of the runner": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0] = MiniClusterContainer{Launcher: true, Batch: true, Command: "a", Commands: Commands{Script: "b"}}
			},
			want: []string{"spec.containers[0].commands.script", "spec.containers[0].launcher"},
		},
		"ports, variables, secrets": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].Ports = []int32{80, 80, 70000}
				s.Containers[0].Environment = map[string]string{"A=B": "", "TOKEN": ""}
				s.Containers[0].Secrets = map[string]Secret{"TOKEN": {Name: "Bad Name", Key: "k"}}
			},
			want: []string{
				"spec.containers[0].ports[1]", "spec.containers[0].ports[2]", "spec.containers[0].environment[A=B]",
				"spec.containers[0].secrets[TOKEN]", "spec.containers[0].secrets[TOKEN].name",
			},
		},
		"volumes": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].Volumes = map[string]ContainerVolume{
					"flux-view": {Path: "/a"},
					"nowhere":   {ClaimName: "c"},
					"shm":       {EmptyDir: true, EmptyDirMedium: "disk", EmptyDirSizeLimit: "big"},
					"up":        {Path: "/b", ConfigMapName: "c", Items: map[string]string{"k": "../etc"}},
				}
			},
			want: []string{
				"spec.containers[0].volumes[flux-view]", "spec.containers[0].volumes[nowhere].path",
				"spec.containers[0].volumes[shm].emptyDirMedium", "spec.containers[0].volumes[shm].emptyDirSizeLimit",
				"spec.containers[0].volumes[up].items[k]",
			},
		},
		"one volume, two sources": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].Volumes = map[string]ContainerVolume{"data": {Path: "/data", ClaimName: "one"}}
				s.Containers[0].RunFlux = true
				other := sidecar
				other.Volumes = map[string]ContainerVolume{"data": {Path: "/data", ClaimName: "two"}}
				s.Containers = append(s.Containers, other)
			},
			want: []string{"spec.containers[1].volumes[data]"},
		},
		"services": {
			change: func(s *MiniClusterSpec) {
				s.Services = []MiniClusterContainer{{RunFlux: true, Commands: Commands{Pre: "p", WorkerPre: "w", BrokerPre: "b"}}}
			},
			want: []string{
				"spec.services[0].runFlux", "spec.services[0].commands.pre", "spec.services[0].commands.brokerPre",
				"spec.services[0].commands.workerPre", "spec.services[0].name",
			},
		},
		"flux": {
			change: func(s *MiniClusterSpec) {
				s.Flux.Container.MountPath = "here"
				s.Flux.ConnectTimeout = "5 s; reboot"
				s.Flux.Topology = "$(reboot)"
				s.Flux.LogLevel = 9
				s.Flux.Environment = map[string]string{"A-B": ""}
				s.Flux.Bursting = Bursting{
					Hostlist: "a", Clusters: []BurstedCluster{{Name: "b"}, {Name: "b"}}, LeadBroker: FluxBroker{Port: 1},
				}
			},
			want: []string{
				"spec.flux.container.mountPath", "spec.flux.connectTimeout", "spec.flux.topology", "spec.flux.logLevel",
				"spec.flux.environment[A-B]", "spec.flux.bursting.hostlist", "spec.flux.bursting.leadBroker.address",
				"spec.flux.bursting.leadBroker.name", "spec.flux.bursting.leadBroker.size",
				"spec.flux.bursting.clusters[1].name",
			},
		},
		"pod": {
			change: func(s *MiniClusterSpec) {
				s.Pod = PodSpec{
					Labels: map[string]string{"a b": "c"}, DNSPolicy: "Mine", NodeAffinity: map[string][]string{"zone": nil},
					Tolerations: []Toleration{{}, {Operator: "Exists", Value: "v"}, {Key: "k", Operator: "Near", Effect: "Some"}},
				}
			},
			want: []string{
				"spec.pod.labels[a b]", "spec.pod.dnsPolicy", "spec.pod.nodeAffinity[zone]", "spec.pod.tolerations[0].key",
				"spec.pod.tolerations[1].value", "spec.pod.tolerations[2].operator", "spec.pod.tolerations[2].effect",
			},
		},
		"paths and names": {
			change: func(s *MiniClusterSpec) {
				s.Network.HeadlessName, s.Archive.Path = "a.b", "here"
				s.JobLabels = map[string]string{"a": "not a value"}
			},
			want: []string{"spec.network.headlessName", "spec.jobLabels[a]", "spec.archive.path"},
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			spec, name := valid(), "lammps"
			if test.change != nil {
				test.change(spec)
			}
			if test.name != "" {
				name = test.name
			}
			before := spec.DeepCopy()
			var got []string
			for _, problem := range Validate(name, spec, field.NewPath("spec")) {
				got = append(got, problem.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("fields with problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, spec); diff != "" {
				t.Errorf("Validate changed the spec (-before +after):\n%s", diff)
			}
		})
	}
}

// TestValidateFields sets one thing in a valid spec and names the one problem that follows, with some of
// what is told about it.
func TestValidateFields(t *testing.T) {
	type change = func(*MiniClusterSpec)
	first := func(set func(*MiniClusterContainer)) change {
		return func(s *MiniClusterSpec) { set(&s.Containers[0]) }
	}
	volume := func(v ContainerVolume) change {
		return first(func(c *MiniClusterContainer) { c.Volumes = map[string]ContainerVolume{"data": v} })
	}
	resources := func(requests, limits corev1.ResourceList) change {
		return first(func(c *MiniClusterContainer) {
			c.Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
		})
	}
	one := func(name, quantity string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(quantity)}
	}
	security := func(set func(*corev1.SecurityContext)) change {
		return first(func(c *MiniClusterContainer) { set(&c.SecurityContext) })
	}
	podSecurity := func(set func(*corev1.PodSecurityContext)) change {
		return func(s *MiniClusterSpec) { set(&s.Pod.SecurityContext) }
	}
	annotation := func(name, value string) change {
		return func(s *MiniClusterSpec) { s.Pod.Annotations = map[string]string{name: value} }
	}
	service := func(set func(*MiniClusterContainer)) change {
		return func(s *MiniClusterSpec) {
			s.Services = []MiniClusterContainer{{Name: "db", Image: "db"}}
			set(&s.Services[0])
		}
	}
	bursting := func(b Bursting) change { return func(s *MiniClusterSpec) { s.Flux.Bursting = b } }
	join := func(lead FluxBroker) change { return bursting(Bursting{LeadBroker: lead}) }
	yes, no, root := true, false, int64(0)
	tests := map[string]struct {
		change change
		field  string // "" when it is valid
		says   string
	}{
		"size: too many pods":        {func(s *MiniClusterSpec) { s.Size = 100_001 }, "spec.size", "at most 100000"},
		"maxSize: too many pods":     {func(s *MiniClusterSpec) { s.MaxSize = 100_001 }, "spec.maxSize", "at most 100000"},
		"deadline: overflows":        {func(s *MiniClusterSpec) { s.DeadlineSeconds = 1 << 62 }, "spec.deadlineSeconds", "from 1 to"},
		"minSize: above size":        {func(s *MiniClusterSpec) { s.MinSize = 5 }, "spec.minSize", "not be above size, 4"},
		"image: capital letters":     {first(func(c *MiniClusterContainer) { c.Image = "ghcr.io/Owner/name" }), "spec.containers[0].image", "small letters"},
		"image: a space":             {first(func(c *MiniClusterContainer) { c.Image = "ghcr.io/owner/name " }), "spec.containers[0].image", "without spaces"},
		"image: capital host":        {first(func(c *MiniClusterContainer) { c.Image = "Registry.Example:5000/a/b_c/d--e:V1.0_x" }), "", ""},
		"image: a digest":            {first(func(c *MiniClusterContainer) { c.Image = "a/b:c@sha256:" + strings.Repeat("0f", 32) }), "", ""},
		"image: a template":          {first(func(c *MiniClusterContainer) { c.Image = "{{ .image }}" }), "spec.containers[0].image", "name of an image"},
		"workingDir: relative":       {first(func(c *MiniClusterContainer) { c.WorkingDir = "work" }), "spec.containers[0].workingDir", "begin it with /"},
		"logs: relative":             {first(func(c *MiniClusterContainer) { c.Logs = "out" }), "spec.containers[0].logs", "begin it with /"},
		"command: NUL":               {first(func(c *MiniClusterContainer) { c.Command = "a\x00b" }), "spec.containers[0].command", "U+0000"},
		"command: lines and tabs":    {first(func(c *MiniClusterContainer) { c.Command = "a \\\n\tb" }), "", ""},
		"command: carriage return":   {first(func(c *MiniClusterContainer) { c.Command = "a\r\nb" }), "spec.containers[0].command", "Unix line ends"},
		"command: not UTF-8":         {first(func(c *MiniClusterContainer) { c.Command = "a\xff" }), "spec.containers[0].command", "UTF-8"},
		"workingDir: a line break":   {first(func(c *MiniClusterContainer) { c.WorkingDir = "/a\nb" }), "spec.containers[0].workingDir", "single line"},
		"environment: escape":        {first(func(c *MiniClusterContainer) { c.Environment = map[string]string{"A": "\x1b[2J"} }), "spec.containers[0].environment[A]", "U+001B"},
		"environment: a hostile key": {first(func(c *MiniClusterContainer) { c.Environment = map[string]string{"A\x1b": ""} }), `spec.containers[0].environment["A\x1b"]`, "U+001B"},
		"pod: batch label":           {func(s *MiniClusterSpec) { s.Pod.Labels = map[string]string{"job-name": "other"} }, "spec.pod.labels[job-name]", "remove it"},
		"pod: its own batch label":   {func(s *MiniClusterSpec) { s.Pod.Labels = map[string]string{"job-name": "lammps"} }, "", ""},
		"pod: share and hostPID":     {func(s *MiniClusterSpec) { s.ShareProcessNamespace, s.Pod.HostPID = true, true }, "spec.shareProcessNamespace", "hostPID"},
		"pod: dnsPolicy None":        {func(s *MiniClusterSpec) { s.Pod.DNSPolicy = "None" }, "spec.pod.dnsPolicy", `"ClusterFirst"`},
		"pod: service account":       {func(s *MiniClusterSpec) { s.Pod.ServiceAccountName = "Me" }, "spec.pod.serviceAccountName", "lowercase"},
		"pod: affinity value":        {func(s *MiniClusterSpec) { s.Pod.NodeAffinity = map[string][]string{"a": {"x", "a b"}} }, "spec.pod.nodeAffinity[a][1]", "label"},
		"pod: toleration key":        {func(s *MiniClusterSpec) { s.Pod.Tolerations = []Toleration{{Key: "a b"}} }, "spec.pod.tolerations[0].key", "name"},
		"pod: overhead below 0":      {func(s *MiniClusterSpec) { s.Pod.Resources, s.Pod.RuntimeClassName = one("cpu", "-1"), "kata" }, "spec.pod.resources[cpu]", "negative"},
		"pod: overhead of nothing":   {func(s *MiniClusterSpec) { s.Pod.Resources = one("cpu", "1") }, "spec.pod.resources", "runtimeClassName"},
		"annotations: too long":      {annotation("a", strings.Repeat("x", 300_000)), "spec.pod.annotations", "shorter"},
		"annotations: lines":         {annotation("a", "x\ny"), "", ""},
		"annotations: seccomp":       {annotation("seccomp.security.alpha.kubernetes.io/pod", "unconfined"), "spec.pod.annotations[seccomp.security.alpha.kubernetes.io/pod]", "seccompProfile"},
		"annotations: AppArmor":      {annotation("container.apparmor.security.beta.kubernetes.io/lammps", "runtime/default"), "", ""},
		"annotations: AppArmor, who": {annotation("container.apparmor.security.beta.kubernetes.io/x", "runtime/default"), "spec.pod.annotations[container.apparmor.security.beta.kubernetes.io/x]", "called lammps"},
		"annotations: cost":          {annotation("controller.kubernetes.io/pod-deletion-cost", "1.5"), "spec.pod.annotations[controller.kubernetes.io/pod-deletion-cost]", "32 bits"},

		"volume: two sources":       {volume(ContainerVolume{Path: "/d", ClaimName: "c", SecretName: "s"}), "spec.containers[0].volumes[data]", "secretName and claimName"},
		"volume: items of a Secret": {volume(ContainerVolume{Path: "/d", SecretName: "s", Items: map[string]string{"a": "b"}}), "spec.containers[0].volumes[data].items", "configMapName"},
		"volume: a bad item":        {volume(ContainerVolume{Path: "/d", ConfigMapName: "s", Items: map[string]string{"a/b": "b"}}), "spec.containers[0].volumes[data].items[a/b]", "key"},
		"volume: medium of a claim": {volume(ContainerVolume{Path: "/d", ClaimName: "s", EmptyDirMedium: "memory"}), "spec.containers[0].volumes[data].emptyDirMedium", "emptyDir: true"},
		"volume: negative limit":    {volume(ContainerVolume{Path: "/d", EmptyDirSizeLimit: "-1"}), "spec.containers[0].volumes[data].emptyDirSizeLimit", "quantity"},
		"volume: attributes alone":  {volume(ContainerVolume{Path: "/d", CSIDriverAttributes: map[string]string{"a": "b"}}), "spec.containers[0].volumes[data].csiDriverAttributes", "csiDriver"},
		"volume: a long driver":     {volume(ContainerVolume{Path: "/d", CSIDriver: strings.Repeat("x.", 40) + "y"}), "spec.containers[0].volumes[data].csiDriver", "63"},
		"volume: hostPath upwards":  {volume(ContainerVolume{Path: "/d", HostPath: "/a/../b"}), "spec.containers[0].volumes[data].hostPath", "'..'"},
		"volume: on the scripts":    {volume(ContainerVolume{Path: "/flux_operator/"}), "spec.containers[0].volumes[data].path", "scripts"},
		"volume: below the scripts": {volume(ContainerVolume{Path: "/flux_operator/x"}), "spec.containers[0].volumes[data].path", "read-only"},
		"volume: on the view":       {volume(ContainerVolume{Path: "/mnt//flux"}), "spec.containers[0].volumes[data].path", "mountPath"},
		"volume: on the software":   {volume(ContainerVolume{Path: "/opt/software"}), "spec.containers[0].volumes[data].path", "software"},
		"volume: on the root":       {volume(ContainerVolume{Path: "/"}), "spec.containers[0].volumes[data].path", "another path"},
		"volume: a dot path":        {volume(ContainerVolume{Path: "/a/../b"}), "spec.containers[0].volumes[data].path", "'..'"},
		"volume: a relative path":   {volume(ContainerVolume{Path: "data"}), "", ""},
		"volume: two at a path": {first(func(c *MiniClusterContainer) {
			c.Volumes = map[string]ContainerVolume{"a": {Path: "/d"}, "b": {Path: "/d/"}}
		}), "spec.containers[0].volumes[b].path", "volume a is mounted there"},

		"resources: request above":   {resources(one("cpu", "2"), one("cpu", "1")), "spec.containers[0].resources.requests[cpu]", "limit, 1"},
		"resources: negative":        {resources(nil, one("memory", "-1Gi")), "spec.containers[0].resources.limits[memory]", "negative"},
		"resources: unknown":         {resources(nil, one("gpu", "1")), "spec.containers[0].resources.limits[gpu]", "DOMAIN/NAME"},
		"resources: a part of a GPU": {resources(nil, one("nvidia.com/gpu", "500m")), "spec.containers[0].resources.limits[nvidia.com/gpu]", "whole number"},
		"resources: no limit":        {resources(one("nvidia.com/gpu", "1"), nil), "spec.containers[0].resources.limits[nvidia.com/gpu]", "limit too"},
		"resources: pages alone":     {resources(nil, one("hugepages-2Mi", "4Mi")), "spec.containers[0].resources", "cpu or memory"},
		"resources: claims": {first(func(c *MiniClusterContainer) {
			c.Resources.Claims = []corev1.ResourceClaim{{Name: "a"}}
		}), "spec.containers[0].resources.claims", "remove"},

		"security: privileged":    {security(func(s *corev1.SecurityContext) { s.Privileged, s.AllowPrivilegeEscalation = &yes, &no }), "spec.containers[0].securityContext.allowPrivilegeEscalation", "privileged"},
		"security: root, not":     {security(func(s *corev1.SecurityContext) { s.RunAsUser, s.RunAsNonRoot = &root, &yes }), "spec.containers[0].securityContext.runAsUser", "runAsNonRoot"},
		"security: user":          {security(func(s *corev1.SecurityContext) { user := int64(-1); s.RunAsUser = &user }), "spec.containers[0].securityContext.runAsUser", "between 0"},
		"security: seccomp":       {security(func(s *corev1.SecurityContext) { s.SeccompProfile = &corev1.SeccompProfile{Type: "Localhost"} }), "spec.containers[0].securityContext.seccompProfile.localhostProfile", "name"},
		"security: AppArmor":      {security(func(s *corev1.SecurityContext) { s.AppArmorProfile = &corev1.AppArmorProfile{Type: "Strong"} }), "spec.containers[0].securityContext.appArmorProfile.type", "Unconfined"},
		"security: Windows":       {security(func(s *corev1.SecurityContext) { s.WindowsOptions = &corev1.WindowsSecurityContextOptions{} }), "spec.containers[0].securityContext.windowsOptions", "Linux"},
		"security: unmasked":      {security(func(s *corev1.SecurityContext) { m := corev1.UnmaskedProcMount; s.ProcMount = &m }), "spec.containers[0].securityContext.procMount", "Default"},
		"pod security: root, not": {podSecurity(func(s *corev1.PodSecurityContext) { s.RunAsUser, s.RunAsNonRoot = &root, &yes }), "spec.pod.securityContext.runAsUser", "runAsNonRoot"},
		"pod security: sysctl":    {podSecurity(func(s *corev1.PodSecurityContext) { s.Sysctls = []corev1.Sysctl{{Name: "A b"}} }), "spec.pod.securityContext.sysctls[0].name", "parameter"},
		"pod security: group":     {podSecurity(func(s *corev1.PodSecurityContext) { g := int64(1 << 40); s.FSGroup = &g }), "spec.pod.securityContext.fsGroup", "between 0"},

		"services: relative workingDir": {service(func(c *MiniClusterContainer) { c.WorkingDir = "x" }), "spec.services[0].workingDir", "begin it with /"},
		"services: a volume on scripts": {service(func(c *MiniClusterContainer) { c.Volumes = map[string]ContainerVolume{"a": {Path: "/flux_operator"}} }), "spec.services[0].volumes[a].path", "scripts"},
		"services: a resource":          {service(func(c *MiniClusterContainer) { c.Resources.Limits = one("gpu", "1") }), "spec.services[0].resources.limits[gpu]", "DOMAIN/NAME"},

		"flux: called as the cluster":    {func(s *MiniClusterSpec) { s.Flux.Container.Name = "lammps" }, "spec.flux.container.name", "another name"},
		"flux: mounted on the root":      {func(s *MiniClusterSpec) { s.Flux.Container.MountPath = "/" }, "spec.flux.container.mountPath", "another path"},
		"flux: mounted on the munge key": {func(s *MiniClusterSpec) { s.Flux.MungeSecret, s.Flux.Container.MountPath = "m", "/etc/munge/" }, "spec.flux.container.mountPath", "mungeSecret"},
		"volume: on the munge key": {func(s *MiniClusterSpec) {
			s.Flux.MungeSecret = "m"
			s.Containers[0].Volumes = map[string]ContainerVolume{"data": {Path: "/etc/munge"}}
		}, "spec.containers[0].volumes[data].path", "mungeSecret"},
		"flux: no architecture":     {func(s *MiniClusterSpec) { s.Flux.Arch = "x86 64" }, "spec.flux.arch", "label"},
		"flux: mounted on the home": {func(s *MiniClusterSpec) { s.Flux.Container.MountPath = "/home/flux-operator" }, "spec.flux.container.mountPath", "another mount"},
		"flux: no certificate":      {func(s *MiniClusterSpec) { s.Flux.CurveCert = "my secret" }, "spec.flux.curveCert", "flux keygen"},
		"flux: a policy":            {func(s *MiniClusterSpec) { s.Flux.Scheduler.QueuePolicy = "a b" }, "spec.flux.scheduler.queuePolicy", "fcfs"},
		"flux: hosts":               {bursting(Bursting{Hostlist: "a-[0-3,7],b.x,c[01-10]d"}), "", ""},
		"flux: open bracket":        {bursting(Bursting{Hostlist: "a[0-3"}), "spec.flux.bursting.hostlist", "a-[0-3],b"},
		"flux: empty host":          {bursting(Bursting{Hostlist: "a,,b"}), "spec.flux.bursting.hostlist", "empty"},
		"flux: backward range":      {bursting(Bursting{Hostlist: "a[3-0]"}), "spec.flux.bursting.hostlist", "no range"},
		"flux: a host with a quote": {bursting(Bursting{Hostlist: "a\"b"}), "spec.flux.bursting.hostlist", "other characters"},
		"flux: burst to itself":     {bursting(Bursting{Clusters: []BurstedCluster{{Name: "lammps"}}}), "spec.flux.bursting.clusters[0].name", "choose another"},
		"flux: IPv6 lead":           {join(FluxBroker{Address: "2001:db8::1", Name: "lead", Size: 1}), "", ""},
		"flux: no address":          {join(FluxBroker{Address: "a b", Name: "lead", Size: 1}), "spec.flux.bursting.leadBroker.address", "hostname"},
		"flux: a large lead":        {join(FluxBroker{Address: "a", Name: strings.Repeat("l", 60), Size: 1000}), "spec.flux.bursting.leadBroker.name", "hostname"},

		"too large": {func(s *MiniClusterSpec) { s.Flux.BrokerConfig = strings.Repeat("x", 2<<20) }, "spec", "volume"},
		"scripts too large": {first(func(c *MiniClusterContainer) {
			c.Command = strings.Repeat("'", 500_000)
		}), "spec", "scripts"},
		"too many mounts": {func(s *MiniClusterSpec) {
			s.Containers[0].RunFlux = true
			s.Containers[0].Volumes = map[string]ContainerVolume{}
			for i := range 100 {
				s.Containers[0].Volumes["v"+strconv.Itoa(i)] = ContainerVolume{Path: "/v" + strconv.Itoa(i)}
			}
			for i := range 30 {
				s.Containers = append(s.Containers, MiniClusterContainer{Name: "c" + strconv.Itoa(i)})
			}
		}, "spec.containers", "fewer volumes"},
		"too many containers": {func(s *MiniClusterSpec) { s.Services = make([]MiniClusterContainer, 0); fill(s) }, "spec.services", "at most 100"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			spec := valid()
			test.change(spec)
			problems := Validate("lammps", spec, field.NewPath("spec"))
			if test.field == "" {
				if len(problems) > 0 {
					t.Errorf("is valid, but: %v", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Field != test.field || !strings.Contains(problems[0].Error(), test.says) {
				t.Fatalf("problems %v, want one of %s that says %q", problems, test.field, test.says)
			}
			text := problems[0].Error()
			if len(text) > 600 || strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, "my secret") {
				t.Errorf("the problem is not fit to be shown: %q", text)
			}
		})
	}
}

func fill(s *MiniClusterSpec) {
	for i := range 101 {
		s.Services = append(s.Services, MiniClusterContainer{Name: "s" + strconv.Itoa(i)})
	}
}

func TestValidateNames(t *testing.T) {
	tests := map[string]struct {
		name     string
		services bool
		says     string
	}{
		"the longest":               {name: strings.Repeat("a", 58)},
		"too long":                  {name: strings.Repeat("a", 59), says: "58"},
		"too long for the services": {name: strings.Repeat("a", 55), services: true, says: "pod of the services"},
		"a digit first":             {name: "1a", says: "DNS-1035"},
		"empty":                     {says: "DNS-1035"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			spec := valid()
			if test.services {
				spec.Services = []MiniClusterContainer{{Name: "db"}}
			}
			problems := Validate(test.name, spec, field.NewPath("spec"))
			if (test.says != "") != (len(problems) == 1) {
				t.Fatalf("problems %v", problems)
			}
			if test.says != "" && (problems[0].Field != "metadata.name" || !strings.Contains(problems[0].Detail, test.says)) {
				t.Errorf("problem %v, want one of metadata.name that says %q", problems[0], test.says)
			}
		})
	}
}

func TestFluxRunner(t *testing.T) {
	tests := map[string]struct {
		containers []MiniClusterContainer
		want       int
	}{
		"none":                 {nil, -1},
		"the only one":         {[]MiniClusterContainer{{Name: "a"}}, 0},
		"the one with runFlux": {[]MiniClusterContainer{{}, {Name: "b", RunFlux: true}}, 1},
		"several, none marked": {[]MiniClusterContainer{{}, {Name: "b"}}, -1},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			spec := MiniClusterSpec{Containers: test.containers}
			if got := spec.FluxRunner(); got != test.want {
				t.Errorf("FluxRunner() = %d, want %d", got, test.want)
			}
		})
	}
}

func TestDefault(t *testing.T) {
	none, tasks := int32(0), int32(1)
	tests := map[string]struct {
		spec, want MiniClusterSpec
	}{
		"the least": {
			spec: MiniClusterSpec{Containers: []MiniClusterContainer{{}}},
			want: MiniClusterSpec{
				Size: 1, Tasks: &tasks, DeadlineSeconds: 31500000,
				Containers: []MiniClusterContainer{{Image: DefaultImage, RunFlux: true}},
				Flux: FluxSpec{
					Container:      FluxContainer{Name: "flux-view", Image: DefaultFluxImage, MountPath: "/mnt/flux"},
					ConnectTimeout: "5s", LogLevel: 6, Scheduler: FluxScheduler{QueuePolicy: "fcfs"},
				},
			},
		},
		"what is set stays": {
			spec: MiniClusterSpec{
				Size: 2, MaxSize: 8, Tasks: &none, DeadlineSeconds: 60,
				Containers: []MiniClusterContainer{{Image: "a"}, {Name: "b", RunFlux: true, Image: "b"}},
				Services:   []MiniClusterContainer{{Name: "c"}},
				Flux: FluxSpec{
					Container:      FluxContainer{Name: "view", Image: "i", MountPath: "/m"},
					ConnectTimeout: "1m", LogLevel: 7, Scheduler: FluxScheduler{QueuePolicy: "easy"},
					Bursting: Bursting{
						LeadBroker: FluxBroker{Address: "1.2.3.4", Name: "lead", Size: 2},
						Clusters:   []BurstedCluster{{}, {Name: "far", Size: 3}},
					},
				},
				Pod: PodSpec{SecurityContext: corev1.PodSecurityContext{}},
			},
			want: MiniClusterSpec{
				Size: 2, MaxSize: 8, Tasks: &none, DeadlineSeconds: 60,
				Containers: []MiniClusterContainer{{Image: "a"}, {Name: "b", RunFlux: true, Image: "b"}},
				Services:   []MiniClusterContainer{{Name: "c", Image: DefaultImage}},
				Flux: FluxSpec{
					Container:      FluxContainer{Name: "view", Image: "i", MountPath: "/m"},
					ConnectTimeout: "1m", LogLevel: 7, Scheduler: FluxScheduler{QueuePolicy: "easy"},
					Bursting: Bursting{
						LeadBroker: FluxBroker{Address: "1.2.3.4", Name: "lead", Size: 2, Port: 8050},
						Clusters:   []BurstedCluster{{Name: "burst-0", Size: 8}, {Name: "far", Size: 3}},
					},
				},
			},
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got := test.spec.DeepCopy()
			got.Default()
			if diff := cmp.Diff(&test.want, got); diff != "" {
				t.Errorf("after Default (-want +got):\n%s", diff)
			}
			again := got.DeepCopy()
			again.Default()
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("a second Default changed (-first +second):\n%s", diff)
			}
		})
	}
}
