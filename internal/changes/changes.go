// Package changes decides what a commit of a GitSource would change on the hub. It is pure: the objects that the commit
// declares and those that are on the hub come in, and a plan goes out. The controller carries the plan out, a dry run
// tells it, and so does the command line: none of them can say something else than another.
//
//	desired.go   one object in Git -> the object on the hub
//	merge.go     that and what is there -> the object as it is to be
//	anew.go      one object before and after -> would it run anew
//	missing.go   what Git no longer declares
//	owner.go     whether the source, or what it reads, is another one than before
//	deletion.go  what goes with a source that is deleted
//	approval.go  what a person has to approve
//	changes.go   all of these -> the plan
package changes

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
)

// Object is a FleetMiniCluster or a Placement. It is what a client of controller-runtime takes.
type Object interface {
	metav1.Object
	runtime.Object
}

// Hub are FleetMiniClusters and Placements of one namespace of the hub, by KIND/NAME. Whoever changes one copies it first.
type Hub map[string]Object

// Input is a commit, and what is on the hub.
type Input struct {
	// Source is as it is on the hub: its annotations approve, and its status says what was applied before.
	Source *v1alpha1.GitSource
	// Commit is what was read: Hash is compared with approvals.
	Commit v1alpha1.Commit
	// Parsed is what it declares.
	Parsed parse.Result
	// PathProblem says why spec.path cannot be read, and is empty where it can.
	PathProblem string
	// Hub has the objects of the source, those of others whose names the commit declares, and the Placements of the namespace. It
	// may have more of the namespace.
	Hub Hub
	// InSync are resource versions by KIND/NAME at which objects were found to be as this commit wants them; nil compares
	// everything.
	InSync map[string]string
}

// Change is what becomes of one object. With NeedsApproval it waits for a person, and nothing becomes of it before.
type Change struct {
	// Key is KIND/NAME on the hub, where a MiniCluster is a FleetMiniCluster.
	Key    string
	Action v1alpha1.ChangeAction
	// Path of the file that declares the object, or did last. Line is 0 where Git does not declare it.
	Path string
	Line int
	// NeedsApproval is set of Run and Delete only.
	NeedsApproval bool
	// Message says more, for people; it may hold text of the repository.
	Message string
	// Object is what Git declares; nil where it declares nothing.
	Object *parse.Object
	// Have is the object on the hub, Want as it is to be; nil where there is none.
	Have, Want Object
}

// Plan is what a commit changes.
type Plan struct {
	// Changes are what is declared, Placements first, in the order of files, and then what is not, by KIND/NAME,
	// FleetMiniClusters first.
	Changes []Change
	// InSync are those of Input and all others with nothing to change.
	InSync map[string]string
	// Deleting are declared, and created anew once their deletion has ended; Pending are not declared, and being deleted.
	Deleting, Pending []string
	// Prune and Runs are the questions to a person: what is not deleted, or not updated since it would run anew, before
	// the commit is approved.
	Prune, Runs Question
	// Through says that nothing is left of what the source declared before, once the plan is carried out: nothing waits,
	// nothing is refused that is on the hub, and nothing is kept that Git may declare.
	Through bool
}

// Question is what waits for approval.
type Question struct {
	// Keys are KIND/NAME; empty where nothing waits.
	Keys []string
	// Why says in a few words why it has to be asked.
	Why string
}

// Compare decides what a commit changes. The same input gives the same plan.
func Compare(in Input) Plan {
	p := Plan{InSync: make(map[string]string, len(in.Parsed.Objects))}
	for _, group := range inOrder(in.Parsed.Objects) {
		for _, o := range group {
			p.addDeclared(&in, o)
		}
	}
	askForRuns(&in, &p)
	p.addMissing(&in)
	return p
}

// inOrder are the objects in groups of which one is applied after the other.
func inOrder(objects []parse.Object) [2][]*parse.Object {
	var groups [2][]*parse.Object
	for i := range objects {
		group := 1
		if objects[i].Kind == parse.KindPlacement {
			group = 0
		}
		groups[group] = append(groups[group], &objects[i])
	}
	return groups
}

// addDeclared adds what becomes of one object that Git declares.
func (p *Plan) addDeclared(in *Input, o *parse.Object) {
	key := Key(o.Kind, o.Name)
	have := in.Hub[key]
	if have != nil && in.InSync[key] != "" && in.InSync[key] == have.GetResourceVersion() && !appliedByAnother(in.Source, have) {
		p.InSync[key] = have.GetResourceVersion() // compared before, and not touched since
		return
	}
	change := Change{Key: key, Path: o.Path, Line: o.Line, Object: o, Have: have}
	want, refusal := Desired(in.Source, o)
	switch {
	case refusal != "":
		change.Action, change.Message = v1alpha1.ChangeRefuse, refusal
	case have == nil:
		annotateCommit(want.GetAnnotations(), &in.Commit)
		change.Action, change.Want = v1alpha1.ChangeCreate, want
	case !BelongsTo(have, in.Source.Name):
		change.Action, change.Message = v1alpha1.ChangeRefuse, notOurs(in.Source.Name, want, have)
	case !have.GetDeletionTimestamp().IsZero():
		p.Deleting = append(p.Deleting, key)
		return
	default:
		merged, changed := Merge(want, have, in.Commit)
		if !changed && !appliedByAnother(in.Source, have) {
			p.InSync[key] = have.GetResourceVersion()
			return
		}
		change.Action, change.Want = v1alpha1.ChangeUpdate, merged
		if WouldStartAnew(have, merged) {
			change.Action = v1alpha1.ChangeRun
		}
	}
	p.Changes = append(p.Changes, change)
}

