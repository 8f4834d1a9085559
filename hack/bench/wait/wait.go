// Package wait waits for what a benchmark has begun.
package wait

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// poll is between two questions.
const poll = 50 * time.Millisecond

// Until asks until the answer is yes, for as long as patience. An error of the question ends it.
func Until(ctx context.Context, patience time.Duration, what string, ask func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, ask)
	if wait.Interrupted(err) {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return err
}

// Pause waits for d, or for the end of the context, whose error it returns.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
