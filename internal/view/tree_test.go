package view_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/rollup"
	"github.com/minifleet/minifleet/internal/view"
)

// outline writes a tree, one node a line.
func outline(n view.TreeNode, indent string) string {
	out := strings.TrimRight(fmt.Sprintf("%s%s %s %s %s", indent, n.Kind, n.Name, n.State, n.Text), " ")
	if n.Rank != nil {
		out += fmt.Sprintf(" #%d on %s", *n.Rank, n.Node)
	}
	if n.Stale != nil {
		out += " (stale)"
	}
	out += "\n"
	for _, c := range n.Children {
		out += outline(c, indent+"  ")
	}
	return out
}

func podAt(rank int, phase corev1.PodPhase, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("lammps-%d-abcde", rank), Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: strconv.Itoa(rank)}}}
	p.Spec.NodeName, p.Status.Phase = "n1", phase
	for _, c := range change {
		c(&p)
	}
	return p
}

func manyPods(n int) []corev1.Pod {
	out := make([]corev1.Pod, n)
	for i := range out {
		out[i] = podAt(i, corev1.PodRunning)
	}
	out[0].Status.Phase = corev1.PodFailed
	return out
}

func waitingContainer(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 3, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff\x1b"}}}}
}

func exited(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}}
}

func unscheduled(p *corev1.Pod) {
	p.Spec.NodeName = ""
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/5 nodes are available"}}
}

func fromGit(f *v1alpha1.FleetMiniCluster) {
	f.Labels = map[string]string{v1alpha1.LabelSource: "fleet"}
	f.Annotations = map[string]string{v1alpha1.AnnotationSourceRevision: "main@1a2b3c4"}
}

func TestTree(t *testing.T) {
	source := &v1alpha1.GitSource{Status: v1alpha1.GitSourceStatus{
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Message: "2 problems"}},
		Commits:    []v1alpha1.Commit{{Revision: "main@1a2b3c4", Subject: "Run it \u202eagain", Author: "Ada"}},
	}}
	runs := object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunRunning, running)}}, fromGit)
	away := object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunRunning, running)}})
	away.Status = rollup.Status(rollup.Input{
		Previous: away.Status, Now: noon, Members: []rollup.Member{member(v1alpha1.RunRunning, running, lost)}, Ledger: away.Status.Runs,
		Decision: away.Status.Placement,
	})
	large := runs.DeepCopy()
	large.Status.Clusters[0].Pods = v1alpha1.PodCounts{Desired: 300, Ready: 299, Failed: 1}
	tops := "Commit main@1a2b3c4  Run it \uFFFDagain · Ada\n  Source fleet OutOfSync 2 problems\n    MiniCluster lammps Running 4/4 pods\n"
	const under = "      Member alpine Running\n        Job lammps Running run 00000000aa, 4 of 4 pods ready\n"
	cases := map[string]struct {
		in   view.TreeInput
		want string
	}{
		"hub objects alone": {
			view.TreeInput{Object: runs},
			"Commit main@1a2b3c4\n  Source fleet Unknown\n    MiniCluster lammps Running 4/4 pods\n" + under + "          Pods 4 pods Running\n",
		},
		"with its source and pods": {
			view.TreeInput{Object: runs, Source: source, Members: map[string]view.MemberPods{"alpine": {Known: true, Pods: []corev1.Pod{
				podAt(0, corev1.PodRunning), podAt(1, corev1.PodPending, waitingContainer), podAt(2, corev1.PodFailed, exited), podAt(3, corev1.PodPending, unscheduled),
			}, Objects: []view.ObjectRef{{Kind: "Secret", Name: "lammps-curve"}}}}},
			tops + under +
				"          Pod lammps-0-abcde Running #0 on n1\n          Pod lammps-1-abcde Pending ImagePullBackOff\uFFFD, restarted 3 times #1 on n1\n" +
				"          Pod lammps-2-abcde Failed exit code 137 (OOMKilled) #2 on n1\n          Pod lammps-3-abcde Pending Unschedulable: 0/5 nodes are available #3 on \n" +
				"        Object Secret/lammps-curve\n",
		},
		"many pods": {
			view.TreeInput{Object: large, Source: source, Members: map[string]view.MemberPods{"alpine": {Known: true, Pods: manyPods(300)}}},
			tops + strings.ReplaceAll(under, "4 of 4", "299 of 300") + "          Pods 1 pod Failed\n          Pods 299 pods Running\n",
		},
		"a member that does not answer": {
			view.TreeInput{Object: runs, Source: source, Members: map[string]view.MemberPods{"alpine": {Error: "the member did not answer in time"}}},
			tops + under + "          Pods 4 pods Unknown the member did not answer in time; 4 of 4 pods were ready when they were last seen\n",
		},
		"a member that cannot be reached, which the status does not say yet": {
			view.TreeInput{
				Object: object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunRunning, running)}}), State: v1alpha1.StateUnknown,
				Stale:   map[string]view.Stale{"alpine": {Member: "alpine", Since: &noon, Message: "no answer"}},
				Members: map[string]view.MemberPods{"alpine": {Known: true, Pods: []corev1.Pod{podAt(0, corev1.PodRunning)}}},
			},
			"MiniCluster lammps Unknown 4/4 pods\n  Member alpine Unknown no answer (stale)\n    Job lammps Unknown run 00000000aa, 4 of 4 pods ready (stale)\n      Pods 4 pods Unknown 4 of 4 pods were ready when they were last seen (stale)\n",
		},
		"a member that is away": {
			view.TreeInput{Object: away},
			"MiniCluster lammps Unknown 4/4 pods\n  Member alpine Unknown no answer (stale)\n    Job lammps Unknown run 00000000aa, 4 of 4 pods ready (stale)\n      Pods 4 pods Unknown 4 of 4 pods were ready when they were last seen (stale)\n",
		},
		"waiting": {
			view.TreeInput{Object: object(waitingFor(turn)), Sees: only("hpc")},
			"MiniCluster lammps Waiting 0/0 pods\n  Rejected basalt Waiting its room is kept for another MiniCluster, which comes first\n" +
				"  Rejected alpine Waiting 0 of 4 pods fit; 1 nvidia.com/gpu short on n1\n  Rejected cinder  is not connected\n  Rejected onyx  not needed: 1 of 1 chosen\n",
		},
		"ended, and its pods are there no more": {
			view.TreeInput{Object: object(rollup.Input{Members: []rollup.Member{member(v1alpha1.RunSucceeded, ended)}}), Members: map[string]view.MemberPods{"alpine": {Known: true}}},
			"MiniCluster lammps Succeeded 4/4 pods\n  Member alpine Succeeded succeeded\n    Job lammps Succeeded run 00000000aa, 4 of 4 pods succeeded\n      Pods 4 pods Succeeded\n",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tree := view.Tree(c.in)
			if diff := cmp.Diff(c.want, outline(tree, "")); diff != "" {
				t.Error(diff)
			}
			if raw, err := json.Marshal(tree); err != nil || strings.Contains(string(raw), "null") || strings.Contains(string(raw), "physics") {
				t.Errorf("%v %s", err, raw)
			}
			unique(t, tree, map[string]bool{})
		})
	}
}

func unique(t *testing.T, n view.TreeNode, seen map[string]bool) {
	t.Helper()
	if n.ID == "" || seen[n.ID] {
		t.Errorf("the id %q is not unique", n.ID)
	}
	seen[n.ID] = true
	for _, c := range n.Children {
		unique(t, c, seen)
	}
}
