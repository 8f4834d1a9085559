// Package kubestatemetrics tests what kube-state-metrics makes of config/monitoring, with its own code. It is a module of its own,
// since that is made for another client-go than ours.
package kubestatemetrics

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-state-metrics/v2/pkg/customresourcestate"
	yaml "sigs.k8s.io/yaml/goyaml.v3"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

var created = metav1.NewTime(time.Unix(1_700_000_000, 0))

func conditions(of ...metav1.Condition) []metav1.Condition { return of }

// objects are one of each kind, as our types write them.
func objects() map[string]runtime.Object {
	meta := metav1.ObjectMeta{Namespace: "physics", Name: "lammps", CreationTimestamp: created}
	mini := &v1alpha1.FleetMiniCluster{ObjectMeta: meta}
	mini.Labels = map[string]string{v1alpha1.LabelSource: "science"}
	mini.Spec.PlacementRef, mini.Spec.MiniCluster.Size = &v1alpha1.LocalReference{Name: "anywhere"}, 4
	mini.Status.State = v1alpha1.StateRunning
	mini.Status.Conditions = conditions(metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSynced})
	mini.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "east", Pods: v1alpha1.PodCounts{Ready: 3}}}

	source := &v1alpha1.GitSource{ObjectMeta: meta}
	source.Status.MiniClusters, source.Status.ProblemCount, source.Spec.Suspend = 7, 2, true
	source.Status.Conditions = conditions(metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFetchFailed})

	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	member.Spec.DeletionPolicy, member.Spec.Capacity = v1alpha1.DeletionBlock, v1alpha1.CapacityObserve
	member.Status.Conditions = conditions(metav1.Condition{Type: "Ready", Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonUnreachable})

	placement, two := &v1alpha1.Placement{ObjectMeta: meta}, int32(2)
	placement.Spec.NumberOfClusters = &two
	return map[string]runtime.Object{"FleetMiniCluster": mini, "GitSource": source, "MemberCluster": member, "Placement": placement}
}

// want are the series of these objects, without those of StateSets that are 0.
const want = `
kube_minifleet_fleetminicluster_condition{customresource_group="minifleet.dev",customresource_kind="FleetMiniCluster",customresource_version="v1alpha1",exported_namespace="physics",name="lammps",reason="Synced",status="True",type="Ready"} 1
kube_minifleet_fleetminicluster_created{customresource_group="minifleet.dev",customresource_kind="FleetMiniCluster",customresource_version="v1alpha1",exported_namespace="physics",name="lammps"} 1.7e+09
kube_minifleet_fleetminicluster_info{customresource_group="minifleet.dev",customresource_kind="FleetMiniCluster",customresource_version="v1alpha1",exported_namespace="physics",name="lammps",placement="anywhere",source="science"} 1
kube_minifleet_fleetminicluster_member_pods_ready{customresource_group="minifleet.dev",customresource_kind="FleetMiniCluster",customresource_version="v1alpha1",exported_namespace="physics",member="east",name="lammps"} 3
kube_minifleet_fleetminicluster_size{customresource_group="minifleet.dev",customresource_kind="FleetMiniCluster",customresource_version="v1alpha1",exported_namespace="physics",name="lammps"} 4
kube_minifleet_fleetminicluster_state{customresource_group="minifleet.dev",customresource_kind="FleetMiniCluster",customresource_version="v1alpha1",exported_namespace="physics",name="lammps",state="Running"} 1
kube_minifleet_gitsource_condition{customresource_group="minifleet.dev",customresource_kind="GitSource",customresource_version="v1alpha1",exported_namespace="physics",name="lammps",reason="FetchFailed",status="False",type="Ready"} 0
kube_minifleet_gitsource_miniclusters{customresource_group="minifleet.dev",customresource_kind="GitSource",customresource_version="v1alpha1",exported_namespace="physics",name="lammps"} 7
kube_minifleet_gitsource_problems{customresource_group="minifleet.dev",customresource_kind="GitSource",customresource_version="v1alpha1",exported_namespace="physics",name="lammps"} 2
kube_minifleet_gitsource_suspended{customresource_group="minifleet.dev",customresource_kind="GitSource",customresource_version="v1alpha1",exported_namespace="physics",name="lammps"} 1
kube_minifleet_membercluster_condition{customresource_group="minifleet.dev",customresource_kind="MemberCluster",customresource_version="v1alpha1",name="east",reason="Unreachable",status="Unknown",type="Ready"} 0
kube_minifleet_membercluster_cordoned{customresource_group="minifleet.dev",customresource_kind="MemberCluster",customresource_version="v1alpha1",name="east"} 0
kube_minifleet_membercluster_info{capacity="Observe",customresource_group="minifleet.dev",customresource_kind="MemberCluster",customresource_version="v1alpha1",deletion_policy="Block",name="east"} 1
kube_minifleet_placement_number_of_clusters{customresource_group="minifleet.dev",customresource_kind="Placement",customresource_version="v1alpha1",exported_namespace="physics",name="lammps"} 2
`

func TestKubeStateMetricsTellsOfOurObjects(t *testing.T) {
	content, err := os.ReadFile("../../../config/monitoring/kube_state_metrics.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Kind                        string `yaml:"kind"`
		customresourcestate.Metrics `yaml:",inline"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true) // kube-state-metrics itself says nothing of a word that it does not know
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}
	all, got := objects(), []string{}
	for _, r := range config.Spec.Resources {
		factory, err := customresourcestate.NewCustomResourceMetrics(r)
		if err != nil {
			t.Fatal(err)
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(all[r.GroupVersionKind.Kind])
		if err != nil {
			t.Fatal(err)
		}
		delete(all, r.GroupVersionKind.Kind)
		for _, g := range factory.MetricFamilyGenerators() {
			lines := strings.Split(strings.TrimSpace(string(g.Generate(&unstructured.Unstructured{Object: object}).ByteSlice())), "\n")
			if len(lines) == 1 && lines[0] == "" {
				t.Errorf("%s tells nothing", g.Name)
			}
			got = append(got, lines...)
		}
	}
	if len(all) > 0 {
		t.Errorf("nothing is told of %v", all)
	}
	got = slices.DeleteFunc(got, func(line string) bool { return strings.Contains(line, "_state{") && strings.HasSuffix(line, " 0") })
	slices.Sort(got)
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), got); diff != "" {
		t.Error(diff)
	}
}

// A state that the API gets must be in the list, or objects in it have none.
func TestKubeStateMetricsKnowsAllStates(t *testing.T) {
	crd, err := os.ReadFile("../../../config/crd/bases/minifleet.dev_fleetminiclusters.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(crd), "State says in one word how far it is.")
	if !found {
		t.Fatal("the CRD has no state")
	}
	_, after, _ = strings.Cut(after, "enum:\n")
	config, err := os.ReadFile("../../../config/monitoring/kube_state_metrics.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(after) {
		state, is := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !is {
			break
		}
		n++
		if !strings.Contains(string(config), state+",") && !strings.Contains(string(config), state+"]") {
			t.Errorf("state %s is not in the list", state)
		}
	}
	if n < 11 {
		t.Errorf("the CRD has %d states", n)
	}
}
