package fetch

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"golang.org/x/crypto/ssh"
)

// channel is one of SSH that takes all that is written.
type channel struct {
	ssh.Channel
	bytes.Buffer
	closing error // what CloseWrite returns
}

func (c *channel) Read(p []byte) (int, error)  { return c.Buffer.Read(p) }
func (c *channel) Write(p []byte) (int, error) { return c.Buffer.Write(p) }
func (c *channel) CloseWrite() error           { return c.closing }

// A server may have answered, and have ended, before it is told that nothing more comes.
func TestServerThatHasEndedWasAsked(t *testing.T) {
	req := packp.NewUploadPackRequest()
	req.Wants = []plumbing.Hash{plumbing.NewHash(strings.Repeat("1", 40))}
	broken := errors.New("broken")
	for _, tc := range []struct{ closing, want error }{{nil, nil}, {io.EOF, nil}, {broken, broken}} {
		c := &channel{closing: tc.closing}
		if err := sendRequest(&uploadRun{Channel: c}, req); !errors.Is(err, tc.want) {
			t.Errorf("%v where the end of what is written gives %v", err, tc.closing)
		}
		if !strings.HasSuffix(c.String(), "done\n") {
			t.Errorf("%q was written", c.String())
		}
	}
}
