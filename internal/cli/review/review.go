// Package review tells what a commit would change on a hub: to a person at a terminal, to a program, and to whoever reads
// a pull request on a forge. What it is given holds text of whoever may push; what it writes steers no terminal, and on a
// forge neither renders, nor links, nor mentions anybody.
package review

import (
	"fmt"
	"slices"
	"strings"

	"github.com/minifleet/minifleet/internal/sanitize"
)

// SchemaVersion is that of Report as JSON. Fields may be added within a version; none changes its meaning or is taken away.
const SchemaVersion = "minifleet.dev/diff/v1"

// Kinds of changes, in the order in which they are told.
const (
	Refused = "Refused" // it would not be applied
	Dropped = "Removed" // it would be deleted
	Anew    = "Run"     // it would change and run anew
	New     = "New"     // it would appear
	Moved   = "Moved"   // it would be placed elsewhere
	Changed = "Changed" // it would change, and no run begins for that
	Kept    = "Kept"    // Git does not declare it, and it stays
)

// Report is what a commit would change.
type Report struct {
	Schema string `json:"schema"`
	// Source is the GitSource, as NAMESPACE/NAME.
	Source string `json:"source"`
	// What was read, and what is applied now.
	Read    Revision `json:"read"`
	Applied string   `json:"applied,omitempty"`
	// Differs says that something would change; Failed that something is wrong with the commit.
	Differs bool `json:"differs"`
	Failed  bool `json:"failed"`
	// Headline is one line that says it all; Summary has its numbers.
	Headline string  `json:"headline"`
	Summary  Summary `json:"summary"`
	// Problems keep something from being applied, Warnings do not.
	Problems []Problem `json:"problems"`
	Warnings []Problem `json:"warnings"`
	// Approvals are what a person would have to approve.
	Approvals []Approval `json:"approvals"`
	Changes   []Change   `json:"changes"`
	// Notes say what is not known, or not checked.
	Notes []string `json:"notes"`
}

// Revision is what was read.
type Revision struct {
	// Kind is WorkingTree, Revision or Ref, Name that of the folder, the revision or the ref.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Commit is the full hash; empty for a working tree.
	Commit  string `json:"commit,omitempty"`
	Author  string `json:"author,omitempty"`
	Subject string `json:"subject,omitempty"`
}

// Summary counts.
type Summary struct {
	// MiniClusters, by kind of change.
	New     int `json:"new"`
	Run     int `json:"run"`
	Moved   int `json:"moved"`
	Changed int `json:"changed"`
	Removed int `json:"removed"`
	Kept    int `json:"kept"`
	// Placements that would be created, updated or deleted.
	Placements int `json:"placements"`
	// Refused are objects of any kind that would not be applied.
	Refused   int `json:"refused"`
	Problems  int `json:"problems"`
	Warnings  int `json:"warnings"`
	Unchanged int `json:"unchanged"`
	// Starts are MiniClusters of which a run would begin at once, Waits those that would wait for room or for a member.
	Starts int `json:"starts"`
	Waits  int `json:"waits"`
}

// Problem is something that is wrong in a file.
type Problem struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// Object is KIND/NAME.
	Object  string `json:"object,omitempty"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// Approval is a question to a person.
type Approval struct {
	// Kind is Prune or Runs.
	Kind    string   `json:"kind"`
	Why     string   `json:"why"`
	Objects []string `json:"objects"`
	// Command shows the question once the commit is read, and how to approve it.
	Command string `json:"command"`
}

// Change is what would become of one object.
type Change struct {
	// Object is KIND/NAME on the hub.
	Object string `json:"object"`
	// Kind is one of those above.
	Kind string `json:"kind"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// NeedsApproval says that nothing would become of it before a person approves it.
	NeedsApproval bool   `json:"needsApproval,omitempty"`
	Message       string `json:"message,omitempty"`
	// Placement is where a run would begin; absent where none would.
	Placement *Placement `json:"placement,omitempty"`
	// Diff is a unified diff in YAML of what is on the hub and of what would be. Of a long one the end is missing.
	Diff string `json:"diff,omitempty"`
}

// Placement is where a run would begin, and whether there is room.
type Placement struct {
	// State is Starts, Follows (another run ends first), Waits, Keeps (no run begins), NoMember, Suspended, Refused or
	// Unknown.
	State string `json:"state"`
	// Says is that for people.
	Says string `json:"says"`
	// Members are those where a run would begin, OneOf equals of which so many as Choose would be chosen besides.
	Members []string `json:"members,omitempty"`
	OneOf   []string `json:"oneOf,omitempty"`
	Choose  int      `json:"choose,omitempty"`
	// Keeps are members where nothing begins, since they have run it.
	Keeps []string `json:"keeps,omitempty"`
	// RoomUnknown are those of which it is not known whether it fits.
	RoomUnknown []string `json:"roomUnknown,omitempty"`
	// Waiting would be chosen if they had room, Rejected are not chosen: each with the reason.
	Waiting  []Reason `json:"waiting,omitempty"`
	Rejected []Reason `json:"rejected,omitempty"`
}

// Reason is why a member is not chosen.
type Reason struct {
	Member string `json:"member"`
	Reason string `json:"reason"`
}

// States of a Placement that a headline counts.
const (
	stateStarts = "Starts"
	stateWaits  = "Waits"
)

