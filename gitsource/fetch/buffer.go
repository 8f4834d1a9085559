package fetch

import (
	"bytes"
	"io"

	"github.com/minifleet/minifleet/gitsource/budget"
)

const chunkBytes = 256 << 10

// chunks is a byte buffer that grows without copying, so that its peak is its size.
type chunks struct {
	list [][]byte
	size int64
}

// readAll appends everything r has, at most limit bytes; over reports that there was more. What is kept is held in b.
func (c *chunks) readAll(r io.Reader, limit int64, b *budget.Budget) (over bool, err error) {
	for {
		if err := b.Hold(chunkBytes, ""); err != nil {
			return false, err
		}
		chunk := make([]byte, chunkBytes)
		n, err := io.ReadFull(r, chunk)
		if n > 0 {
			if n < chunkBytes/2 {
				chunk = bytes.Clone(chunk[:n]) // it may be kept for long
			}
			c.list = append(c.list, chunk[:n:n])
			c.size += int64(n)
		}
		switch {
		case c.size > limit:
			return true, nil
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return false, nil
		case err != nil:
			return false, err
		}
	}
}

// ReadAt implements io.ReaderAt. Every chunk but the last is full, which readAll sees to.
func (c *chunks) ReadAt(p []byte, off int64) (int, error) {
	read := 0
	for read < len(p) {
		index, at := off/chunkBytes, off%chunkBytes
		if index >= int64(len(c.list)) || at >= int64(len(c.list[index])) {
			return read, io.EOF
		}
		n := copy(p[read:], c.list[index][at:])
		read += n
		off += int64(n)
	}
	return read, nil
}
