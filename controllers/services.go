package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/render"
	"github.com/minifleet/minifleet/internal/runs"
)

// tendServices keeps the services pod of a site beside a live run, and takes it away from any other. A run
// of an earlier spec keeps the pod that it has, and gets no new one: what that looked like is not known.
func (p *pass) tendServices(ctx context.Context, s *site) {
	if s.lost != nil || s.failed != nil {
		return
	}
	pod, err := s.member.ServicesPod(ctx, p.servicesKey(s), p.origin)
	if err != nil && len(p.fmc.Spec.MiniCluster.Services) == 0 {
		return // somebody else's pod is in nobody's way
	}
	last := p.ledger.Last(s.name)
	due := runs.ServicesDue(last, s.job)
	switch {
	case err != nil:
	case pod == nil && due == runs.ServicesOn && p.wanted.IsCurrent(last):
		err = p.startServices(ctx, s, last)
	case pod != nil && pod.DeletionTimestamp.IsZero() && (due == runs.ServicesOff || pod.Labels[v1alpha1.LabelRun] != last.ID || lostPod(pod)):
		err = p.stopServices(ctx, s, pod)
	}
	if err != nil {
		p.failOrCatchUp(s, fmt.Errorf("the pod of services: %w", err))
	}
}

func (p *pass) stopServices(ctx context.Context, s *site, pod *corev1.Pod) error {
	if err := p.askHub(ctx); err != nil {
		return err
	}
	return s.member.DeleteServices(ctx, pod)
}

func (p *pass) servicesKey(s *site) types.NamespacedName {
	return types.NamespacedName{Namespace: p.key(s).Namespace, Name: render.ServicesPodName(p.fmc.Name)}
}

// startServices makes the services pod of a live run anew: it was deleted, or its run was suspended.
func (p *pass) startServices(ctx context.Context, s *site, last *v1alpha1.Run) error {
	if spec, err := p.specFor(s); err != nil || len(spec.Services) == 0 {
		return err
	}
	if since := p.r.Now().Sub(last.StartTime.Time); since < settle {
		s.lookAgain(settle - since) // the cache may not show it yet
		return nil
	}
	bundle, err := p.render(s, p.r.anyCert())
	if err != nil || bundle.services == nil {
		return err
	}
	if err := p.askHub(ctx); err != nil {
		return err
	}
	inTheWay, err := s.member.StartServices(ctx, bundle.services, p.origin)
	if inTheWay != "" {
		s.lookAgain(goneInterval)
	}
	return err
}

// lostPod says whether a pod has ended because of its node, and not by itself: then another one takes its
// place, as one of a Job's would.
func lostPod(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return pod.Status.Reason == "Evicted" || pod.Status.Reason == "NodeLost"
}

// servicesGone lets through what may call for a services pod to be made anew.
var servicesGone = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Pod)
		after, ok2 := e.ObjectNew.(*corev1.Pod)
		return !ok1 || !ok2 || before.Status.Phase != after.Status.Phase
	},
}
