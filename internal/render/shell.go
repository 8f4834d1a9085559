package render

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// quote makes one shell word of any text.
func quote(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}

// plainWord is text that means itself to a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`)

func isPlainWord(text string) bool {
	return plainWord.MatchString(text)
}

// reference is a variable that quoteValue leaves to the shell.
var reference = regexp.MustCompile(`^\$([A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})`)

// quoteValue makes one shell word of the value of a variable, which may refer to other variables, as in
// /opt/bin:$PATH, and to nothing else.
func quoteValue(value string) string {
	var out strings.Builder
	out.WriteByte('"')
	for value != "" {
		if name := reference.FindString(value); name != "" {
			out.WriteString(name)
			value = value[len(name):]
			continue
		}
		if strings.ContainsRune("$`\"\\", rune(value[0])) {
			out.WriteByte('\\')
		}
		out.WriteByte(value[0])
		value = value[1:]
	}
	out.WriteByte('"')
	return out.String()
}

// shellWords are what the first word of a command may be without being a program that a job can start.
var shellWords = []string{
	"!", "[[", "{", "case", "for", "function", "if", "select", "time", "until", "while",
	".", "alias", "cd", "declare", "eval", "exec", "exit", "export", "local", "popd", "pushd", "read", "return",
	"set", "shift", "shopt", "source", "trap", "ulimit", "umask", "unset", "wait",
}

// isSimpleCommand says whether a command is a program and its arguments. Anything else, such as a pipe
// or several commands, only a shell can run.
func isSimpleCommand(command string) bool {
	command = strings.TrimSpace(command)
	words := strings.Fields(command)
	if len(words) == 0 || slices.Contains(shellWords, words[0]) || assignment.MatchString(words[0]) {
		return false
	}
	for i := 0; i < len(command); i++ {
		switch c := command[i]; {
		case strings.IndexByte(";&|<>()\n", c) >= 0:
			return false
		case c == '#' && (i == 0 || strings.IndexByte(" \t", command[i-1]) >= 0):
			return false
		default:
			length := tokenLength(command[i:])
			if length == 0 {
				return false
			}
			i += length - 1
		}
	}
	return true
}

// tokenLength is the length of what text begins with and what hides other characters from the shell: an
// escaped character, a quotation or a command substitution. It is 1 for any other character, and 0 for
// what is not closed.
func tokenLength(text string) int {
	switch {
	case text[0] == '\\':
		return 2
	case text[0] == '\'' || text[0] == '"' || text[0] == '`':
		return quotationLength(text)
	case strings.HasPrefix(text, "$("):
		return substitutionLength(text)
	default:
		return 1
	}
}

// quotationLength is the length of the quotation that text begins with, or 0 when it is not closed.
func quotationLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return i + 1
		case text[i] == '\\' && text[0] != '\'':
			i++
		}
	}
	return 0
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\+?=`)

// substitutionLength is the length of the command substitution that text begins with, or 0 when it is
// not closed. It does not interpret quotes: where parentheses are there, it ends too early, and at worst
// a shell is started for a command that did not need one.
func substitutionLength(text string) int {
	depth := 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// splitWords splits flags at blanks, but not within quotes, which it removes. Nothing else is special:
// what a shell would expand stays as it is.
func splitWords(text string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, inWord := rune(0), false
	for _, c := range text {
		switch {
		case quoted != 0 && c == quoted:
			quoted = 0
		case quoted != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quoted, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(c)
			inWord = true
		}
	}
	if quoted != 0 {
		return nil, fmt.Errorf("a quote (%c) is not closed", quoted)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// delimiter is a word for the end of a here-document that is no line of its text.
func delimiter(text string) string {
	end := "END"
	for slices.Contains(strings.Split(text, "\n"), end) {
		end += "_END"
	}
	return end
}
