package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxPodNodes is how many pods of a run a tree shows one by one.
const maxPodNodes = 200

// TreeInput is what a tree is made of. All but the object may be missing.
type TreeInput struct {
	Object *v1alpha1.FleetMiniCluster
	// State is how far it is, where that is known better than the status tells it.
	State v1alpha1.State
	// Source declares the object.
	Source *v1alpha1.GitSource
	// Members are what members have been asked, by name.
	Members map[string]MemberPods
	// Stale are the members that cannot be reached, by name: the status of the object may not say so yet.
	Stale map[string]Stale
	// Sees says whose names may be told.
	Sees Sees
}

// MemberPods is what a member has of the latest run there.
type MemberPods struct {
	// Known says that Pods are those that there are.
	Known bool
	Pods  []corev1.Pod
	// Error is why they are not known.
	Error string
	// Objects are what the run needs beside its Job.
	Objects []ObjectRef
}

// ObjectRef names an object on a member.
type ObjectRef struct{ Kind, Name string }

// Tree is what a commit has come to: from the source to the pods.
func Tree(in TreeInput) TreeNode {
	root := in.miniCluster()
	f := in.Object
	if source := f.Labels[v1alpha1.LabelSource]; source != "" {
		root = in.source(source, root)
	}
	revision := cmp.Or(f.Status.Revision, f.Annotations[v1alpha1.AnnotationSourceRevision])
	if revision != "" {
		root = in.commit(revision, root)
	}
	return root
}

// line is text of others, safe for one line of a tree.
func (in *TreeInput) line(text string) string {
	const most = 300
	return sanitize.Text(HideOthers(text, in.Sees), most)
}

func (in *TreeInput) commit(revision string, child TreeNode) TreeNode {
	n := TreeNode{ID: "commit", Kind: "Commit", Name: in.line(revision), Children: []TreeNode{child}}
	if in.Source == nil {
		return n
	}
	for _, c := range in.Source.Status.Commits {
		if c.Revision != revision {
			continue
		}
		n.Text, n.Since = in.line(strings.Trim(c.Subject+" · "+c.Author, " ·")), moment(c.Time)
		break
	}
	return n
}

func (in *TreeInput) source(name string, child TreeNode) TreeNode {
	n := TreeNode{
		ID: "source", Kind: "Source", Name: name, State: string(v1alpha1.SyncUnknown), Link: "/sources/" + in.Object.Namespace + "/" + name,
		Children: []TreeNode{child},
	}
	if in.Source == nil {
		return n
	}
	for _, c := range in.Source.Status.Conditions {
		if c.Type != v1alpha1.ConditionReady {
			continue
		}
		n.Since = moment(&c.LastTransitionTime)
		switch c.Status {
		case metav1.ConditionTrue:
			n.State = string(v1alpha1.Synced)
		case metav1.ConditionFalse:
			n.State, n.Text = string(v1alpha1.OutOfSync), in.line(c.Message)
		case metav1.ConditionUnknown:
			n.Text = in.line(c.Message)
		}
	}
	return n
}

func (in *TreeInput) miniCluster() TreeNode {
	f := in.Object
	n := TreeNode{
		ID: "minicluster", Kind: "MiniCluster", Name: f.Name, State: string(cmp.Or(in.State, f.Status.State)),
		Link: "/miniclusters/" + f.Namespace + "/" + f.Name, Children: []TreeNode{},
	}
	if s := f.Status.Summary; s != nil {
		n.Text = s.Pods + " pods"
	}
	if !f.DeletionTimestamp.IsZero() {
		n.State, n.Since = string(v1alpha1.StateDeleting), moment(f.DeletionTimestamp)
	}
	for i := range f.Status.Clusters {
		n.Children = append(n.Children, in.member(in.known(f.Status.Clusters[i])))
	}
	return in.rejected(n)
}

// known is the line of a member as far as it is known: of one that cannot be reached nothing is, though the line was
// made before that was found out.
func (in *TreeInput) known(c v1alpha1.ClusterStatus) *v1alpha1.ClusterStatus {
	stale, ok := in.Stale[c.Name]
	if !ok {
		return &c
	}
	c.Sync = v1alpha1.SyncUnknown
	if stale.Since != nil {
		c.LastHeardTime = &metav1.Time{Time: *stale.Since}
	}
	if run := runOf(in.Object, c.Run); run == nil || !run.State.Ended() {
		c.Message = stale.Message
	}
	return &c
}

