package review

import (
	"fmt"
	"strings"
)

// MaxMarkdown is how long the report is in Markdown, in bytes. A comment on GitHub has at most 65,536 characters, and
// whoever posts it may add something.
const MaxMarkdown = 64_000

// maxListed is how many problems, warnings and notes are listed in Markdown, each.
const maxListed = 50

// Markdown is the report for a comment on a forge. All text of others is in code: there nothing is rendered, no
// name is mentioned and no number becomes a link. It ends where the next entry would make it too long, and says how many
// are missing.
func (r *Report) Markdown() string {
	end := fmt.Sprintf("\n<!-- minifleet diff %s -->\n", r.Source) // by which a comment of before is found again
	p := page{most: MaxMarkdown - len(end)}
	p.write(r.Headline + "\n\n" + r.markdownSource())
	p.list("Problems", "problem", problemItems(r.Problems))
	p.list("Warnings", "warning", problemItems(r.Warnings))
	p.list("Needs approval", "question", r.approvalItems())
	if len(r.Changes) > 0 {
		p.write("\n### Changes\n")
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		if !p.add("\n"+c.markdown(true), len(r.Changes)-i) && !p.add("\n"+c.markdown(false), len(r.Changes)-i) {
			p.omit(len(r.Changes)-i, "change")
			break
		}
	}
	p.list("Not known", "note", codes(r.Notes))
	return p.b.String() + end
}

func (r *Report) markdownSource() string {
	out := fmt.Sprintf("GitSource %s, %s", code(r.Source), code(r.Read.says()))
	if r.Applied != "" {
		out += ", against " + code(r.Applied) + ", which is applied"
	}
	return out + "\n"
}

// page is text of limited length.
type page struct {
	b    strings.Builder
	most int
	full bool
}

// roomForRest is for saying what is missing.
const roomForRest = 200

func (p *page) write(s string) { p.b.WriteString(s) }

// add writes an entry if it fits, with room for saying that others are missing.
func (p *page) add(entry string, rest int) bool {
	need := len(entry)
	if rest > 1 {
		need += roomForRest
	}
	if p.full || p.b.Len()+need+roomForRest > p.most {
		return false
	}
	p.write(entry)
	return true
}

// omit says how many entries are missing.
func (p *page) omit(n int, what string) {
	p.full = true
	p.write(fmt.Sprintf("\n_%d more %s not shown: this is as much as fits here. `minifleet diff` shows all._\n", n, choose(n, what+" is", what+"s are")))
}

func (p *page) list(title, what string, items []string) {
	if len(items) == 0 || p.full {
		return
	}
	p.write("\n### " + title + "\n\n")
	for i, item := range items {
		if i == maxListed || !p.add("- "+item+"\n", len(items)-i) {
			full := p.full
			p.omit(len(items)-i, what)
			p.full = full
			return
		}
	}
}

func problemItems(problems []Problem) []string {
	out := make([]string, len(problems))
	for i := range problems {
		p := &problems[i]
		if p.File != "" {
			out[i] = code(place(p.File, p.Line)) + " "
		}
		out[i] += code(p.about())
	}
	return out
}

func (r *Report) approvalItems() []string {
	out := make([]string, len(r.Approvals))
	for i := range r.Approvals {
		a := &r.Approvals[i]
		out[i] = code(a.says()) + "<br>once the hub has read it: " + code(a.Command)
	}
	return out
}

func codes(list []string) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = code(list[i])
	}
	return out
}

// markdown is one change; without its differences where they would be too long.
func (c *Change) markdown(differences bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- %s **%s**", code(c.Object), c.says())
	if c.File != "" {
		b.WriteString(" " + code(place(c.File, c.Line)))
	}
	b.WriteString("\n")
	if c.Message != "" {
		b.WriteString("  - " + code(c.Message) + "\n")
	}
	if c.Placement != nil {
		b.WriteString("  - " + code(c.Placement.Says) + "\n")
	}
	switch {
	case c.Diff == "":
	case !differences:
		b.WriteString("  - _the differences are too long for this comment_\n")
	default:
		fence := strings.Repeat("`", max(longestRun(c.Diff)+1, 3))
		fmt.Fprintf(&b, "\n<details><summary>differences</summary>\n\n%sdiff\n%s%s\n\n</details>\n", fence, c.Diff, fence)
	}
	return b.String()
}

// code is text on one line in which nothing is rendered.
func code(s string) string {
	if strings.TrimSpace(s) == "" {
		s = "-"
	}
	fence := strings.Repeat("`", longestRun(s)+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " " // one space at each end is no part of it
	}
	return fence + s + fence
}

// longestRun is the length of the longest run of backticks.
func longestRun(s string) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
