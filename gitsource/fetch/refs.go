package fetch

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"

	"github.com/minifleet/minifleet/gitsource/budget"
)

const (
	pktHead = 4
	maxPkt  = 65520
	// refBytes is about what a reference takes once it is read, besides its name.
	refBytes = 160
)

// refFilter lets those references through that may be asked for, one line at a time, so that a server which lists
// millions costs no memory. What comes in is the body of info/refs; what goes out is a shorter one.
type refFilter struct {
	io.Closer
	from  *bufio.Reader
	guard *guard
	keep  func(name, hash []byte) bool
	pkt   [maxPkt]byte
	rest  []byte // of a line, not read yet
	begun bool   // the first reference was there, which also has the capabilities
	end   error
}

func newRefFilter(body io.ReadCloser, g *guard) *refFilter {
	return &refFilter{Closer: body, from: bufio.NewReaderSize(body, 16<<10), guard: g, keep: wanted(g.ref)}
}

// wanted says which references may be asked for.
func wanted(ref Ref) func(name, hash []byte) bool {
	prefix := func(p string) func(name, _ []byte) bool {
		return func(name, _ []byte) bool { return bytes.HasPrefix(name, []byte(p)) }
	}
	exact := func(full string) func(name, _ []byte) bool {
		return func(name, _ []byte) bool { return string(bytes.TrimSuffix(name, []byte("^{}"))) == full }
	}
	switch {
	case ref.Branch != "":
		return exact(branchPrefix + strings.TrimPrefix(ref.Branch, branchPrefix))
	case ref.Tag != "":
		return exact(tagPrefix + strings.TrimPrefix(ref.Tag, tagPrefix))
	case ref.SemVer != "":
		return prefix(tagPrefix)
	case ref.Name != "":
		return exact(ref.Name)
	case ref.Commit != "":
		// Where the commit cannot be asked for, branches and tags may lead to it.
		return func(name, hash []byte) bool {
			return bytes.EqualFold(hash, []byte(ref.Commit)) || bytes.HasPrefix(name, []byte(branchPrefix)) || bytes.HasPrefix(name, []byte(tagPrefix))
		}
	default:
		return exact(headName) // until the first line says which branch that is
	}
}

// Read implements io.Reader.
func (f *refFilter) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.end != nil {
			return 0, f.end
		}
		f.rest, f.end = f.line()
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// line returns the next line that is let through, or nothing. What is not a line is let through too, for whoever reads
// it to refuse.
func (f *refFilter) line() ([]byte, error) {
	head := f.pkt[:pktHead]
	if n, err := io.ReadFull(f.from, head); err != nil {
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
		return head[:n], err
	}
	length, err := strconv.ParseUint(string(head), 16, 16)
	switch {
	case err != nil || length > maxPkt || length > 0 && length < pktHead:
		return head, io.EOF
	case length == 0:
		return head, nil
	}
	if n, err := io.ReadFull(f.from, f.pkt[pktHead:length]); err != nil {
		return f.pkt[:pktHead+n], err
	}
	pkt := f.pkt[:length]
	if keep, err := f.wants(pkt[pktHead:]); err != nil || !keep {
		return nil, err
	}
	return pkt, nil
}

func (f *refFilter) wants(line []byte) (bool, error) {
	if bytes.HasPrefix(line, []byte("#")) && !f.begun {
		return true, nil
	}
	if err := f.guard.budget.Spend(budget.Refs, 1, ""); err != nil {
		return false, f.guard.failed(err)
	}
	first := !f.begun
	f.begun = true
	if first {
		if failure := checkObjectFormat(line); failure != nil {
			return false, f.guard.fail(failure)
		}
		f.followHead(line)
	}
	hash, name, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	if !first && !f.keep(name, hash) {
		return false, nil
	}
	if err := f.guard.budget.Hold(refBytes+int64(len(line)), ""); err != nil {
		return false, f.guard.failed(err)
	}
	return true, nil
}

// followHead has the branch kept that HEAD is, which the capabilities behind the first reference tell.
func (f *refFilter) followHead(first []byte) {
	if f.guard.ref != (Ref{}) {
		return
	}
	_, capabilities, _ := bytes.Cut(first, []byte{0})
	for _, c := range strings.Fields(string(capabilities)) {
		if name, ok := strings.CutPrefix(c, "symref="+headName+":"); ok {
			f.keep = func(ref, _ []byte) bool { return string(ref) == name || string(ref) == headName }
			return
		}
	}
}
