package controllers

import (
	"context"
	"net/netip"
	"net/url"

	"github.com/go-logr/logr"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=networking.k8s.io,resources=servicecidrs,verbs=list

// hubAddresses are those of the hub's API server, which inside of a cluster is a Service, and of all its Services where the
// hub tells them (ServiceCIDRs, since Kubernetes 1.33). They are read once: what is added takes a restart.
func hubAddresses(ctx context.Context, reader client.Reader, host string, log logr.Logger) []netip.Prefix {
	var out []netip.Prefix
	if u, err := url.Parse(host); err == nil {
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			out = append(out, netip.PrefixFrom(addr.Unmap().WithZone(""), addr.Unmap().BitLen()))
		}
	}
	var list networkingv1.ServiceCIDRList
	if err := reader.List(ctx, &list); err != nil {
		log.Info("the hub does not tell the addresses of its Services, so that GitSources may name them: add their range to --git-refused-cidrs", "cause", err.Error())
		return out
	}
	for i := range list.Items {
		for _, cidr := range list.Items[i].Spec.CIDRs {
			if p, err := netip.ParsePrefix(cidr); err == nil {
				out = append(out, p.Masked())
			}
		}
	}
	return out
}
