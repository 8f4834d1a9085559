package controllers

import (
	"net/netip"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestHubAddresses(t *testing.T) {
	told, untold := runtime.NewScheme(), runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(told); err != nil {
		t.Fatal(err)
	}
	cidrs := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12", "fd00:1::/108"}}}
	for name, tc := range map[string]struct {
		host   string
		scheme *runtime.Scheme
		want   []string
	}{
		"in a cluster":         {"https://10.96.0.1:443", told, []string{"10.96.0.1/32", "10.96.0.0/12", "fd00:1::/108"}},
		"IPv6":                 {"https://[fd00:1::1]:443", told, []string{"fd00:1::1/128", "10.96.0.0/12", "fd00:1::/108"}},
		"by a name":            {"https://hub.example.org", told, []string{"10.96.0.0/12", "fd00:1::/108"}},
		"a hub that tells not": {"https://10.96.0.1", untold, []string{"10.96.0.1/32"}},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(tc.scheme)
			if tc.scheme == told {
				builder = builder.WithObjects(cidrs)
			}
			var want []netip.Prefix
			for _, text := range tc.want {
				want = append(want, netip.MustParsePrefix(text))
			}
			got := hubAddresses(t.Context(), builder.Build(), tc.host, logr.Discard())
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
				t.Error(diff)
			}
		})
	}
}
