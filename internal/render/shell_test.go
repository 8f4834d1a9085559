package render

import (
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuote(t *testing.T) {
	for _, text := range []string{
		"", "plain", "two words", "it's", `"`, "$HOME", "$(echo no)", "`echo no`", "a\nb", "%s", `\`, "*", "~", "{{.}}", "-n", "é",
	} {
		t.Run(text, func(t *testing.T) {
			out, err := exec.Command("bash", "-c", "printf '%s' "+quote(text)).Output()
			if err != nil || string(out) != text {
				t.Errorf("quote(%q) = %s is %q to bash (%v)", text, quote(text), out, err)
			}
		})
	}
}

func TestIsSimpleCommand(t *testing.T) {
	tests := map[string]bool{
		"lmp -v x 2 -in in.hns":      true,
		`sh -c "a; b"`:               true,
		"sh -c 'a && b | c'":         true,
		"./run --tag {{id}} *.in":    true,
		"cat $(ls | head -n 1) -- x": true,
		"run \\\n  --more":           true,
		`run a\;b`:                   true,
		"run a#b":                    true,
		"echo `date`":                true,
		"":                           false,
		"a && b":                     false,
		"a; b":                       false,
		"a | b":                      false,
		"a > b":                      false,
		"a &":                        false,
		"a\nb":                       false,
		"(a)":                        false,
		"A=b c":                      false,
		"cd there":                   false,
		"exec a":                     false,
		"for i in 1 2; do a; done":   false,
		"a # comment":                false,
		"# comment":                  false,
		"a 'open":                    false,
		`a "open`:                    false,
		"a $(open":                   false,
		"a ) b":                      false,
	}
	for command, want := range tests {
		t.Run(command, func(t *testing.T) {
			if got := isSimpleCommand(command); got != want {
				t.Errorf("isSimpleCommand(%q) = %t", command, got)
			}
		})
	}
}

func TestSplitWords(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"none":   {" \n", nil},
		"blanks": {" a  b\tc\n", []string{"a", "b", "c"}},
		"quotes": {`-o "a b"'c d' "" '"'`, []string{"-o", "a bc d", "", `"`}},
		"shell":  {`$(a) ;|& \ *`, []string{"$(a)", ";|&", `\`, "*"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			got, err := splitWords(test.text)
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("splitWords (-want +got), %v:\n%s", err, diff)
			}
		})
	}
	if words, err := splitWords("a 'b"); err == nil {
		t.Errorf("an open quote gave %q", words)
	}
}

func TestDelimiter(t *testing.T) {
	if got := delimiter("a\nEND\nEND_END\nb"); got != "END_END_END" {
		t.Errorf("delimiter = %s", got)
	}
}

func TestTOMLString(t *testing.T) {
	if got, want := tomlString("a\"b\\c\nd\x7fé"), `"a\"b\\c\u000ad\u007fé"`; got != want {
		t.Errorf("tomlString = %s, want %s", got, want)
	}
}

func TestCutHost(t *testing.T) {
	tests := map[string][2]string{
		"a":                {"a", ""},
		"a,b[1-2]":         {"a", "b[1-2]"},
		"a-[0]":            {"a-0", ""},
		"a-[0-1],b":        {"a-0", "a-[1],b"},
		"a-[0-3]":          {"a-0", "a-[1-3]"},
		"a[3,5-7]x,b[0-1]": {"a3x", "a[5-7]x,b[0-1]"},
		"a[08-11,20]":      {"a08", "a[09-11,20]"},
		"a[0":              {"", "a[0"},
		"a[0-1]b[0-1]":     {"", "a[0-1]b[0-1]"},
		"":                 {"", ""},
	}
	for hostlist, want := range tests {
		if first, rest := cutHost(hostlist); first != want[0] || rest != want[1] {
			t.Errorf("cutHost(%q) = %q, %q; want %q, %q", hostlist, first, rest, want[0], want[1])
		}
	}
}
