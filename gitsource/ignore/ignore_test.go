package ignore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/minifleet/minifleet/gitsource/ignore"
)

func free(int64) error { return nil }

// ignored walks down a path as whoever reads a repository does.
func ignored(tb testing.TB, rules []ignore.File, file string) bool {
	tb.Helper()
	parts := strings.Split(file, "/")
	for i := range parts {
		d, err := ignore.Decide(rules, path.Join(parts[:i+1]...), i < len(parts)-1, free)
		if err != nil {
			tb.Fatal(err)
		}
		if d == ignore.Ignored {
			return true
		}
	}
	return false
}

func TestRules(t *testing.T) {
	for name, tc := range map[string]struct {
		rules         string
		ignores, lets []string
	}{
		"nothing":                         {"", nil, []string{"a.yaml"}},
		"comments and empty lines":        {"# a.yaml\n\n   \n", nil, []string{"a.yaml", "   "}},
		"a name at any depth":             {"a.yaml", []string{"a.yaml", "x/a.yaml", "x/y/a.yaml"}, []string{"b.yaml", "a.yaml.b"}},
		"a folder at any depth":           {"old/", []string{"old/a", "x/old/a/b"}, []string{"old", "x/old", "older/a"}},
		"anchored by a slash":             {"/a.yaml", []string{"a.yaml"}, []string{"x/a.yaml"}},
		"anchored by one inside":          {"x/a", []string{"x/a", "x/a/b"}, []string{"y/x/a"}},
		"a star stays within its name":    {"x/*.yaml", []string{"x/a.yaml", "x/.yaml"}, []string{"x/y/a.yaml"}},
		"two stars before":                {"**/a", []string{"a", "x/a", "x/y/a"}, []string{"xa"}},
		"two stars after":                 {"x/**", []string{"x/a", "x/y/a"}, []string{"x", "y/x/a"}},
		"two stars between":               {"x/**/a", []string{"x/a", "x/y/a", "x/y/z/a"}, []string{"x/ya", "a"}},
		"two stars behind a name, as git": {"a**/b", []string{"ab", "a/b", "ax/b", "a/x/b"}, []string{"b"}},
		"two stars in a name are one":     {"x/a**b", []string{"x/ab", "x/acb"}, []string{"x/a/b"}},
		"taken back":                      {"*.yaml\n!a.yaml", []string{"b.yaml"}, []string{"a.yaml", "x/a.yaml"}},
		"the last one decides":            {"!a\na", []string{"a"}, nil},
		"not below an ignored folder":     {"x/\n!x/a", []string{"x/a"}, nil},
		"all but one folder":              {"/*\n!/fleet/", []string{"a", "x/a"}, []string{"fleet/a"}},
		"escaped":                         {"\\#a\n\\!b\n\\*\nc\\ ", []string{"#a", "!b", "*", "c "}, []string{"a", "b", "c"}},
		"spaces at the end":               {"a  \n b", []string{"a", " b"}, []string{"a  ", "b"}},
		"lines of Windows and a BOM":      {"\ufeffa\r\nb\r\n", []string{"a", "b"}, []string{"a\r"}},
		"sets":                            {"[a-c]\n[!x-z]9\n[]-]8\n[[:digit:]]7", []string{"a", "c", "a9", "]8", "-8", "17"}, []string{"d", "y9", "a8", "a7"}},
		"a set that does not end":         {"[a\n[\n[[:nope:]]", nil, []string{"[a", "a", "[", "n"}},
		"a question mark is one byte":     {"a?c", []string{"abc"}, []string{"ac", "a/c"}},
		"a backslash at the end":          {"a\\", nil, []string{"a", "a\\"}},
		"a set is never a slash":          {"x[/]a\nx[!b]a", []string{"xca"}, []string{"x/a"}},
		"stars that cost others a year":   {strings.Repeat("*a", 100) + "b", nil, []string{strings.Repeat("a", 250)}},
	} {
		t.Run(name, func(t *testing.T) {
			rules := []ignore.File{{Rules: ignore.Parse([]byte(tc.rules))}}
			for _, file := range tc.ignores {
				if !ignored(t, rules, file) {
					t.Errorf("%q is not ignored", file)
				}
			}
			for _, file := range tc.lets {
				if ignored(t, rules, file) {
					t.Errorf("%q is ignored", file)
				}
			}
		})
	}
}

func TestStepsAreCounted(t *testing.T) {
	rules := []ignore.File{{Rules: ignore.Parse([]byte(strings.Repeat("*a*b*c*d*e*f*g*h\n", 100)))}}
	var spent int64
	spend := func(n int64) error {
		if spent += n; spent > 1000 {
			return errors.New("spent")
		}
		return nil
	}
	if _, err := ignore.Decide(rules, strings.Repeat("x", 1000), false, spend); err == nil || spent > 3000 {
		t.Errorf("%d steps, error %v", spent, err)
	}
}