// rejected adds the members that were not chosen: those without room first.
func (in *TreeInput) rejected(n TreeNode) TreeNode {
	p := in.Object.Status.Placement
	if p == nil {
		return n
	}
	told := map[string]bool{}
	for _, c := range in.Object.Status.Clusters {
		told[c.Name] = true
	}
	for i, r := range slices.Concat(p.Waiting, p.Rejected) {
		if told[r.Name] {
			continue
		}
		told[r.Name] = true
		child := TreeNode{ID: "rejected/" + r.Name, Kind: "Rejected", Name: r.Name, Text: in.line(r.Reason), Link: "/members/" + r.Name, Children: []TreeNode{}}
		if i < len(p.Waiting) {
			child.State = string(v1alpha1.StateWaiting)
		}
		n.Children = append(n.Children, child)
	}
	return n
}

// runOf is a run of the ledger, nil where it is not there.
func runOf(f *v1alpha1.FleetMiniCluster, id string) *v1alpha1.Run {
	i := slices.IndexFunc(f.Status.Runs, func(r v1alpha1.Run) bool { return r.ID == id })
	if id == "" || i < 0 {
		return nil
	}
	return &f.Status.Runs[i]
}

// stateOn is how far a MiniCluster is on one member.
func stateOn(c *v1alpha1.ClusterStatus, run *v1alpha1.Run) v1alpha1.State {
	live := run != nil && !run.State.Ended()
	switch {
	case c.Sync == v1alpha1.SyncUnknown && (run == nil || live):
		return v1alpha1.StateUnknown
	case live && run.State == v1alpha1.RunStopping:
		return v1alpha1.StateStopping
	case c.Health == v1alpha1.Suspended:
		return v1alpha1.StateSuspended
	case live && run.RunningTime != nil && run.PendingSince == nil:
		return v1alpha1.StateRunning
	case live:
		return v1alpha1.StateStarting
	case run == nil || run.State == v1alpha1.RunReplaced || c.Reason == v1alpha1.ReasonRetryWaiting:
		return v1alpha1.StateWaiting
	default:
		return v1alpha1.State(run.State) // Succeeded, Failed or Cancelled
	}
}

func (in *TreeInput) member(c *v1alpha1.ClusterStatus) TreeNode {
	run := runOf(in.Object, c.Run)
	n := TreeNode{
		ID: "member/" + c.Name, Kind: "Member", Name: c.Name, State: string(stateOn(c, run)), Text: in.line(c.Message),
		Stale: moment(c.LastHeardTime), Link: "/members/" + c.Name, Children: []TreeNode{},
	}
	asked := in.Members[c.Name]
	if run != nil {
		n.Children = append(n.Children, in.job(c, run, asked))
	}
	for _, o := range asked.Objects {
		n.Children = append(n.Children, TreeNode{ID: n.ID + "/" + o.Kind + "/" + o.Name, Kind: "Object", Name: o.Kind + "/" + o.Name, Children: []TreeNode{}})
	}
	return n
}

// podsOfJob counts those that are ready, or of a run that has ended those that have succeeded.
func podsOfJob(c *v1alpha1.ClusterStatus, run *v1alpha1.Run) string {
	if run.State.Ended() {
		return fmt.Sprintf("%d of %d pods succeeded", c.Pods.Succeeded, c.Pods.Desired)
	}
	return fmt.Sprintf("%d of %d pods ready", c.Pods.Ready+c.Pods.Succeeded, c.Pods.Desired)
}

func (in *TreeInput) job(c *v1alpha1.ClusterStatus, run *v1alpha1.Run, asked MemberPods) TreeNode {
	n := TreeNode{
		ID: "member/" + c.Name + "/job", Kind: "Job", Name: in.Object.Name, State: string(stateOn(c, run)),
		Text: "run " + run.ID + ", " + podsOfJob(c, run), Since: moment(run.StartTime), Stale: moment(c.LastHeardTime),
	}
	switch {
	case run.CompletionTime != nil:
		n.Since = moment(run.CompletionTime)
	case run.RunningTime != nil:
		n.Since = moment(run.RunningTime)
	}
	n.Children = in.pods(n.ID, c, run, asked)
	return n
}

