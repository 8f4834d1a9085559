package controllers

import (
	"context"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/controllers/internal/enforcement"
)

// AdmissionPolicy is what is known of the admission policy of a hub: see enforcement.Installed.
type AdmissionPolicy = enforcement.Installed

// ExamineAdmissionPolicy finds out whether the policy that says who may write spec.allow of GitSources is installed on a hub,
// as this version of MiniFleet has it. The error is one of the hub's.
func ExamineAdmissionPolicy(ctx context.Context, hub client.Reader) (AdmissionPolicy, error) {
	return enforcement.Examine(ctx, hub)
}

// policyInstalled has no series before the hub has been asked.
var policyInstalled = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "minifleet_admission_policy_installed",
	Help: "Whether the admission policy that says who may let GitSources use permissions is in force on the hub: 1, or 0.",
}, nil)

func init() { metrics.Registry.MustRegister(policyInstalled) }

// announcePolicy tells people what has become of the admission policy: a log line, the metric, and an event where it is missing, or
// is there again. That it is there when the controller starts is as it should be, and nothing is sent to the hub for it.
func announcePolicy(log logr.Logger, recorder events.EventRecorder, regarding runtime.Object, waived bool) func(problem string) {
	missing := false
	return func(problem string) {
		wasMissing := missing
		missing = problem != ""
		if !missing {
			policyInstalled.WithLabelValues().Set(1)
			log.Info("the admission policy for spec.allow of GitSources is in force")
			if wasMissing {
				recorder.Eventf(regarding, nil, corev1.EventTypeNormal, v1alpha1.ReasonAdmissionPolicyInstalled, "Check", "the admission policy for spec.allow of GitSources is in force")
			}
			return
		}
		consequence := "spec.allow of GitSources does not count"
		if waived {
			consequence = "spec.allow of GitSources counts, whoever writes it, as --allow-without-admission-policy says"
		}
		policyInstalled.WithLabelValues().Set(0)
		log.Info("the admission policy is not in force: "+consequence, "cause", problem)
		recorder.Eventf(regarding, nil, corev1.EventTypeWarning, v1alpha1.ReasonAdmissionPolicyMissing, "Check", "%s: %s", consequence, problem)
	}
}