// What is ignored is what git ignores, for files of rules in several folders and rules that come after all of them.
func TestAsGit(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 13))
			dir := t.TempDir()
			files, folders := randomTree(r)
			texts := map[string]string{}
			for _, folder := range folders {
				if folder == "" || r.IntN(3) == 0 {
					texts[folder] = randomRules(r, 6)
				}
			}
			after := randomRules(r, 3)
			for folder, text := range texts {
				write(t, filepath.Join(dir, folder, ".sourceignore"), text)
			}
			for _, file := range files {
				write(t, filepath.Join(dir, file), "")
			}
			want := gitKeeps(t, dir, after)
			var got []string
			for _, file := range files {
				if !ignoredBelow(t, texts, after, file) {
					got = append(got, file)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rules %q, then %q (-git +this):\n%s", texts, after, diff)
			}
		})
	}
}

// ignoredBelow collects the rules of folders on the way to a file.
func ignoredBelow(t *testing.T, texts map[string]string, after, file string) bool {
	t.Helper()
	var rules []ignore.File
	last := ignore.File{Rules: ignore.Parse([]byte(after))}
	parts := strings.Split(file, "/")
	for i := range parts {
		folder := path.Join(parts[:i]...)
		rules = append(rules, ignore.File{Folder: folder, Rules: ignore.Parse([]byte(texts[folder]))})
		d, err := ignore.Decide(append(slices.Clone(rules), last), path.Join(parts[:i+1]...), i < len(parts)-1, free)
		if err != nil {
			t.Fatal(err)
		}
		if d == ignore.Ignored {
			return true
		}
	}
	return false
}

// gitKeeps are the files that git does not ignore.
func gitKeeps(t *testing.T, dir, after string) []string {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	run("init", "--quiet", ".")
	args := []string{"ls-files", "--others", "-z", "--exclude-per-directory=.sourceignore"}
	for line := range strings.Lines(after) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			args = append(args, "--exclude="+line)
		}
	}
	out := strings.Split(strings.TrimSuffix(run(args...), "\x00"), "\x00")
	out = slices.DeleteFunc(out, func(f string) bool { return f == "" || path.Base(f) == ".sourceignore" })
	slices.Sort(out)
	if len(out) == 0 {
		return nil
	}
	return out
}

var nameParts = []string{"a", "b", "c", "ab", "abc", "a.yaml", "b.yaml", "#x", "!x", "a b", "[a]", "x-y", "é", "A", "1", "a*", "\\"}

func randomTree(r *rand.Rand) (files, folders []string) {
	folders = []string{""}
	taken := map[string]bool{}
	for range 8 {
		folder := path.Join(folders[r.IntN(len(folders))], nameParts[r.IntN(6)])
		if !taken[folder] {
			taken[folder] = true
			folders = append(folders, folder)
		}
	}
	for range 60 {
		file := path.Join(folders[r.IntN(len(folders))], nameParts[r.IntN(len(nameParts))])
		if !taken[file] {
			taken[file] = true
			files = append(files, file)
		}
	}
	return files, folders
}

var patternParts = []string{"a", "b", "c", "ab", "abc", "a.yaml", ".yaml", "*", "*", "**", "?", "[ab]", "[!a]", "[^b-c]", "[a-", "[]]", "[[:alpha:]]",
	"[[:punct:]]", "[[:x:]]", "\\a", "\\", "\\*", "é", "#x", "!x", " ", "A", "x-y", "[[]", "[a\\]]", "***", "\\/"}

func randomRules(r *rand.Rand, most int) string {
	var out strings.Builder
	for range r.IntN(most + 1) {
		if r.IntN(4) == 0 {
			out.WriteByte('!')
		}
		if r.IntN(4) == 0 {
			out.WriteByte('/')
		}
		for range 1 + r.IntN(3) {
			out.WriteString(patternParts[r.IntN(len(patternParts))])
			if r.IntN(3) == 0 {
				out.WriteByte('/')
			}
		}
		if line := out.String(); strings.HasSuffix(line, " ") {
			out.WriteByte('c') // git trims spaces of files alone
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func write(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

// FuzzRules searches for panics, and for comparisons that take more steps than they say.
func FuzzRules(f *testing.F) {
	for _, seed := range []string{"", "a", "!a/", "/**/a*[!b-]", "[[:alpha:]", "[a-\\", "a**/\\/", "\x00", "*a*a*a*b"} {
		f.Add([]byte(seed), "a/b/aaaaaa")
	}
	f.Fuzz(func(t *testing.T, text []byte, file string) {
		rules := ignore.Parse(text)
		if len(rules) > bytes.Count(text, []byte{'\n'})+1 {
			t.Errorf("%d rules of %q", len(rules), text)
		}
		if d, err := ignore.Decide([]ignore.File{{Folder: "a", Rules: rules}}, file, false, free); err != nil || d == ignore.Ignored && !strings.HasPrefix(file, "a/") {
			t.Errorf("%v, %v", d, err)
		}
	})
}
