package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/gitsource/parse"
	"github.com/minifleet/minifleet/internal/changes"
	"github.com/minifleet/minifleet/internal/cli/review"
	"github.com/minifleet/minifleet/internal/grant"
	"github.com/minifleet/minifleet/internal/plan"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// kindsOf are the kinds of changes that actions are told as.
var kindsOf = map[v1alpha1.ChangeAction]string{
	v1alpha1.ChangeCreate: review.New, v1alpha1.ChangeUpdate: review.Changed, v1alpha1.ChangeRun: review.Anew,
	v1alpha1.ChangeDelete: review.Dropped, v1alpha1.ChangeKeep: review.Kept, v1alpha1.ChangeRefuse: review.Refused,
}

// report makes up what is told of a comparison.
func (c *comparison) report(ctx context.Context) (*review.Report, error) {
	r := &review.Report{
		Source: c.source.Namespace + "/" + c.source.Name, Read: c.read.revision, Applied: c.source.Status.Revision, Notes: c.notes(),
	}
	r.Summary.Unchanged = len(c.plan.InSync)
	for _, p := range c.parsed.Problems {
		found := review.Problem{File: p.Path, Line: p.Line, Object: p.Object, Field: p.Field, Message: p.Message}
		if p.Warning {
			r.Warnings = append(r.Warnings, found)
		} else {
			r.Problems = append(r.Problems, found)
		}
	}
	if f := c.read.fetched; f.PathMissing {
		r.Problems = append(r.Problems, review.Problem{Field: "spec.path", Message: f.PathProblem})
	}
	c.denied(r)
	c.approvals(r)
	for i := range c.plan.Changes {
		r.Changes = append(r.Changes, c.change(&c.plan.Changes[i]))
	}
	for _, key := range c.plan.Deleting {
		r.Notes = append(r.Notes, key+" is being deleted, and is created anew once that has ended")
	}
	if err := c.place(ctx, r); err != nil {
		return nil, err
	}
	all := len(r.Changes)
	r.Changes = slices.DeleteFunc(r.Changes, func(ch review.Change) bool { return isNote(&ch) })
	r.Summary.Unchanged += all - len(r.Changes)
	r.Finish()
	return r, nil
}

// notes are what is not checked, and what keeps the commit from being applied as it is.
func (c *comparison) notes() []string {
	out := slices.Clone(c.read.notes)
	spec := &c.source.Spec
	if spec.Suspend {
		out = append(out, "the GitSource is suspended: nothing is read, and nothing of this happens, while spec.suspend is true")
	}
	if spec.Mode == v1alpha1.SourceDryRun {
		out = append(out, "the GitSource has spec.mode DryRun: nothing of this happens while it has")
	}
	if spec.Verify != nil {
		out = append(out, "spec.verify: signatures are not checked here; the hub applies no commit that bears none of a trusted key")
	}
	return out
}

// change is one change, without where it is placed.
func (c *comparison) change(in *changes.Change) review.Change {
	out := review.Change{
		Object: in.Key, Kind: kindsOf[in.Action], File: in.Path, Line: in.Line, NeedsApproval: in.NeedsApproval, Message: in.Message,
	}
	switch in.Action {
	case v1alpha1.ChangeCreate:
		out.Diff = unifiedDiff(nil, declared(in.Object)) // without the defaults, which are many
	case v1alpha1.ChangeUpdate, v1alpha1.ChangeRun:
		out.Diff = unifiedDiff(manifestOf(in.Have), manifestOf(in.Want))
	case v1alpha1.ChangeDelete:
		if live := liveRuns(in.Have); live != "" {
			out.Message = strings.TrimPrefix(out.Message+"; "+live, "; ")
		}
	}
	return out
}

// isNote says that nothing of an object changes but what MiniFleet notes of where it comes from.
func isNote(c *review.Change) bool {
	return c.Kind == review.Changed && c.Diff == "" && c.Message == ""
}

