package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/runs"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// WhyParts are what else may be known beside a FleetMiniCluster; each may be missing.
type WhyParts struct {
	// Now adds how long ago things were, and how long is left. Without it only times are told, so that the sentence stays
	// the same while nothing happens.
	Now time.Time
	// Sees says whose names may be told.
	Sees Sees
	// State is how far it is, where that is known better than the status tells it.
	State v1alpha1.State
	// Line is the line for room that it stands in, Gangs how its pods would lie on members, the nearest miss first.
	Line  *Line
	Gangs []GangFit
}

// MaxSentence is the length of a sentence in bytes.
const MaxSentence = 2000

// WhySentence says in a sentence or a few why a FleetMiniCluster does not run, or runs where it does. It needs nothing but
// the object, and tells more with more.
func WhySentence(f *v1alpha1.FleetMiniCluster, parts WhyParts) string {
	w := &why{FleetMiniCluster: f, WhyParts: parts}
	text := HideOthers(w.sentence(), parts.Sees)
	return sanitize.Text(text, MaxSentence)
}

type why struct {
	*v1alpha1.FleetMiniCluster
	WhyParts
}

// sentences tell of each state.
var sentences = map[v1alpha1.State]func(*why) string{
	v1alpha1.StateWaiting:   (*why).waiting,
	v1alpha1.StateStarting:  (*why).starting,
	v1alpha1.StateRunning:   (*why).running,
	v1alpha1.StateStopping:  (*why).stopping,
	v1alpha1.StateSuspended: (*why).suspended,
	v1alpha1.StateSucceeded: (*why).succeeded,
	v1alpha1.StateFailed:    (*why).failed,
	v1alpha1.StateCancelled: (*why).cancelled,
	v1alpha1.StateUnknown:   (*why).unknown,
	v1alpha1.StateInvalid:   (*why).invalid,
}

func (w *why) sentence() string {
	if !w.DeletionTimestamp.IsZero() {
		return w.deleting()
	}
	tell, ok := sentences[cmp.Or(w.State, w.Status.State)]
	if !ok {
		return "MiniFleet has not read it yet."
	}
	return tell(w)
}