// notOurs says whose an object is that a source would write, and how it could.
func notOurs(source string, want, have Object) string {
	whose := "was not created by a GitSource"
	if owner := have.GetLabels()[v1alpha1.LabelSource]; owner != "" {
		whose = "belongs to GitSource " + owner
	}
	return fmt.Sprintf("%s %s/%s exists already and %s, which keeps it: rename this one, or hand that one over (kubectl label --overwrite it with %s=%s)",
		KindOf(want), want.GetNamespace(), want.GetName(), whose, v1alpha1.LabelSource, source)
}

// IsEmpty says whether nothing changes, nothing is refused or kept, and no deletion has to end.
func (p *Plan) IsEmpty() bool { return len(p.Changes)+len(p.Deleting)+len(p.Pending) == 0 }

// Waiting says whether anything waits for approval.
func (p *Plan) Waiting() bool { return len(p.Prune.Keys) > 0 || len(p.Runs.Keys) > 0 }

// Summary counts the changes, for people: "2 to create, 3 to run anew (3 of them once approved)", or "nothing to change".
func (p *Plan) Summary() string {
	count, asks := map[v1alpha1.ChangeAction]int{}, map[v1alpha1.ChangeAction]int{}
	for i := range p.Changes {
		c := &p.Changes[i]
		if count[c.Action]++; c.NeedsApproval {
			asks[c.Action]++
		}
	}
	var parts []string
	for _, a := range actions {
		if count[a.action] == 0 {
			continue
		}
		part := fmt.Sprintf("%d %s", count[a.action], a.verb)
		if n := asks[a.action]; n > 0 {
			part += fmt.Sprintf(" (%d of them once approved)", n)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "nothing to change"
	}
	return strings.Join(parts, ", ")
}

var actions = []struct {
	action v1alpha1.ChangeAction
	verb   string
}{
	{v1alpha1.ChangeCreate, "to create"},
	{v1alpha1.ChangeUpdate, "to update"},
	{v1alpha1.ChangeRun, "to run anew"},
	{v1alpha1.ChangeDelete, "to delete"},
	{v1alpha1.ChangeRefuse, "refused"},
	{v1alpha1.ChangeKeep, "kept that Git does not declare"},
}

// Keys are those of the changes with one of these actions, without those that wait for approval.
func (p *Plan) Keys(actions ...v1alpha1.ChangeAction) []string {
	var out []string
	for i := range p.Changes {
		if c := &p.Changes[i]; !c.NeedsApproval && slices.Contains(actions, c.Action) {
			out = append(out, c.Key)
		}
	}
	return out
}

// Key is KIND/NAME on the hub, where a MiniCluster is a FleetMiniCluster.
func Key(kind, name string) string {
	if kind == parse.KindMiniCluster {
		kind = parse.KindFleetMiniCluster
	}
	return kind + "/" + name
}

// KindOf is the kind of an object of the hub.
func KindOf(obj Object) string {
	if _, ok := obj.(*v1alpha1.Placement); ok {
		return parse.KindPlacement
	}
	return parse.KindFleetMiniCluster
}

// FileOf is the file in Git that declares an object of the hub, or did last.
func FileOf(obj Object) string {
	file := obj.GetAnnotations()[v1alpha1.AnnotationSourcePath]
	if i := strings.LastIndexByte(file, '#'); i >= 0 {
		file = file[:i]
	}
	return file
}

// BelongsTo says whether an object of the hub has the label of a source.
func BelongsTo(obj Object, source string) bool {
	return obj.GetLabels()[v1alpha1.LabelSource] == source
}

// FilesOf maps the objects of a source, by KIND/NAME, to the files that declare them.
func (h Hub) FilesOf(source string) map[string]string {
	out := map[string]string{}
	for key, obj := range h {
		if BelongsTo(obj, source) {
			out[key] = FileOf(obj)
		}
	}
	return out
}

// placementsOf are the Placements, as KIND/NAME, that FleetMiniClusters refer to.
func (h Hub) placementsOf(keys []string) map[string]bool {
	out := map[string]bool{}
	for _, key := range keys {
		if f, ok := h[key].(*v1alpha1.FleetMiniCluster); ok && f.Spec.PlacementRef != nil {
			out[Key(parse.KindPlacement, f.Spec.PlacementRef.Name)] = true
		}
	}
	return out
}
