package review

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// hostile are texts that anybody who may push can have in a path, a subject or a value.
var hostile = []string{
	"@everyone please merge", "#1 and GH-1 and org/repo#1 and !7", "https://evil.example/ and www.evil.example", "<script>alert(1)</script>",
	"<img src=x onerror=alert(1)>", "[click](https://evil.example)", "![](https://evil.example/pixel)", "`@everyone`", "``` @everyone ```", "`", "``", "a ` b @everyone",
	"</details><h1>approved</h1>", "| a | b |", "\x1b[2J\u009b31m\u202egnp.exe", "line\n\n# heading\n@everyone", "-->", "&commat;everyone", `\@everyone`, "~~~", "````\n@everyone\n````", "* list", "", " ",
	strings.Repeat("`", 300) + "@everyone", strings.Repeat("@everyone ", 1000),
}

func reportWith(text string) *Report {
	r := &Report{
		Source: "hpc/fleet", Read: Revision{Kind: AtRevision, Name: text, Commit: strings.Repeat("1a", 20), Author: text, Subject: text}, Applied: text,
		Problems:  []Problem{{File: text, Line: 3, Object: text, Field: text, Message: text}},
		Warnings:  []Problem{{Message: text}},
		Approvals: []Approval{{Kind: "Prune", Why: text, Objects: []string{"FleetMiniCluster/a"}, Command: "minifleet source approve-prune fleet -n hpc"}},
		Changes: []Change{
			{Object: "FleetMiniCluster/a", Kind: Changed, File: text, Message: text, Diff: "--- hub\n+++ commit\n+" + text + "\n",
				Placement: &Placement{State: "Waits", Says: text, Waiting: []Reason{{Member: "alpine", Reason: text}}}},
		},
		Notes: []string{text},
	}
	r.Finish()
	return r
}

// plain is Markdown without what is in code: as CommonMark has it, a fence ends at a fence that is as long, and a span at a
// run of as many backticks.
func plain(t *testing.T, markdown string) string {
	t.Helper()
	var kept []string
	fence := ""
	opened := regexp.MustCompile("^(`{3,}|~{3,})")
	for line := range strings.Lines(markdown) {
		mark := opened.FindString(line)
		switch {
		case fence == "" && mark != "":
			fence = mark
		case fence != "" && strings.TrimSpace(line) == strings.Repeat(fence[:1], len(strings.TrimSpace(line))) && len(strings.TrimSpace(line)) >= len(fence):
			fence = ""
		case fence == "":
			kept = append(kept, spans(t, line))
		}
	}
	if fence != "" {
		t.Errorf("a block of code does not end:\n%s", markdown)
	}
	return strings.Join(kept, "")
}

var run = regexp.MustCompile("`+")

func spans(t *testing.T, line string) string {
	t.Helper()
	out := ""
	for {
		open := run.FindStringIndex(line)
		if open == nil {
			return out + line
		}
		mark, rest := line[open[0]:open[1]], line[open[1]:]
		end := -1
		for _, at := range run.FindAllStringIndex(rest, -1) {
			if at[1]-at[0] == len(mark) {
				end = at[1]
				break
			}
		}
		if end < 0 {
			t.Errorf("code that does not end: %q", line)
			return out + line
		}
		out, line = out+line[:open[0]], rest[end:]
	}
}

// Outside of code there is only what this program says.
var own = regexp.MustCompile(`^[-A-Za-z0-9 ,.()*#<>/!:_\n]*$`)