// ready is the condition Ready; empty where there is none.
func (w *why) ready() metav1.Condition {
	if c := meta.FindStatusCondition(w.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// waits are what is waited for, by the reason of Ready.
var waits = map[string]func(*why) string{
	v1alpha1.ReasonInsufficientCapacity: (*why).forRoom,
	v1alpha1.ReasonRetryWaiting:         (*why).forRetry,
	v1alpha1.ReasonConnecting:           func(w *why) string { return "It waits until it is known what is free: " + end(w.ready().Message) },
	v1alpha1.ReasonReferenceMissing:     func(w *why) string { return "It waits for a Secret or ConfigMap: " + end(w.ready().Message) },
	v1alpha1.ReasonBindingMissing:       func(w *why) string { return "It waits for a Secret or ConfigMap: " + end(w.ready().Message) },
	v1alpha1.ReasonReferenceWithdrawn:   func(w *why) string { return "It waits for a Secret or ConfigMap: " + end(w.ready().Message) },
	v1alpha1.ReasonPlacementNotFound:    func(w *why) string { return "It waits for its Placement: " + end(w.ready().Message) },
	v1alpha1.ReasonNoClusterMatches:     func(w *why) string { return "It waits for a member: " + end(w.ready().Message) },
	v1alpha1.ReasonNotEnoughClusters:    func(w *why) string { return "It waits for members: " + end(w.ready().Message) },
	v1alpha1.ReasonMemberClosed:         func(w *why) string { return "It waits for a member: " + end(w.ready().Message) },
	v1alpha1.ReasonWaitingForCompletion: func(w *why) string { return "It waits for another of its runs: " + end(w.ready().Message) },
	v1alpha1.ReasonDeleting:             func(w *why) string { return "It waits for pods to end: " + end(w.ready().Message) },
	v1alpha1.ReasonPolicyDenied:         func(w *why) string { return "It waits for permission: " + end(w.ready().Message) },
	v1alpha1.ReasonMemberNotAsked: func(w *why) string {
		return "It waits for a member that may hold a run of it, so that nothing runs twice: " + end(w.ready().Message)
	},
}

func (w *why) waiting() string {
	ready := w.ready()
	if tell, ok := waits[ready.Reason]; ok {
		return tell(w)
	}
	if ready.Message == "" {
		return "It has not begun yet."
	}
	return "It has not begun yet: " + end(ready.Message)
}

// forRoom is about one that waits for room. What is known of nodes now says more than the status does.
func (w *why) forRoom() string {
	if known := w.nearest(); known != "" {
		return known + w.elsewhere(w.Gangs[0].Member)
	}
	if p := w.Status.Placement; p != nil && len(p.Waiting) > 0 {
		first := p.Waiting[0]
		return "It waits for room on " + first.Name + ": " + end(first.Reason) + w.elsewhere(first.Name)
	}
	return "It waits for room: " + end(w.ready().Message)
}

// nearest says when it starts on the member that lacks least; empty where the nodes of no member are known.
func (w *why) nearest() string {
	if len(w.Gangs) == 0 || w.Gangs[0].Unknown != "" {
		return ""
	}
	g := w.Gangs[0]
	if w.beyondQuota(g.Member) {
		return "" // its status says by how much
	}
	after := w.after(g.Member)
	node := slices.IndexFunc(g.Nodes, func(n NodeFit) bool { return n.Nearest && n.Lacks != "" })
	switch missing := g.Pods - g.Fits; {
	case g.Beside != "":
		return fmt.Sprintf("It starts when there is room on %s for the pod of services beside its pods: it lacks %s%s.", g.Member, g.Beside, after)
	case missing <= 0 && after == "":
		return fmt.Sprintf("All of its pods have room on %s: it is about to start.", g.Member)
	case missing <= 0:
		return fmt.Sprintf("All of its pods have room on %s, and it starts%s there.", g.Member, strings.TrimPrefix(after, ","))
	case node < 0:
		return fmt.Sprintf("It starts when %d more of its %d pods have a node of %s that may run them%s.", missing, g.Pods, g.Member, after)
	case missing == 1:
		return fmt.Sprintf("It starts when %s more are free on %s of %s%s.", g.Nodes[node].Lacks, g.Nodes[node].Node, g.Member, after)
	default:
		return fmt.Sprintf("It starts when %d more of its %d pods have room on %s, where %s lacks %s for one of them%s.",
			missing, g.Pods, g.Member, g.Nodes[node].Node, g.Nodes[node].Lacks, after)
	}
}

// beyondQuota says whether it is a limit of its namespace that keeps it from a member.
func (w *why) beyondQuota(member string) bool {
	if w.Line == nil || w.Line.Member != member {
		return false
	}
	p := w.Line.find(w.Namespace, w.Name)
	return p != nil && p.Quota
}

// after says who starts before it on a member; empty where nobody does.
func (w *why) after(member string) string {
	if w.Line == nil || w.Line.Member != member {
		return ""
	}
	p := w.Line.find(w.Namespace, w.Name)
	switch {
	case p == nil || p.Behind == nil:
		return ""
	case p.Behind.Name == "":
		return ", after another MiniCluster has started"
	default:
		return ", after " + p.Behind.Namespace + "/" + p.Behind.Name + " has started"
	}
}

// maxElsewhere is how many other members a sentence tells of.
const maxElsewhere = 3

// elsewhere says why it does not start on other members: those that lack room first.
func (w *why) elsewhere(but string) string {
	p := w.Status.Placement
	if p == nil {
		return ""
	}
	var out []string
	told := map[string]bool{but: true}
	for _, r := range slices.Concat(p.Waiting, p.Rejected) {
		if told[r.Name] || strings.HasPrefix(r.Reason, "not needed") {
			continue
		}
		told[r.Name] = true
		out = append(out, says(r.Name, r.Reason))
	}
	if len(out) == 0 {
		return ""
	}
	more := ""
	if n := len(out) - maxElsewhere; n > 0 {
		out, more = out[:maxElsewhere], fmt.Sprintf("; and %d more members", n)
	}
	return " " + end(strings.Join(out, "; ")+more)
}

// says joins a member and what is said of it, as a clause where that goes on from the name.
func says(member, reason string) string {
	for _, verb := range []string{"is ", "cannot ", "does ", "has "} {
		if strings.HasPrefix(reason, verb) {
			return member + " " + reason
		}
	}
	return member + ": " + reason
}

func (w *why) forRetry() string {
	for i := len(w.Status.Runs) - 1; i >= 0; i-- {
		r := &w.Status.Runs[i]
		if r.State != v1alpha1.RunFailed || r.CompletionTime == nil || w.lineOf(r.Cluster).Reason != v1alpha1.ReasonRetryWaiting {
			continue
		}
		next := runs.RetryTime(r)
		return fmt.Sprintf("It failed on %s%s, and is tried again %s (retry %d of %d).", r.Cluster, howFailed(r), w.due(next), r.Attempt+1, w.Spec.Retries)
	}
	return "It has failed, and is tried again: " + end(w.ready().Message)
}

// lineOf is the line of a member; empty where there is none.
func (w *why) lineOf(member string) v1alpha1.ClusterStatus {
	for _, c := range w.Status.Clusters {
		if c.Name == member {
			return c
		}
	}
	return v1alpha1.ClusterStatus{}
}

// run is the run that a member's line is about, nil where there is none.
func (w *why) run(c *v1alpha1.ClusterStatus) *v1alpha1.Run {
	i := slices.IndexFunc(w.Status.Runs, func(r v1alpha1.Run) bool { return r.ID == c.Run })
	if c.Run == "" || i < 0 {
		return nil
	}
	return &w.Status.Runs[i]
}

// each tells of every member that there is something to tell of, at most three.
func (w *why) each(tell func(*v1alpha1.ClusterStatus, *v1alpha1.Run) string) string {
	var out []string
	for i := range w.Status.Clusters {
		c := &w.Status.Clusters[i]
		if run := w.run(c); run != nil {
			if text := tell(c, run); text != "" {
				out = append(out, text)
			}
		}
	}
	const most = 3
	if n := len(out) - most; n > 0 {
		out = append(out[:most], fmt.Sprintf("And so on %d more members.", n))
	}
	return strings.Join(out, " ")
}

func (w *why) starting() string {
	text := w.each(func(c *v1alpha1.ClusterStatus, r *v1alpha1.Run) string {
		if r.State.Ended() {
			return ""
		}
		begun := fmt.Sprintf("Run %s was begun on %s%s", r.ID, c.Name, w.when(r.StartTime))
		switch {
		case r.SuspendedTime != nil:
			begun = fmt.Sprintf("Run %s on %s is suspended there since %s", r.ID, c.Name, w.at(r.SuspendedTime.Time))
		case r.PendingSince != nil:
			begun = fmt.Sprintf("No pod of run %s on %s runs since %s", r.ID, c.Name, w.at(r.PendingSince.Time))
		}
		return begun + ": " + end(cmp.Or(c.Message, podsReady(c)))
	})
	return cmp.Or(text, "It is about to start.")
}

func podsReady(c *v1alpha1.ClusterStatus) string {
	return fmt.Sprintf("%d of %d pods are ready", c.Pods.Ready+c.Pods.Succeeded, c.Pods.Desired)
}

func (w *why) running() string {
	text := w.each(func(c *v1alpha1.ClusterStatus, r *v1alpha1.Run) string {
		if r.State.Ended() {
			return ""
		}
		if r.RunningTime == nil {
			return fmt.Sprintf("On %s it is starting: %s", c.Name, end(cmp.Or(c.Message, podsReady(c))))
		}
		out := fmt.Sprintf("It runs on %s%s: %s", c.Name, w.since(r.RunningTime), podsReady(c))
		if c.Message != "" && !strings.HasPrefix(c.Message, "running") {
			out += "; " + strings.TrimSuffix(c.Message, ".")
		}
		return out + "." + w.because(c.Name)
	})
	if text == "" {
		return "It runs."
	}
	if ready := w.ready(); ready.Reason == v1alpha1.ReasonInsufficientCapacity || ready.Reason == v1alpha1.ReasonNotEnoughClusters {
		text += " It is to run on more members: " + end(ready.Message)
	}
	return text
}

// because says why a member was chosen.
func (w *why) because(member string) string {
	if w.Status.Placement == nil {
		return ""
	}
	for _, d := range w.Status.Placement.Decisions {
		if d.Name == member && d.Reason != "" {
			return fmt.Sprintf(" %s was chosen: %s", member, end(d.Reason))
		}
	}
	return ""
}

// stops say why a run is stopped.
var stops = map[v1alpha1.StopReason]string{
	v1alpha1.StopChanged:      "because it has changed",
	v1alpha1.StopCancelled:    "because somebody has cancelled it",
	v1alpha1.StopDrained:      "because its member is drained",
	v1alpha1.StopNotStarted:   "because its pods did not run in time",
	v1alpha1.StopLost:         "because it was lost",
	v1alpha1.StopDeclaredGone: "because somebody has declared it gone",
	v1alpha1.StopDeleted:      "because somebody has deleted its Job",
}

func (w *why) stopping() string {
	text := w.each(func(c *v1alpha1.ClusterStatus, r *v1alpha1.Run) string {
		if r.State.Ended() {
			return ""
		}
		out := fmt.Sprintf("Run %s on %s is being stopped", r.ID, c.Name)
		if because := stops[r.Stop]; because != "" {
			out += " " + because
		}
		if c.Message != "" {
			return out + ": " + end(c.Message)
		}
		return out + ", and its pods are ending."
	})
	return cmp.Or(text, "It is being stopped.")
}

// suspended quotes what the status says of who suspends it, and how to go on.
func (w *why) suspended() string {
	const held = "no new run starts; "
	message := w.ready().Message
	if _, how, ok := strings.Cut(message, held); ok {
		return "It is suspended and does not start: " + end(how)
	}
	if message == "" {
		return "It is suspended."
	}
	return "It is " + end(message)
}

func (w *why) succeeded() string {
	text := w.each(func(c *v1alpha1.ClusterStatus, r *v1alpha1.Run) string {
		switch {
		case r.State != v1alpha1.RunSucceeded:
			return ""
		case r.RestoredTime != nil && r.Message != "":
			return fmt.Sprintf("On %s it has %s", c.Name, end(strings.TrimPrefix(r.Message, "has ")))
		case r.CompletionTime == nil:
			return fmt.Sprintf("It succeeded on %s.", c.Name)
		case r.RunningTime == nil:
			return fmt.Sprintf("It succeeded on %s at %s.", c.Name, w.at(r.CompletionTime.Time))
		}
		return fmt.Sprintf("It succeeded on %s at %s, after %s.", c.Name, w.at(r.CompletionTime.Time), spell(r.CompletionTime.Sub(r.RunningTime.Time)))
	})
	return cmp.Or(text, "It has succeeded.")
}

// howFailed says of a run how its first pod failed, with a colon before it.
func howFailed(r *v1alpha1.Run) string {
	e := r.Exit
	if e == nil {
		if r.Message == "" {
			return ""
		}
		return ": " + strings.TrimSuffix(r.Message, ".")
	}
	out := ": pod " + e.Pod
	if e.Container != "" {
		out += ", container " + e.Container
	}
	if e.ExitCode != nil {
		out += fmt.Sprintf(", exit code %d", *e.ExitCode)
	}
	if e.Reason != "" && e.Reason != "Error" {
		out += " (" + e.Reason + ")"
	}
	if e.Message != "" {
		out += ": " + strings.TrimSuffix(e.Message, ".")
	}
	return out
}

func (w *why) failed() string {
	text := w.each(func(c *v1alpha1.ClusterStatus, r *v1alpha1.Run) string {
		if r.State != v1alpha1.RunFailed {
			return ""
		}
		at := ""
		if r.CompletionTime != nil {
			at = " at " + w.at(r.CompletionTime.Time)
		}
		out := fmt.Sprintf("It failed on %s%s%s.", c.Name, at, howFailed(r))
		switch {
		case r.Stop == v1alpha1.StopDeleted:
			return out + " It is not repeated by itself, because somebody has deleted it."
		case r.Attempt > 0:
			return out + fmt.Sprintf(" It was tried %d times.", r.Attempt+1)
		}
		return out
	})
	return cmp.Or(text, "It has failed: "+end(w.ready().Message))
}

func (w *why) cancelled() string {
	text := w.each(func(c *v1alpha1.ClusterStatus, r *v1alpha1.Run) string {
		if r.State != v1alpha1.RunCancelled {
			return ""
		}
		at := ""
		if r.CompletionTime != nil {
			at = " at " + w.at(r.CompletionTime.Time)
		}
		return fmt.Sprintf("Run %s on %s was cancelled%s. It is not run again until it changes or somebody asks for it.", r.ID, c.Name, at)
	})
	return cmp.Or(text, "It was cancelled.")
}

// doing is what a run was doing when it was last heard of.
var doing = map[v1alpha1.RunState]string{
	v1alpha1.RunStarting: "starting", v1alpha1.RunRunning: "running", v1alpha1.RunStopping: "being stopped",
}

// unknown is about what may be live on members that cannot be reached. Nothing is known of it, and that is what it says.
func (w *why) unknown() string {
	text := w.each(func(c *v1alpha1.ClusterStatus, r *v1alpha1.Run) string {
		if r.State.Ended() || c.Sync != v1alpha1.SyncUnknown {
			return ""
		}
		heard := c.Name + " cannot be reached"
		if c.LastHeardTime != nil {
			heard = fmt.Sprintf("%s has not been heard of%s", c.Name, w.since(c.LastHeardTime))
		}
		was := doing[r.State]
		if r.State == v1alpha1.RunRunning && r.RunningTime == nil {
			was = "starting"
		}
		out := fmt.Sprintf("%s. Run %s was %s there then, and may go on.", heard, r.ID, was)
		if r.LostTime != nil {
			return out + " It starts elsewhere once it is proven gone: when " + c.Name + " answers that nothing is left of it, or somebody declares it gone."
		}
		return out + " It is not repeated elsewhere before " + c.Name + " answers, unless somebody declares it gone."
	})
	if text == "" {
		return "Something of it may run on a member that cannot be asked, and nothing new starts until that is known: " + end(w.ready().Message)
	}
	return text
}

func (w *why) invalid() string {
	if w.ready().Reason == v1alpha1.ReasonPolicyDenied {
		return "It waits for permission: " + end(w.ready().Message)
	}
	return "It cannot run as it is: " + end(w.ready().Message)
}

func (w *why) deleting() string {
	message := strings.TrimPrefix(w.ready().Message, "deleting: ")
	if w.ready().Reason != v1alpha1.ReasonDeleting || message == "" {
		return fmt.Sprintf("It is being deleted%s.", w.since(w.DeletionTimestamp))
	}
	return fmt.Sprintf("It is being deleted%s, and waits for %s", w.since(w.DeletionTimestamp), end(message))
}

// at is a time for people: of today only the time of day, where it is known what today is.
func (w *why) at(t time.Time) string {
	t = t.UTC()
	if !w.Now.IsZero() && t.Format(time.DateOnly) == w.Now.UTC().Format(time.DateOnly) {
		return t.Format(time.TimeOnly + " UTC")
	}
	return t.Format(time.DateTime + " UTC")
}

// since is a time and how long ago that is.
func (w *why) since(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	out := " since " + w.at(t.Time)
	if ago := w.Now.Sub(t.Time); !w.Now.IsZero() && ago > 0 {
		out += " (" + spell(ago) + ")"
	}
	return out
}

// when is a time and how long ago that is.
func (w *why) when(t *metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	out := " at " + w.at(t.Time)
	if ago := w.Now.Sub(t.Time); !w.Now.IsZero() && ago > 0 {
		out += ", " + spell(ago) + " ago"
	}
	return out
}

// due is a time to come and how long that is.
func (w *why) due(t time.Time) string {
	if left := t.Sub(w.Now); !w.Now.IsZero() {
		if left <= 0 {
			return "now"
		}
		return "in " + spell(left) + ", at " + w.at(t)
	}
	return "at " + w.at(t)
}

// spell is a duration for people, in its two largest units.
func spell(d time.Duration) string {
	switch d = d.Round(time.Second); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return units(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return units(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	default:
		return units(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
	}
}

func units(n int, unit string, rest int, small string) string {
	if rest == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, rest, small)
}

// end ends a sentence.
func end(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "no more is known."
	}
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "…") {
		return text
	}
	return text + "."
}
