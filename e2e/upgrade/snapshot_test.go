package upgrade

import (
	"slices"
	"strings"

	"github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// snapshot is what a change of version must not change. Keys of Jobs and pods are MEMBER/NAME.
type snapshot struct {
	Jobs map[string]jobState
	Pods map[string]types.UID
	// Writes counts what each member was asked, and has done: creates and deletes of Jobs and pods, by verb and name.
	Writes map[string]int
	// Runs are the ledgers, Places the members that were chosen, by FleetMiniCluster.
	Runs   map[string][]v1alpha1.Run
	Places map[string][]string
	// States are STATE of `kubectl get`.
	States map[string]v1alpha1.State
	// Deleted are deletes on the hub of what people have made.
	Deleted []string
}

type jobState struct {
	UID       types.UID
	Suspended bool
	Active    int32
	Succeeded int32
}

func (f *fleet) snapshot() *snapshot {
	f.t.Helper()
	s := &snapshot{
		Jobs: map[string]jobState{}, Pods: map[string]types.UID{}, Writes: map[string]int{},
		Runs: map[string][]v1alpha1.Run{}, Places: map[string][]string{}, States: map[string]v1alpha1.State{},
	}
	for _, member := range memberNames {
		f.addMember(s, member)
	}
	var all v1alpha1.FleetMiniClusterList
	f.Expect(f.hub.List(f.t.Context(), &all, client.InNamespace(namespace))).To(gomega.Succeed())
	for i := range all.Items {
		item := &all.Items[i]
		s.Runs[item.Name] = item.Status.Runs
		if item.Status.Placement != nil {
			s.Places[item.Name] = item.Status.Placement.Clusters
		}
		s.States[item.Name] = item.Status.State
	}
	for _, e := range f.audit("hub") {
		if strings.HasPrefix(e.Verb, "delete") && e.Object != nil && e.Object.Group == v1alpha1.GroupVersion.Group {
			s.Deleted = append(s.Deleted, e.Verb+" "+e.RequestURI)
		}
	}
	return s
}

func (f *fleet) addMember(s *snapshot, member string) {
	f.t.Helper()
	var jobs batchv1.JobList
	f.Expect(f.members[member].List(f.t.Context(), &jobs, client.InNamespace(namespace))).To(gomega.Succeed())
	for i := range jobs.Items {
		j := &jobs.Items[i]
		s.Jobs[member+"/"+j.Name] = jobState{
			UID: j.UID, Suspended: j.Spec.Suspend != nil && *j.Spec.Suspend, Active: j.Status.Active, Succeeded: j.Status.Succeeded,
		}
	}
	var pods corev1.PodList
	f.Expect(f.members[member].List(f.t.Context(), &pods, client.InNamespace(namespace))).To(gomega.Succeed())
	for i := range pods.Items {
		s.Pods[member+"/"+pods.Items[i].Name] = pods.Items[i].UID
	}
	for _, e := range f.audit(member) {
		if counted(&e) {
			s.Writes[member+" "+e.Verb+" "+e.Object.Resource+" "+e.Object.Name]++
		}
	}
}

// counted are requests that make or delete a Job or a pod and were granted. A create of a pod has no name.
func counted(e *lab.AuditEvent) bool {
	return (e.Verb == "create" || strings.HasPrefix(e.Verb, "delete")) && e.Object != nil && e.Object.Namespace == namespace &&
		slices.Contains([]string{"jobs", "pods"}, e.Object.Resource) && e.Object.Subresource == "" && e.Response.Code/100 == 2
}

// jobsCreated is how many Jobs of a name have been created on all members together.
func (f *fleet) jobsCreated(name string) int {
	f.t.Helper()
	n := 0
	for _, member := range memberNames {
		for _, e := range f.audit(member) {
			if counted(&e) && e.Verb == "create" && e.Object.Resource == "jobs" && e.Object.Name == name {
				n++
			}
		}
	}
	return n
}

func (f *fleet) audit(cluster string) []lab.AuditEvent {
	f.t.Helper()
	events, err := f.audits[cluster].Read()
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return events
}

// refused are MiniFleet's requests since the audit log of a cluster had so many, that it never had the right to.
func (f *fleet) refused(cluster string, since int) []string {
	f.t.Helper()
	events := slices.DeleteFunc(slices.Clone(f.audit(cluster)[since:]), func(e lab.AuditEvent) bool { return e.UserAgent != "minifleet" })
	never, err := f.lab.Cluster(cluster).NeverAllowed(f.t.Context(), events)
	f.Expect(err).NotTo(gomega.HaveOccurred())
	return never
}
