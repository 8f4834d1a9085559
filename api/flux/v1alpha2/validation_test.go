package v1alpha2

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
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
			name:   strings.Repeat("a", 61),
			change: func(s *MiniClusterSpec) { s.Size = 10 },
		},
		"hostname too long only at the largest size": {
			name:   strings.Repeat("a", 61),
			change: func(s *MiniClusterSpec) { s.Size, s.MaxSize = 4, 11 },
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
			want: []string{"spec.containers[1].name", "spec.containers"},
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
			want: []string{"spec.containers[0].launcher", "spec.containers[0].commands.script"},
		},
		"ports, variables, secrets": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].Ports = []int32{80, 80, 70000}
				s.Containers[0].Environment = map[string]string{"A=B": "", "TOKEN": ""}
				s.Containers[0].Secrets = map[string]Secret{"TOKEN": {Name: "Bad Name", Key: "k"}}
			},
			want: []string{
				"spec.containers[0].ports[1]", "spec.containers[0].ports[2]", "spec.containers[0].environment",
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
				"spec.flux.environment", "spec.flux.bursting.hostlist", "spec.flux.bursting.leadBroker.address",
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
				"spec.pod.labels", "spec.pod.dnsPolicy", "spec.pod.tolerations[0].key", "spec.pod.tolerations[1].value",
				"spec.pod.tolerations[2].operator", "spec.pod.tolerations[2].effect", "spec.pod.nodeAffinity[zone]",
			},
		},
		"paths and names": {
			change: func(s *MiniClusterSpec) {
				s.Network.HeadlessName, s.Archive.Path = "a.b", "here"
				s.JobLabels = map[string]string{"a": "not a value"}
			},
			want: []string{"spec.jobLabels[a]", "spec.network.headlessName", "spec.archive.path"},
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
