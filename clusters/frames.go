package clusters

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// frames is the body of a watch that gives each event once it is there whole, and is within the limits. Decoders of JSON
// would take in one without end.
type frames struct {
	body     io.ReadCloser
	in       *bufio.Reader
	line     *line
	asked    string
	protobuf bool
	life     *lifetime
	// request is the context of what was asked, which ends when the answer is closed.
	request context.Context //nolint:containedctx // for as long as its answer is read

	frame []byte // of the event that is read
	next  int    // in frame
	err   error  // after the frame
}

func newFrames(request context.Context, body io.ReadCloser, l *line, asked string, protobuf bool) *frames {
	return &frames{request: request, body: body, in: bufio.NewReaderSize(body, readAhead), line: l, asked: asked, protobuf: protobuf, life: l.newLifetime(body.Close)}
}

// Read implements io.Reader.
func (f *frames) Read(p []byte) (int, error) {
	for f.next == len(f.frame) {
		if f.err != nil {
			return 0, f.err
		}
		f.receive()
	}
	n := copy(p, f.frame[f.next:])
	f.next += n
	return n, nil
}

// Close implements io.Closer.
func (f *frames) Close() error {
	f.life.stop()
	return f.body.Close()
}

const (
	// readAhead is how much is read of a watch at once at least, keptFrame the size up to which the memory of a frame is
	// used again, and chunkSize what is read of a frame at once at most, in bytes. A member at rest keeps the first two for
	// each watch.
	readAhead = 512
	keptFrame = 4 << 10
	chunkSize = 64 << 10
)

// receive reads the next event.
func (f *frames) receive() {
	if cap(f.frame) > keptFrame {
		f.frame = nil
	}
	f.frame, f.next = f.frame[:0], 0
	var values int
	if f.protobuf {
		values, f.err = f.receiveProtobuf()
	} else {
		values, f.err = f.receiveJSON()
	}
	switch {
	case f.err != nil && f.life.over.Load():
		f.frame, f.err = nil, io.EOF // as if the member had ended it
	case f.err == nil:
		f.life.brought()
		if pace(f.request) != nil {
			f.frame, f.err = nil, io.EOF // nobody reads it any more
		}
	}
	switch {
	case errors.Is(f.err, errTooLarge):
		f.frame, f.err = nil, f.line.beyond(limitObject, f.asked)
	case values > f.line.limits.Values:
		f.frame, f.err = nil, f.line.beyond(limitValues, f.asked)
	}
}

// receiveProtobuf reads an event that comes after its length in 4 bytes.
func (f *frames) receiveProtobuf() (values int, err error) {
	const header = 4
	f.frame = append(f.frame, make([]byte, header)...)
	if n, err := io.ReadFull(f.in, f.frame); err != nil {
		f.frame = f.frame[:n]
		return 0, err
	}
	length := int64(binary.BigEndian.Uint32(f.frame))
	if length > f.line.limits.Object {
		return 0, errTooLarge
	}
	// Memory grows with what comes, not with what is announced.
	chunk := make([]byte, min(length, chunkSize))
	for length > 0 {
		n, err := f.in.Read(chunk[:min(length, int64(len(chunk)))])
		f.frame, length = append(f.frame, chunk[:n]...), length-int64(n)
		if err != nil {
			return 0, err
		}
	}
	return countProtobuf(f.frame[header:], f.line.limits.Values), nil
}

// receiveJSON reads a document.
func (f *frames) receiveJSON() (values int, err error) {
	var s scanner
	for {
		c, err := f.in.ReadByte()
		if err != nil {
			return s.values, err
		}
		if f.frame = append(f.frame, c); int64(len(f.frame)) > f.line.limits.Object {
			return 0, errTooLarge
		}
		if s.step(c) {
			return s.values, nil
		}
	}
}