func TestHostileTexts(t *testing.T) {
	for _, text := range hostile {
		r := reportWith(text)
		markdown := r.Markdown()
		rest := plain(t, markdown)
		for _, bad := range []string{"everyone", "evil", "script", "img", "heading", "approved", "GH-1", "gnp"} {
			if strings.Contains(rest, bad) {
				t.Errorf("%q: %s is not in code:\n%s", text, bad, markdown)
			}
		}
		if !own.MatchString(rest) {
			t.Errorf("%q: %q", text, rest)
		}
		body, err := r.JSON()
		if err != nil || !json.Valid([]byte(body)) {
			t.Errorf("%q: %v", text, err)
		}
		for format, out := range map[string]string{"text": r.Text(), "markdown": markdown} {
			for _, c := range out {
				if c != '\n' && c != '\t' && !unicode.IsPrint(c) {
					t.Errorf("%s of %q has %U", format, text, c)
				}
			}
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, text := range hostile[:12] {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if rest := plain(t, reportWith(text).Markdown()); !own.MatchString(rest) {
			t.Errorf("%q: %q", text, rest)
		}
	})
}

func TestMarkdownIsBounded(t *testing.T) {
	diff := "--- hub\n+++ commit\n" + strings.Repeat("+a line that is not short, and that says little\n", 120)
	for name, n := range map[string]struct{ changes, problems int }{"many changes": {5000, 0}, "many problems": {10, 5000}, "both": {5000, 5000}, "few": {3, 2}} {
		t.Run(name, func(t *testing.T) {
			r := &Report{Source: "hpc/fleet"}
			for i := range n.changes {
				r.Changes = append(r.Changes, Change{Object: fmt.Sprintf("FleetMiniCluster/a%d", i), Kind: New, Diff: diff})
			}
			for i := range n.problems {
				r.Problems = append(r.Problems, Problem{File: "a.yaml", Line: i, Message: strings.Repeat("wrong ", 100)})
			}
			r.Notes = []string{"a note"}
			r.Finish()
			out := r.Markdown()
			if len(out) > MaxMarkdown {
				t.Errorf("%d bytes", len(out))
			}
			plain(t, out) // all code ends
			if !strings.HasPrefix(out, r.Headline+"\n") || !strings.HasSuffix(out, "<!-- minifleet diff hpc/fleet -->\n") {
				t.Error("it does not begin and end as it should")
			}
			shown := strings.Count(out, "**appears**")
			omitted := regexp.MustCompile(`_(\d+) more changes? (is|are) not shown`).FindStringSubmatch(out)
			switch {
			case shown == n.changes && omitted == nil:
			case omitted == nil || fmt.Sprint(n.changes-shown) != omitted[1]:
				t.Errorf("%d of %d shown, and it says %v", shown, n.changes, omitted)
			}
			if n.problems > maxListed && !strings.Contains(out, fmt.Sprintf("_%d more problems are not shown", n.problems-maxListed)) {
				t.Error("it does not say how many problems are missing")
			}
		})
	}
}

func TestHeadline(t *testing.T) {
	change := func(object, kind string, approval bool) Change {
		return Change{Object: object, Kind: kind, NeedsApproval: approval}
	}
	cases := map[string]struct {
		changes []Change
		want    string
		differs bool
	}{
		"nothing":   {nil, "nothing changes", false},
		"kept":      {[]Change{change("FleetMiniCluster/a", Kept, false)}, "nothing changes", false},
		"one each":  {[]Change{change("FleetMiniCluster/a", New, false), change("FleetMiniCluster/b", Anew, false), change("FleetMiniCluster/c", Dropped, true)}, "1 appears, 1 starts a new run, 1 goes away (needs approval)", true},
		"several":   {[]Change{change("FleetMiniCluster/a", New, false), change("FleetMiniCluster/b", New, false), change("FleetMiniCluster/c", Anew, true), change("FleetMiniCluster/d", Anew, true)}, "2 appear, 2 start a new run (need approval)", true},
		"a part":    {[]Change{change("FleetMiniCluster/a", Dropped, true), change("FleetMiniCluster/b", Dropped, false)}, "2 go away (1 of them needs approval)", true},
		"placement": {[]Change{change("Placement/a", New, false), change("FleetMiniCluster/b", Moved, false)}, "1 moves, 1 Placement changes", true},
		"refused":   {[]Change{change("FleetMiniCluster/a", Refused, false)}, "1 is refused", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &Report{Changes: c.changes}
			r.Finish()
			if diff := cmp.Diff(c.want, r.Headline); diff != "" || r.Differs != c.differs {
				t.Errorf("%s differs %v", diff, r.Differs)
			}
		})
	}
}
