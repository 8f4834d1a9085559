package live

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/view"
)

func TestPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := running("alpine", "basalt", "cinder", "onyx")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "lammps-curve", Annotations: map[string]string{
			v1alpha1.AnnotationFleetID: "f", v1alpha1.AnnotationOwner: "hpc/lammps",
		}}}
		alpine := &fake{pods: []corev1.Pod{podOf(0), podOf(1)}, objects: map[string]client.Object{"Secret/lammps-curve": secret}}
		r := reader(fakes{"alpine": alpine, "basalt": {hung: true}, "cinder": {away: true}, "onyx": {err: errRefused}})
		want := map[string]view.MemberPods{
			"alpine": {Known: true, Pods: []corev1.Pod{podOf(0), podOf(1)}, Objects: []view.ObjectRef{{Kind: "Secret", Name: "lammps-curve"}}},
			"basalt": {Error: "the member did not answer in time"},
			"cinder": {Error: "the member cannot be reached"},
			"onyx":   {Error: "refused"},
		}
		var all sync.WaitGroup
		for range 20 { // so many readers at once
			all.Go(func() {
				inTime(t, "asking a member that hangs", func() {
					if diff := cmp.Diff(want, r.Pods(t.Context(), f), cmpopts.EquateEmpty()); diff != "" {
						t.Error(diff)
					}
				})
			})
		}
		all.Wait()
		if alpine.lists != 1 {
			t.Errorf("the member was asked %d times", alpine.lists)
		}
	})
}
