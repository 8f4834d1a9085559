package review

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Signs of changes in text.
var signs = map[string]string{Refused: "!", Dropped: "-", Anew: "^", New: "+", Moved: ">", Changed: "~", Kept: "="}

// Text is the report for a terminal.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Headline)
	fmt.Fprintf(&b, "GitSource %s, %s", r.Source, r.Read.says())
	if r.Applied != "" {
		fmt.Fprintf(&b, ", against %s, which is applied", r.Applied)
	}
	b.WriteString("\n")
	textProblems(&b, "PROBLEMS", r.Problems)
	textProblems(&b, "WARNINGS", r.Warnings)
	if len(r.Approvals) > 0 {
		b.WriteString("\nNEEDS APPROVAL\n")
		for i := range r.Approvals {
			a := &r.Approvals[i]
			fmt.Fprintf(&b, "%s\n  once the hub has read it: %s\n", a.says(), a.Command)
		}
	}
	for i := range r.Changes {
		b.WriteString("\n")
		r.Changes[i].text(&b)
	}
	if len(r.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	return b.String()
}

func textProblems(b *strings.Builder, title string, problems []Problem) {
	if len(problems) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for i := range problems {
		p := &problems[i]
		if p.File != "" {
			b.WriteString(place(p.File, p.Line) + ": ")
		}
		b.WriteString(p.about() + "\n")
	}
}

func (c *Change) text(b *strings.Builder) {
	fmt.Fprintf(b, "%s %s %s", signs[c.Kind], c.Object, c.says())
	if c.File != "" {
		fmt.Fprintf(b, "  %s", place(c.File, c.Line))
	}
	b.WriteString("\n")
	if c.Message != "" {
		fmt.Fprintf(b, "  %s\n", c.Message)
	}
	if c.Placement != nil {
		fmt.Fprintf(b, "  %s\n", c.Placement.Says)
	}
	for line := range strings.Lines(c.Diff) {
		b.WriteString("    " + line)
	}
}

func (r *Revision) says() string {
	name := r.Name
	if r.Kind == WorkingTree {
		name = "working tree " + name
	}
	if r.Commit != "" && !strings.Contains(name, r.Commit) {
		const short = 7
		name += " (" + r.Commit[:min(len(r.Commit), short)] + ")"
	}
	if r.Subject != "" {
		name += fmt.Sprintf(" %q", r.Subject)
	}
	if r.Author != "" {
		name += " by " + r.Author
	}
	return name
}

// Kinds of what is read.
const (
	WorkingTree = "WorkingTree"
	AtRevision  = "Revision"
	AtRef       = "Ref"
)

// maxNamed is how many objects a question names.
const maxNamed = 10

func (a *Approval) says() string {
	names := a.Objects
	more := ""
	if n := len(names) - maxNamed; n > 0 {
		names, more = names[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	list := strings.Join(names, ", ") + more
	if a.Kind == "Prune" {
		return fmt.Sprintf("nothing of this is deleted before a person approves the commit (%s): %s", a.Why, list)
	}
	return fmt.Sprintf("nothing of this is updated, or runs anew, before a person approves the commit (%s): %s", a.Why, list)
}

// JSON is the report for programs.
func (r *Report) JSON() (string, error) {
	body, err := json.MarshalIndent(r, "", "  ")
	return string(body) + "\n", err
}
