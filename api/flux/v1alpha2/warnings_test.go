package v1alpha2

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWarnings(t *testing.T) {
	tests := map[string]struct {
		change func(*MiniClusterSpec)
		want   []string
	}{
		"nothing": {change: func(*MiniClusterSpec) {}},
		"of the runner": {
			change: func(s *MiniClusterSpec) {
				c := &s.Containers[0]
				c.NoWrapEntrypoint, c.BatchRaw, c.Logs, c.Commands.ServicePre = true, true, "/l", "a"
				c.PullAlways, c.ImagePullPolicy = true, "Never"
			},
			want: []string{
				"spec.containers[0].noWrapEntrypoint", "spec.containers[0].commands.servicePre", "spec.containers[0].batchRaw",
				"spec.containers[0].logs", "spec.containers[0].imagePullPolicy",
			},
		},
		"of a sidecar and a service": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].RunFlux, s.Containers[0].Ports = true, []int32{80}
				s.Containers = append(s.Containers, MiniClusterContainer{
					Name: "a", Launcher: true, Batch: true, Logs: "/l", Commands: Commands{Prefix: "p", BrokerPre: "b", WorkerPre: "w"}, Ports: []int32{80},
				})
				s.Services = []MiniClusterContainer{{Name: "b", NoWrapEntrypoint: true, Command: "c", Commands: Commands{ServicePre: "p"}, Ports: []int32{80}}}
			},
			want: []string{
				"spec.containers[1].launcher", "spec.containers[1].batch", "spec.containers[1].logs", "spec.containers[1].commands.prefix",
				"spec.containers[1].commands.brokerPre", "spec.containers[1].commands.workerPre", "spec.containers[1].command", "spec.services[0].command",
				"spec.services[0].commands", "spec.containers[1].ports[0]",
			},
		},
		"of what replaces an image's entrypoint": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].RunFlux = true
				s.Containers = append(s.Containers, MiniClusterContainer{Name: "ends-at-once"},
					MiniClusterContainer{Name: "image", NoWrapEntrypoint: true}, MiniClusterContainer{Name: "post", Commands: Commands{Post: "p"}})
				s.Services = []MiniClusterContainer{
					{Name: "image"}, {Name: "only-pre", Commands: Commands{ServicePre: "p"}}, {Name: "both", Command: "c", Commands: Commands{ServicePre: "p"}},
				}
			},
			want: []string{"spec.containers[1].command", "spec.services[1].commands"},
		},
		"of the rest": {
			change: func(s *MiniClusterSpec) {
				s.Containers[0].Volumes = map[string]ContainerVolume{"v": {EmptyDir: true, ReadOnly: true}}
				s.Flux.CurveCert, s.Flux.Scheduler.QueuePolicy = "x", "lifo"
				s.Pod.Labels = map[string]string{"app": "mine"}
				s.Network.DisableAffinity, s.Pod.NodeAffinity = true, map[string][]string{"a": {"b"}}
			},
			want: []string{
				"spec.containers[0].volumes[v].readOnly", "spec.flux.curveCert", "spec.flux.scheduler.queuePolicy",
				"spec.pod.labels[app]", "spec.pod.nodeAffinity",
			},
		},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			spec := valid()
			test.change(spec)
			var got []string
			for _, w := range Warnings(spec, field.NewPath("spec")) {
				got = append(got, w.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("fields with warnings (-want +got):\n%s", diff)
			}
		})
	}
}
