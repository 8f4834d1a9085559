package sanitize

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSafe(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		most int
		want string
	}{
		"plain text stays":               {"quota exceeded", 100, "quota exceeded"},
		"lines become one":               {"a\n\tb\r\n  c", 100, "a b c"},
		"escape sequences are sanitized": {"\x1b[2Jtext", 100, "\uFFFD[2Jtext"},
		"direction overrides are marked": {"abc\u202edef", 100, "abc\uFFFDdef"},
		"bad UTF-8 is marked":            {"a\xffb", 100, "a\uFFFDb"},
		"letters of all scripts stay":    {"größe 尺寸", 100, "größe 尺寸"},
		"long text is cut":               {"abcdefghij", 6, "abc…"},
		"a letter is not cut in two":     {"ééééé", 6, "é…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Text(tc.in, tc.most)
			if got != tc.want || len(got) > tc.most || !utf8.ValidString(got) {
				t.Errorf("Text(%q, %d) = %q, want %q", tc.in, tc.most, got, tc.want)
			}
		})
	}
	if got := Text(strings.Repeat("x", 5000), MaxMessage); len(got) != MaxMessage {
		t.Errorf("a long message has %d bytes, want %d", len(got), MaxMessage)
	}
}

// What is left as it is needs nothing done to it.
func TestPlainText(t *testing.T) {
	r, found := rand.New(rand.NewPCG(1, 1)), 0
	parts := []string{"a", "~", " ", "  ", "\t", "\x7f", "\x1b", "é", "word", "\u202e", "\xff"}
	for range 20000 {
		var s string
		for range r.IntN(6) {
			s += parts[r.IntN(len(parts))]
		}
		if plain(s) {
			found++
			if got := oneLine(s); got != s {
				t.Fatalf("%q becomes %q", s, got)
			}
		}
	}
	if found < 1000 {
		t.Errorf("%d of 20,000 texts are plain", found)
	}
}

func TestList(t *testing.T) {
	for name, tc := range map[string]struct {
		items []string
		most  int
		want  string
	}{
		"nothing":                     {nil, 10, ""},
		"all fit":                     {[]string{"one", "two"}, 8, "one; two"},
		"one does not":                {[]string{"one", "two", strings.Repeat("3", 30)}, 23, "one; two; and 1 more"},
		"two do not":                  {[]string{"one", "two", strings.Repeat("3", 30)}, 19, "one; and 2 more"},
		"the first alone is too long": {[]string{strings.Repeat("x", 30), "two"}, 20, "xxxxx…; and 1 more"},
		"a single one is too long":    {[]string{strings.Repeat("x", 30)}, 7, "xxxx…"},
		"items are sanitized":         {[]string{"a\x1b", "b\nc"}, 100, "a\uFFFD; b c"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := List(tc.items, tc.most); got != tc.want || len(got) > tc.most {
				t.Errorf("List(%q, %d) = %q, want %q", tc.items, tc.most, got, tc.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for name, tc := range map[string]struct {
		names []string
		want  string
	}{
		"none":     {nil, ""},
		"all":      {[]string{"a", "b"}, "a, b"},
		"too many": {[]string{"a", "b", "c", "d"}, "a, b and 2 more"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Names(tc.names, 2); got != tc.want {
				t.Errorf("Names(%q, 2) = %q, want %q", tc.names, got, tc.want)
			}
		})
	}
}

func TestLine(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"as it is":            {"\t a  b ", "\t a  b "},
		"the end of a line":   {"a\r\n", "a"},
		"colours":             {"\x1b[1;32mok\x1b[0m", "ok"},
		"other sequences":     {"\x1b[2J\x1b]0;title\x07", "\uFFFD[2J\uFFFD]0;title\uFFFD"},
		"C1 and directions":   {"\u009b31m\u202e", "\uFFFD31m\uFFFD"},
		"not UTF-8":           {"\xff", "\uFFFD"},
		"a carriage return":   {"a\rb", "a\uFFFDb"},
		"symbols and letters": {"✓ Grüße 你好", "✓ Grüße 你好"},
	}
	for name, c := range cases {
		if got := Line(c.text); got != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
