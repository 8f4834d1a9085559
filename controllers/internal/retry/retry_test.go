package retry_test

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minifleet/minifleet/controllers/internal/retry"
)

func TestOnConflict(t *testing.T) {
	resource := schema.GroupResource{Resource: "things"}
	failure := errors.New("no connection")
	for name, tc := range map[string]struct {
		err, want error
		again     bool
	}{
		"nothing":   {},
		"conflict":  {err: apierrors.NewConflict(resource, "a", failure), again: true},
		"not found": {err: apierrors.NewNotFound(resource, "a")},
		"any other": {err: failure, want: failure},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := retry.OnConflict(tc.err)
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || (result.RequeueAfter > 0) != tc.again {
				t.Errorf("%v, %v", result, err)
			}
		})
	}
}

func TestLimiterTriesAgainWithinAMinute(t *testing.T) {
	limiter := retry.Limiter[string]()
	var last time.Duration
	for range 50 {
		next := limiter.When("a")
		if next < last || next > 30*time.Second {
			t.Fatalf("%s after %s", next, last)
		}
		last = next
	}
	if other := limiter.When("b"); other >= time.Second {
		t.Errorf("another object waits %s", other)
	}
}
