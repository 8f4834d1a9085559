package notification

import (
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// A Notification must not say that messages are sent while the controller sends none.
func TestSilentWhereNotificationsAreOff(t *testing.T) {
	why, err := (&Reconciler{Off: true}).silent(t.Context(), &v1alpha1.Notification{})
	if err != nil || why == nil || why.reason != v1alpha1.ReasonNotificationsOff {
		t.Errorf("%v, %v", why, err)
	}
}