// liveRuns says what becomes of live runs of an object that is deleted.
func liveRuns(obj changes.Object) string {
	f, ok := obj.(*v1alpha1.FleetMiniCluster)
	if !ok {
		return ""
	}
	var live []string
	for i := range f.Status.Runs {
		if run := &f.Status.Runs[i]; !run.State.Ended() {
			live = append(live, run.ID+" on "+run.Cluster)
		}
	}
	if len(live) == 0 {
		return ""
	}
	return choose(len(live), "its live run is", "its live runs are") + " stopped: " + sanitize.Names(live, maxNames)
}

// maxDiffLines is how many lines are told of what differs in one object.
const maxDiffLines = 120

// unifiedDiff is a unified diff of what is on the hub and of what would be.
func unifiedDiff(have, want []string) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: have, B: want, FromFile: "hub", ToFile: "commit", Context: 3})
	if err != nil {
		return "" // not reachable: a builder takes everything
	}
	lines := strings.SplitAfter(text, "\n")
	if more := len(lines) - maxDiffLines; more > 1 {
		return strings.Join(lines[:maxDiffLines], "") + fmt.Sprintf("# %d more lines\n", more-1)
	}
	return text
}

// manifestOf are the lines of what Git says of an object: its spec, labels and annotations.
func manifestOf(obj changes.Object) []string {
	switch o := obj.(type) {
	case *v1alpha1.FleetMiniCluster:
		return yamlOf(o.Labels, o.Annotations, o.Spec)
	case *v1alpha1.Placement:
		return yamlOf(o.Labels, o.Annotations, o.Spec)
	}
	return nil
}

// declared is the same of an object as it is in a file.
func declared(o *parse.Object) []string {
	switch {
	case o.MiniCluster != nil:
		return yamlOf(o.MiniCluster.Labels, o.MiniCluster.Annotations, o.MiniCluster.Spec)
	case o.FleetMiniCluster != nil:
		return manifestOf(o.FleetMiniCluster)
	case o.Placement != nil:
		return manifestOf(o.Placement)
	}
	return nil
}

func yamlOf(labels, annotations map[string]string, spec any) []string {
	out := map[string]any{"spec": spec}
	for key, values := range map[string]map[string]string{"labels": labels, "annotations": annotations} {
		values = maps.Clone(values)
		maps.DeleteFunc(values, func(name, _ string) bool { return strings.HasPrefix(name, "minifleet.dev/source") })
		if len(values) > 0 {
			out[key] = values
		}
	}
	body, err := yaml.Marshal(out)
	if err != nil {
		return nil // not reachable: these are plain values
	}
	return linesOf(string(body))
}

// denied finds the fields of MiniClusters that take permissions which nobody has allowed.
func (c *comparison) denied(r *review.Report) {
	allowed := slices.Clone(c.source.Spec.Allow)
	if c.namespace != nil {
		allowed = append(allowed, grant.OfNamespace(c.namespace.Name, c.namespace.Annotations).Permissions...)
	}
	missing := map[string]bool{}
	c.refused = map[string]bool{}
	for i := range c.parsed.Objects {
		o := &c.parsed.Objects[i]
		for _, need := range policy.Denied(needsOf(c.rules, o), allowed) {
			permissions := policy.Permissions([]policy.Need{need})
			if c.namespace == nil {
				missing[policy.Join(permissions)] = true
				continue
			}
			c.refused[changes.Key(o.Kind, o.Name)] = true
			r.Problems = append(r.Problems, review.Problem{
				File: o.Path, Line: o.LineOf(need.Field.String()), Object: o.Kind + "/" + o.Name, Field: need.Field.String(),
				Message: sanitize.Text(need.Says(), sanitize.MaxNote/2) + ": it is applied, and no run of it begins. Remove it, or have it allowed: " +
					grant.SourceCommand(c.source, permissions),
			})
		}
	}
	if len(missing) > 0 {
		r.Notes = append(r.Notes, "MiniClusters need permissions that the GitSource does not allow ("+strings.Join(slices.Sorted(maps.Keys(missing)), ", ")+
			"); whether the namespace does, you may not read")
	}
}