// order of changes.
var order = []string{Refused, Dropped, Anew, New, Moved, Changed, Kept}

// Finish sorts a report, makes its texts safe and counts.
func (r *Report) Finish() {
	r.Schema = SchemaVersion
	r.Read.Name, r.Read.Author, r.Read.Subject = text(r.Read.Name), text(r.Read.Author), text(r.Read.Subject)
	r.Applied = text(r.Applied)
	for _, list := range [][]Problem{r.Problems, r.Warnings} {
		for i := range list {
			p := &list[i]
			p.File, p.Object, p.Field, p.Message = text(p.File), text(p.Object), text(p.Field), text(p.Message)
		}
	}
	for i := range r.Approvals {
		r.Approvals[i].Why = text(r.Approvals[i].Why)
	}
	for i := range r.Changes {
		r.Changes[i].safe()
	}
	for i := range r.Notes {
		r.Notes[i] = text(r.Notes[i])
	}
	slices.SortStableFunc(r.Changes, func(a, b Change) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
	r.Problems, r.Warnings, r.Approvals = notNil(r.Problems), notNil(r.Warnings), notNil(r.Approvals)
	r.Changes, r.Notes = notNil(r.Changes), notNil(r.Notes)
	r.count()
	r.Headline = r.headline()
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func text(s string) string { return sanitize.Text(s, sanitize.MaxNote) }

func (c *Change) safe() {
	c.File, c.Message = text(c.File), text(c.Message)
	c.Diff = lines(c.Diff, sanitize.Line)
	if p := c.Placement; p != nil {
		p.Says = text(p.Says)
		for _, list := range [][]Reason{p.Waiting, p.Rejected} {
			for i := range list {
				list[i].Reason = text(list[i].Reason)
			}
		}
	}
}

// lines applies f to each line.
func lines(text string, f func(string) string) string {
	if text == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(f(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

func (r *Report) count() {
	s := &r.Summary
	*s = Summary{Unchanged: s.Unchanged, Problems: len(r.Problems), Warnings: len(r.Warnings)}
	kinds := map[string]*int{New: &s.New, Anew: &s.Run, Moved: &s.Moved, Changed: &s.Changed, Dropped: &s.Removed, Kept: &s.Kept}
	for i := range r.Changes {
		c := &r.Changes[i]
		switch {
		case c.Kind == Refused:
			s.Refused++
		case !c.miniCluster() && c.Kind != Kept:
			s.Placements++
		default:
			*kinds[c.Kind]++
		}
		if p := c.Placement; p != nil && !c.NeedsApproval {
			switch p.State {
			case stateStarts:
				s.Starts++
			case stateWaits, "NoMember":
				s.Waits++
			}
		}
	}
	r.Differs = slices.ContainsFunc(r.Changes, func(c Change) bool { return c.Kind != Refused && c.Kind != Kept })
	r.Failed = len(r.Problems) > 0 || s.Refused > 0
}

func (c *Change) miniCluster() bool { return !strings.HasPrefix(c.Object, "Placement/") }

// headline is the report in one line, such as "3 appear, 1 starts a new run, 1 goes away (needs approval)".
func (r *Report) headline() string {
	s := &r.Summary
	var parts []string
	add := func(n int, one, many, approval string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s%s", n, choose(n, one, many), approval))
		}
	}
	add(s.New, "appears", "appear", "")
	add(s.Run, "starts a new run", "start a new run", r.approval(Anew))
	add(s.Moved, "moves", "move", "")
	add(s.Changed, "changes", "change", "")
	add(s.Removed, "goes away", "go away", r.approval(Dropped))
	add(s.Placements, "Placement changes", "Placements change", r.approvalOf(func(c *Change) bool { return !c.miniCluster() }))
	add(s.Refused, "is refused", "are refused", "")
	add(s.Problems, "problem", "problems", "")
	if len(parts) == 0 {
		return "nothing changes"
	}
	return strings.Join(parts, ", ")
}

func (r *Report) approval(kind string) string {
	return r.approvalOf(func(c *Change) bool { return c.Kind == kind && c.miniCluster() })
}

// approvalOf says whether some of the changes need approval.
func (r *Report) approvalOf(these func(*Change) bool) string {
	all, need := 0, 0
	for i := range r.Changes {
		if c := &r.Changes[i]; these(c) {
			all++
			if c.NeedsApproval {
				need++
			}
		}
	}
	switch need {
	case 0:
		return ""
	case all:
		return " (" + choose(all, "needs", "need") + " approval)"
	default:
		return fmt.Sprintf(" (%d of them %s approval)", need, choose(need, "needs", "need"))
	}
}

func choose(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// place is FILE:LINE, as editors and CI know it.
func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// verbs are what is said of each kind of change.
var verbs = map[string]string{
	Refused: "is refused", Dropped: "goes away", Anew: "starts a new run", New: "appears", Moved: "moves", Changed: "changes", Kept: "stays as it is",
}

// says is what would become of an object.
func (c *Change) says() string {
	out := verbs[c.Kind]
	if c.NeedsApproval {
		out += " (needs approval)"
	}
	return out
}

func (p *Problem) about() string {
	out := p.Message
	for _, before := range []string{p.Field, p.Object} {
		if before != "" {
			out = before + ": " + out
		}
	}
	return out
}
