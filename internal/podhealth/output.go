package podhealth

import (
	"regexp"
	"slices"
	"strings"
)

const (
	// maxCause, in bytes, and maxCauseLines are how much of a container's last output is told.
	maxCause      = 500
	maxCauseLines = 4
	// maxFallback is how much of a log a kubelet makes the termination message of, in bytes.
	maxFallback = 2048
	redacted    = "[redacted]"
)

// Cause is the lines of a container's termination message that say why it failed, as one: the last ones, of at most 500
// bytes unless the very last is longer, without what brokers and entrypoints write about their own end in any case, and
// without credentials. It is otherwise as it comes, and is to be made safe to show. The message is the end of the
// container's log where the container gave none. It is empty where nothing else is in it.
func Cause(message string) string {
	lines := strings.Split(message, "\n")
	if len(message) >= maxFallback-len("\n") && len(lines) > 1 {
		lines = lines[1:] // of the first line the beginning is missing, and with it what would tell a credential
	}
	var kept []string
	length := 0
	lines = withoutKeys(lines)
	for _, line := range slices.Backward(lines) {
		line = cleaned(line)
		if line == "" || isChatter(line) || len(kept) > 0 && kept[len(kept)-1] == line {
			continue
		}
		if length += len(line) + len("; "); len(kept) == maxCauseLines || len(kept) > 0 && length > maxCause {
			break
		}
		kept = append(kept, line)
	}
	slices.Reverse(kept)
	return strings.Join(kept, "; ")
}

// Sequences that steer a terminal, and what brokers put before what they log: a level, and who they are.
var (
	escapeSequence = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|[@-Z\\-_])`)
	logLevel       = regexp.MustCompile(`^<[0-7]>`)
)

func cleaned(line string) string {
	line = escapeSequence.ReplaceAllString(line, "")
	if i := strings.LastIndexByte(strings.TrimRight(line, "\r"), '\r'); i >= 0 {
		line = line[i+1:] // a progress bar writes over itself
	}
	line = logLevel.ReplaceAllString(strings.TrimSpace(line), "")
	return redact(strings.TrimSpace(strings.TrimPrefix(line, "minifleet: ")))
}

// chatter is what brokers, flux start, GNU time and our entrypoints write in any case.
var chatter = regexp.MustCompile(`^(` + strings.Join([]string{
	`[a-z0-9_.-]+\.(info|notice|debug)\[\d+\]: .*`,
	`broker\.err\[\d+\]: (rc[123]|cleanup)\.\d+: .* (Exited|Hangup|Terminated|Killed) ?\(rc=\d+\) .*`,
	`broker\.err\[\d+\]: cleanup\.\d+: flux-cancel: .*`,
	`flux-start: .*`,
	`FLUXTIME .*`,
	`Command exited with non-zero status \d+`,
	`Flux ended with exit code \d+`,
	`Not at its end after \d+ s, and so ended`,
	`flux start -o .*`,
	`\S* ?runs Flux as .* leads`,
	`The broker failed with exit code \d+; .*`,
	`Copying Flux from .*`,
	`[-+=*#_~. ]+`,
}, "|") + `)$`)

func isChatter(line string) bool { return chatter.MatchString(line) }

// Credentials as programs write them.
var credentials = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`://[^/\s@]+@`), "://" + redacted + "@"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`), "$1 " + redacted},
	{
		regexp.MustCompile(`(?i)([\w.-]*(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)[\w.-]*["']?\s*[=:]\s*)("[^"]*"?|'[^']*'?|[^\s,;]+)`),
		"${1}" + redacted,
	},
	{regexp.MustCompile(`(?i)(--?[\w-]*(?:password|secret|token|key)\s+)[^\s-]\S*`), "${1}" + redacted},
	{regexp.MustCompile(`\b(eyJ[\w-]+\.[\w.-]+|(?:gh[a-z]|glpat|github_pat|xox[a-z]|AKIA|ASIA)[_-]?[A-Za-z0-9_-]{12,})`), redacted},
	{regexp.MustCompile(`[A-Za-z0-9+/]{60,}={0,2}`), redacted},
}

func redact(line string) string {
	for _, c := range credentials {
		line = c.pattern.ReplaceAllString(line, c.with)
	}
	return line
}

// withoutKeys is lines without the PEM blocks among them.
func withoutKeys(lines []string) []string {
	var out []string
	inside := false
	for _, line := range lines {
		switch {
		case strings.Contains(line, "-----END "):
			if !inside {
				out = nil // the block began before these lines do
			}
			inside = false
		case strings.Contains(line, "-----BEGIN "):
			inside = true
		case !inside:
			out = append(out, line)
		}
	}
	return out
}