// needsOf are the permissions that an object of a commit needs.
func needsOf(rules policy.Rules, o *parse.Object) []policy.Need {
	switch {
	case o.MiniCluster != nil:
		spec := o.MiniCluster.Spec.DeepCopy()
		spec.Default()
		return rules.Needs(spec, field.NewPath("spec"))
	case o.FleetMiniCluster != nil:
		spec := o.FleetMiniCluster.Spec.MiniCluster.DeepCopy()
		spec.Default()
		return rules.Needs(spec, field.NewPath("spec", "miniCluster"))
	}
	return nil
}

// approvals are the questions to a person.
func (c *comparison) approvals(r *review.Report) {
	for _, q := range []struct {
		kind, command string
		question      changes.Question
	}{{"Prune", "approve-prune", c.plan.Prune}, {"Runs", "approve-runs", c.plan.Runs}} {
		if len(q.question.Keys) > 0 {
			r.Approvals = append(r.Approvals, review.Approval{Kind: q.kind, Why: q.question.Why, Objects: q.question.Keys,
				Command: fmt.Sprintf("%s source %s %s -n %s", c.program, q.command, c.source.Name, c.source.Namespace)})
		}
	}
}

// placed is a FleetMiniCluster whose placement is foreseen: as it would be, and, where that is another one, as it is.
type placed struct {
	key string
	// change is its place in the report, -1 where Git changes nothing of it but the Placement that it names.
	change int
	have   *v1alpha1.FleetMiniCluster
	// now and next are asks: what would begin now, and where the next run would be; before are the same as things are.
	now, next, before, nextBefore int
}

// nextRun is the token of a run that nobody has asked for, to find out where it would be.
const nextRun = "the next run"

// place adds to a report where runs would begin, and which MiniClusters move.
func (c *comparison) place(ctx context.Context, r *review.Report) error {
	before, after := c.placements(), c.placementsAfter()
	var asks []plan.Ask
	ask := func(f *v1alpha1.FleetMiniCluster, placements map[string]*v1alpha1.PlacementSpec, next, alone bool) int {
		if next {
			f = f.DeepCopy()
			if f.Annotations == nil {
				f.Annotations = map[string]string{}
			}
			f.Annotations[v1alpha1.AnnotationRerunAt] = nextRun
		}
		asks = append(asks, plan.Ask{Object: f, Placement: resolve(f, placements), Alone: alone})
		return len(asks) - 1
	}
	var all []placed
	add := func(key string, change int, have, want *v1alpha1.FleetMiniCluster) {
		p := placed{key: key, change: change, have: have}
		p.now = ask(want, after, false, false)
		if have != nil {
			if !equality.Semantic.DeepEqual(resolve(have, before), resolve(want, after)) {
				p.before, p.next, p.nextBefore = ask(have, before, false, true), ask(want, after, true, true), ask(have, before, true, true)
			}
		}
		all = append(all, p)
	}
	for i := range c.plan.Changes {
		ch := &c.plan.Changes[i]
		want, ok := ch.Want.(*v1alpha1.FleetMiniCluster)
		have, _ := ch.Have.(*v1alpha1.FleetMiniCluster)
		if ok && (!isNote(&r.Changes[i]) || !equality.Semantic.DeepEqual(resolve(have, before), resolve(want, after))) {
			add(ch.Key, i, have, want)
		}
	}
	for _, key := range c.movable(before, after) {
		f, _ := c.hub[key].(*v1alpha1.FleetMiniCluster) // movable returns no others
		add(key, -1, f, f)
	}
	forecasts, notes, err := c.foresee(ctx, asks)
	if err != nil {
		return err
	}
	r.Notes = append(r.Notes, notes...)
	for i := range all {
		c.tell(r, &all[i], forecasts)
	}
	return nil
}

