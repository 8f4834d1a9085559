package controllers

import (
	"context"
	"fmt"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// learnExit asks the member which pod failed first, once a live run's Job has. The run ends without an
// answer as well: the pods may be gone.
func (p *pass) learnExit(ctx context.Context, s *site, last *v1alpha1.Run) {
	if s.exit != nil || s.job == nil || last == nil || last.State.Ended() || s.job.RunID != last.ID || !s.job.Finished || s.job.Succeeded {
		return
	}
	if exit, err := s.member.FirstFailure(ctx, s.rawJob); err == nil && exit != nil {
		s.exit = &v1alpha1.RunExit{
			Pod: sanitize.Text(exit.Pod, 253), Container: sanitize.Text(exit.Container, 63), ExitCode: exit.ExitCode,
			Reason: sanitize.Text(exit.Reason, 100), Message: sanitize.Text(exit.Message, maxExitMessage),
		}
	}
}

// maxExitMessage is the length of a container's own words in the ledger, in characters.
const maxExitMessage = 500

func exitSentence(e *v1alpha1.RunExit) string {
	out := "pod " + e.Pod
	if e.Container != "" {
		out += ", container " + e.Container
	}
	if e.ExitCode != nil {
		out += fmt.Sprintf(", exit code %d", *e.ExitCode)
	}
	if e.Reason != "" && e.Reason != "Error" {
		out += ", " + e.Reason
	}
	if e.Message != "" {
		out += ": " + e.Message
	}
	return out
}
