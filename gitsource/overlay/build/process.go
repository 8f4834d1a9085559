package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/minifleet/minifleet/gitsource/overlay"
)

// request is what the process reads.
type request struct {
	// Dir is the folder that is built, and Kustomization the name of its file.
	Dir           string            `json:"dir"`
	Kustomization string            `json:"kustomization"`
	Files         map[string][]byte `json:"files"`
	Output        int64             `json:"output"`
	Documents     int               `json:"documents"`
}

// response is what it writes.
type response struct {
	// Error is kustomize's; the others are then empty.
	Error string `json:"error,omitempty"`
	// YAML are the documents, and Origins, for each, the file that it comes from, where that is known.
	YAML      []byte   `json:"yaml,omitempty"`
	Origins   []string `json:"origins,omitempty"`
	Generated []string `json:"generated,omitempty"`
}

const (
	// waitDelay is how long pipes may stay open behind a process that has ended.
	waitDelay = 2 * time.Second
	// maxStderr is how much is kept of what the process complains of.
	maxStderr = 4 << 10
	// spare is what a response takes besides its documents, which are encoded in base64.
	spare = 1 << 20
)

// run builds a closure in a process of its own. An error is this machine's or the context's.
func run(ctx context.Context, command []string, limits Limits, c *overlay.Closure) (*output, error) {
	in, err := json.Marshal(request{
		Dir: c.Dir, Kustomization: c.File, Files: c.Files, Output: limits.Output, Documents: limits.Documents,
	})
	if err != nil {
		return nil, err // not reachable: these are texts and numbers
	}
	limited, cancel := context.WithTimeout(ctx, limits.Wall)
	defer cancel()
	seconds := int64(limits.CPU / time.Second)
	args := append(command[1:len(command):len(command)], strconv.FormatInt(limits.Memory, 10), strconv.FormatInt(seconds, 10))
	cmd := exec.CommandContext(limited, command[0], args...) //nolint:gosec // it is this binary
	cmd.Env = []string{"GOMAXPROCS=2", "GOTRACEBACK=single"}
	cmd.Stdin = bytes.NewReader(in)
	stdout, stderr := &bounded{most: limits.Output*2 + spare, full: cancel}, &bounded{most: maxStderr}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = waitDelay
	isolate(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a process that builds overlays: %w", err)
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case stdout.over:
		return &output{problem: tooLarge(limits)}, nil
	case err != nil:
		return ended(limits, cmd, limited.Err(), stderr.buffer.String()), nil
	}
	return read(limits, stdout.buffer.Bytes()), nil
}

func tooLarge(limits Limits) string {
	return fmt.Sprintf("it makes more than %d bytes or %d objects; build it in parts, each named in spec.paths", limits.Output, limits.Documents)
}

// ended says what the end of a process means that has not answered.
func ended(limits Limits, cmd *exec.Cmd, timedOut error, stderr string) *output {
	state := cmd.ProcessState
	// What the kernel limits and what it reports are counted in different ways.
	const most, of = 3, 4
	killed := state != nil && state.ExitCode() < 0
	switch {
	case killed && state.UserTime()+state.SystemTime() >= limits.CPU/of*most:
		return &output{problem: fmt.Sprintf("kustomize takes more than %s of processor time; make patches, replacements and generators fewer, or build it in parts", limits.CPU)}
	case errors.Is(timedOut, context.DeadlineExceeded):
		return &output{again: true, problem: fmt.Sprintf("kustomize has not ended within %s; it is tried again at the next interval", limits.Wall)}
	case containsAny(stderr, outOfMemory):
		return &output{problem: fmt.Sprintf("kustomize takes more than %d MiB of memory; make patches, replacements and generators smaller, or build it in parts", limits.Memory>>20)}
	case containsAny(stderr, []string{"stack exceeds", "stack overflow"}):
		return &output{problem: "kustomize does not end: something refers to itself, such as an alias of YAML or a schema"}
	case killed:
		// Killed by somebody else, such as a kernel that is out of memory.
		return &output{again: true, problem: fmt.Sprintf("the process that builds it was killed (%s); it is tried again at the next interval", state)}
	}
	first, _, _ := strings.Cut(stderr, "\ngoroutine ")
	return &output{problem: "kustomize fails: " + clean(first)}
}

// outOfMemory is what Go's runtime says when it can map no more, of which threads take a part.
var outOfMemory = []string{"out of memory", "cannot allocate memory", "failed to create new OS thread", "pthread_create failed"}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// read takes what a process has answered, which is no more to be trusted than what it was given.
func read(limits Limits, data []byte) *output {
	var r response
	if err := json.Unmarshal(data, &r); err != nil {
		return &output{problem: "kustomize has made nothing that can be read"}
	}
	switch {
	case r.Error != "":
		return &output{problem: clean(r.Error)}
	case int64(len(r.YAML)) > limits.Output || len(r.Origins) > limits.Documents || len(r.Generated) > limits.Documents:
		return &output{problem: tooLarge(limits)}
	}
	for i, name := range r.Generated {
		r.Generated[i] = clean(name)
	}
	return &output{yaml: r.YAML, origins: r.Origins, generated: r.Generated}
}

// maxMessage is how many characters of an error of kustomize are shown. Its cause stands at the end.
const maxMessage = 400

// clean makes a message of kustomize fit to be shown: on one line, with paths relative to the repository, and with its
// begin and its end where it is long.
func clean(message string) string {
	message = strings.NewReplacer(root+"/", "", "'"+root+"'", "the root", root, "the root").Replace(message)
	message = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(message, string(unicode.ReplacementChar)))
	runes := []rune(strings.Join(strings.Fields(message), " "))
	if len(runes) > maxMessage {
		runes = append(append(runes[:maxMessage/4:maxMessage/4], []rune(" … ")...), runes[len(runes)-maxMessage*3/4:]...)
	}
	return string(runes)
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	buffer bytes.Buffer
	most   int64
	over   bool
	// full is called once there are more; nil: the others are dropped.
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if left := b.most - int64(b.buffer.Len()); int64(len(p)) > left {
		b.buffer.Write(p[:left])
		b.over = true
		if b.full != nil {
			b.full()
		}
		return len(p), nil
	}
	return b.buffer.Write(p)
}