// pods are the pods of a run: each, or how many there are in each state. Where the member was not asked, what was last seen
// of them counts; where it cannot be reached, or does not answer, nothing is known of what is live.
func (in *TreeInput) pods(id string, c *v1alpha1.ClusterStatus, run *v1alpha1.Run, asked MemberPods) []TreeNode {
	lastSeenReady := strings.Replace(podsReady(c), " are ", " were ", 1) + " when they were last seen"
	switch {
	case c.Sync == v1alpha1.SyncUnknown && !run.State.Ended():
		return folded(id, map[corev1.PodPhase]int32{corev1.PodUnknown: c.Pods.Desired}, moment(c.LastHeardTime), lastSeenReady)
	case !asked.Known && asked.Error != "" && !run.State.Ended():
		return folded(id, map[corev1.PodPhase]int32{corev1.PodUnknown: c.Pods.Desired}, nil, in.line(asked.Error+"; "+lastSeenReady))
	case asked.Known && len(asked.Pods) <= maxPodNodes && (len(asked.Pods) > 0 || !run.State.Ended()):
		out := make([]TreeNode, 0, len(asked.Pods))
		for i := range asked.Pods {
			out = append(out, in.pod(id, &asked.Pods[i]))
		}
		return out
	case asked.Known && len(asked.Pods) > maxPodNodes && len(asked.Pods) >= int(c.Pods.Desired):
		return folded(id, counted(asked.Pods), nil, "")
	default:
		return folded(id, lastSeen(c, run), moment(c.LastHeardTime), in.line(asked.Error))
	}
}

func counted(pods []corev1.Pod) map[corev1.PodPhase]int32 {
	out := map[corev1.PodPhase]int32{}
	for i := range pods {
		out[phaseOf(&pods[i])]++
	}
	return out
}

// lastSeen are the pods as the hub last saw their Job. Of a run that has ended only those that have are there still.
func lastSeen(c *v1alpha1.ClusterStatus, run *v1alpha1.Run) map[corev1.PodPhase]int32 {
	out := map[corev1.PodPhase]int32{corev1.PodSucceeded: c.Pods.Succeeded, corev1.PodFailed: c.Pods.Failed}
	if !run.State.Ended() {
		out[corev1.PodRunning] = c.Pods.Ready
		out[corev1.PodPending] = max(c.Pods.Desired-c.Pods.Ready-c.Pods.Succeeded, 0)
	}
	return out
}

// phases are those of pods in the order in which they are shown.
var phases = []corev1.PodPhase{corev1.PodFailed, corev1.PodUnknown, corev1.PodPending, corev1.PodRunning, corev1.PodSucceeded}

func folded(id string, pods map[corev1.PodPhase]int32, stale *time.Time, text string) []TreeNode {
	out := []TreeNode{}
	for _, phase := range phases {
		if n := pods[phase]; n > 0 {
			name := fmt.Sprintf("%d pods", n)
			if n == 1 {
				name = "1 pod"
			}
			out = append(out, TreeNode{
				ID: id + "/pods/" + string(phase), Kind: "Pods", Name: name, State: string(phase), Count: n,
				Stale: stale, Text: text, Children: []TreeNode{},
			})
		}
	}
	return out
}

func phaseOf(pod *corev1.Pod) corev1.PodPhase {
	if slices.Contains(phases, pod.Status.Phase) {
		return pod.Status.Phase
	}
	return corev1.PodPending
}

func (in *TreeInput) pod(id string, pod *corev1.Pod) TreeNode {
	n := TreeNode{
		ID: id + "/pod/" + pod.Name, Kind: "Pod", Name: in.line(pod.Name), State: string(phaseOf(pod)), Node: in.line(pod.Spec.NodeName),
		Text: in.line(podText(pod)), Since: moment(pod.Status.StartTime), Children: []TreeNode{},
	}
	if rank, err := strconv.ParseInt(pod.Annotations[batchv1.JobCompletionIndexAnnotation], 10, 32); err == nil {
		r := int32(rank)
		n.Rank = &r
	}
	return n
}

// podText says what there is to say of a pod beside its phase: why its containers do not run, how they have ended, how
// often they were restarted.
func podText(pod *corev1.Pod) string {
	if !pod.DeletionTimestamp.IsZero() {
		return "being deleted"
	}
	restarts, text := int32(0), ""
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		restarts += c.RestartCount
		switch {
		case text != "":
		case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "PodInitializing":
			text = c.State.Waiting.Reason
		case c.State.Terminated != nil && c.State.Terminated.ExitCode != 0:
			text = fmt.Sprintf("exit code %d", c.State.Terminated.ExitCode)
			if r := c.State.Terminated.Reason; r != "" && r != "Error" {
				text += " (" + r + ")"
			}
		}
	}
	if text == "" {
		text = unscheduled(pod)
	}
	if restarts > 0 {
		text = strings.TrimPrefix(fmt.Sprintf("%s, restarted %d times", text, restarts), ", ")
	}
	return text
}

func unscheduled(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		}
	}
	return pod.Status.Reason
}

func moment(t *metav1.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t.Time
}
