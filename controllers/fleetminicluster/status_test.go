package fleetminicluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/plan"
)

// Where the hub refuses a status, the object keeps the one before. That another write came first is no error.
func TestStatusThatIsRefused(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("fleetminiclusters").GroupResource()
	cases := map[string]struct {
		answer error
		again  time.Duration
		fails  bool
	}{
		"another write came first": {apierrors.NewConflict(resource, "run", errors.New("modified")), 100 * time.Millisecond, false},
		"the hub is overloaded":    {apierrors.NewTooManyRequestsError("later"), 0, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			f := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "hpc", Name: "run"}}
			refuse := interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
				return c.answer
			}}
			hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(f).WithStatusSubresource(f).WithInterceptorFuncs(refuse).Build()
			before := f.Status.DeepCopy()
			r := &reconciliation{
				Reconciler: New(Options{Client: hub, Now: time.Now}), snapshot: &plan.Snapshot{Object: f}, decision: &plan.Decision{},
			}
			for range 2 {
				err := r.writeStatus(t.Context())
				if err == nil {
					t.Fatal("it is no error")
				}
				result, err := staleOr(err)
				if result.RequeueAfter != c.again || (err != nil) != c.fails {
					t.Errorf("%+v, %v", result, err)
				}
			}
			if diff := cmp.Diff(*before, f.Status); diff != "" {
				t.Error(diff)
			}
		})
	}
}