// tell adds what is foreseen of one FleetMiniCluster.
func (c *comparison) tell(r *review.Report, p *placed, forecasts []plan.Forecast) {
	now := &forecasts[p.now]
	if c.refused[p.key] {
		now = &plan.Forecast{State: plan.ForecastRefused, Message: "it needs permissions that it does not have"}
	}
	if p.change >= 0 {
		ch := &r.Changes[p.change]
		if ch.Kind != review.Changed {
			ch.Placement = placementOf(now)
			return
		}
	}
	kind, message := review.Changed, ""
	if p.next > 0 {
		kind, message = moves(p.have, now, &forecasts[p.before], &forecasts[p.next], &forecasts[p.nextBefore])
	}
	switch {
	case p.change >= 0:
		ch := &r.Changes[p.change]
		ch.Kind, ch.Message = kind, message
		if now.State != plan.ForecastKeeps {
			ch.Placement = placementOf(now)
		}
	case kind != review.Changed:
		ch := review.Change{Object: p.key, Kind: kind, File: changes.FileOf(p.have), Message: message}
		if now.State != plan.ForecastKeeps {
			ch.Placement = placementOf(now)
		}
		r.Changes = append(r.Changes, ch)
	}
}

// moves says what another placement does to a FleetMiniCluster that stays as it is otherwise.
func moves(have *v1alpha1.FleetMiniCluster, now, before, next, nextBefore *plan.Forecast) (kind, message string) {
	if len(have.Status.Runs) > 0 && len(now.Members)+len(now.OneOf) > 0 && !sameMembers(now, before) {
		return review.Anew, "its placement takes in more members"
	}
	if next.State == plan.ForecastUnknown || nextBefore.State == plan.ForecastUnknown {
		return review.Moved, "its placement changes; where its next run would be is not known"
	}
	if sameMembers(next, nextBefore) && next.State == nextBefore.State {
		return review.Changed, ""
	}
	where := whereOf(next)
	if where == "" {
		where = "nowhere: " + next.Message
	}
	was := whereOf(nextBefore)
	if was == "" {
		was = "nowhere"
	}
	message = "its next run would be on " + where + ", and not on " + was
	if len(have.Status.Runs) > 0 {
		message += "; runs that are there stay"
	}
	return review.Moved, message
}

func sameMembers(a, b *plan.Forecast) bool {
	set := func(f *plan.Forecast) []string {
		out := slices.Concat(f.Members, f.OneOf)
		slices.Sort(out)
		return out
	}
	return a.Choose == b.Choose && slices.Equal(set(a), set(b))
}

// placements are those on the hub.
func (c *comparison) placements() map[string]*v1alpha1.PlacementSpec {
	out := map[string]*v1alpha1.PlacementSpec{}
	for _, obj := range c.hub {
		if p, ok := obj.(*v1alpha1.Placement); ok {
			out[p.Name] = &p.Spec
		}
	}
	return out
}

// placementsAfter are those that would be on the hub.
func (c *comparison) placementsAfter() map[string]*v1alpha1.PlacementSpec {
	out := c.placements()
	for i := range c.plan.Changes {
		ch := &c.plan.Changes[i]
		want, _ := ch.Want.(*v1alpha1.Placement)
		have, _ := ch.Have.(*v1alpha1.Placement)
		switch {
		case want != nil:
			out[want.Name] = &want.Spec
		case have != nil && ch.Action == v1alpha1.ChangeDelete && !ch.NeedsApproval:
			delete(out, have.Name)
		}
	}
	return out
}

func resolve(f *v1alpha1.FleetMiniCluster, placements map[string]*v1alpha1.PlacementSpec) *v1alpha1.PlacementSpec {
	if f.Spec.Placement != nil || f.Spec.PlacementRef == nil {
		return f.Spec.Placement
	}
	return placements[f.Spec.PlacementRef.Name]
}

// movable are the FleetMiniClusters, of whomever they are, that no change is about and whose Placement would be another one.
func (c *comparison) movable(before, after map[string]*v1alpha1.PlacementSpec) []string {
	about := map[string]bool{}
	for i := range c.plan.Changes {
		if action := c.plan.Changes[i].Action; action != v1alpha1.ChangeKeep && action != v1alpha1.ChangeRefuse {
			about[c.plan.Changes[i].Key] = true
		}
	}
	var out []string
	for key, obj := range c.hub {
		f, ok := obj.(*v1alpha1.FleetMiniCluster)
		if ok && !about[key] && f.DeletionTimestamp.IsZero() && !equality.Semantic.DeepEqual(resolve(f, before), resolve(f, after)) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}
