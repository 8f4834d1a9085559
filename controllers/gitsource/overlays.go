package gitsource

import (
	"context"
	"errors"

	"github.com/minifleet/minifleet/gitsource"
	"github.com/minifleet/minifleet/gitsource/budget"
	"github.com/minifleet/minifleet/gitsource/fetch"
	"github.com/minifleet/minifleet/gitsource/overlay"
)

// overlayBuilder builds overlays.
type overlayBuilder interface {
	Files(ctx context.Context, spend *budget.Budget, closures []*overlay.Closure) (files []gitsource.File, again bool, err error)
}

// buildOverlays puts what the overlays of a commit build to with its files. again says that the same commit may build to
// something else at the next interval.
func buildOverlays(ctx context.Context, with overlayBuilder, spend *budget.Budget, fetched *fetch.Result) (again bool, err error) {
	if len(fetched.Overlays) == 0 {
		return false, nil
	}
	if with == nil {
		return false, errors.New("overlays are not built here")
	}
	files, again, err := with.Files(ctx, spend, fetched.Overlays)
	fetched.Files = append(fetched.Files, files...)
	return again, err
}
