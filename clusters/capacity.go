package clusters

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	podresources "k8s.io/component-helpers/resource"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// capacityInterval is the shortest time between two reports of a member's capacity.
const capacityInterval = 5 * time.Second

// amount is CPU in millicores, memory in bytes, and whole GPUs.
type amount struct{ cpu, memory, gpu int64 }

func (a *amount) add(b amount, sign int64) {
	a.cpu += sign * b.cpu
	a.memory += sign * b.memory
	a.gpu += sign * b.gpu
}

func amountOf(list corev1.ResourceList) amount {
	a := amount{cpu: list.Cpu().MilliValue(), memory: list.Memory().Value()}
	for name, q := range list {
		if strings.HasSuffix(string(name), "/gpu") {
			a.gpu += q.Value()
		}
	}
	return a
}

// capacity sums what a member's nodes have and what its scheduled pods ask for. Of each pod it keeps only
// that: some 100 bytes, whatever the size of the pod.
type capacity struct {
	member *Member

	mu     sync.Mutex
	nodes  map[types.UID]node
	pods   map[types.UID]pod
	listed struct{ nodes, pods bool }
	used   map[string]amount // by the name of the node
	dirty  bool
	// full is closed when nodes and pods have been listed for the first time.
	full chan struct{}
}

type node struct {
	name        string
	schedulable bool
	amount      amount
}

type pod struct {
	node   string
	amount amount
}

func newCapacity(m *Member) *capacity {
	return &capacity{member: m, nodes: map[types.UID]node{}, pods: map[types.UID]pod{}, used: map[string]amount{}, full: make(chan struct{})}
}

// run watches nodes and pods, where the credentials allow it, and reports changes until ctx ends.
func (c *capacity) run(ctx context.Context, report func(*v1alpha1.MemberCapacity)) {
	if c.member.Spec.Namespace != "" {
		return // such credentials see neither nodes nor other people's pods
	}
	client, err := kubernetes.NewForConfigAndClient(c.member.GetConfig(), c.member.http)
	if err != nil {
		return
	}
	scheduled := fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
	core := client.CoreV1().RESTClient()
	for _, r := range []*toolscache.Reflector{
		toolscache.NewReflectorWithOptions(toolscache.NewListWatchFromClient(core, "nodes", "", fields.Everything()),
			&corev1.Node{}, nodeStore{c}, toolscache.ReflectorOptions{Name: c.member.Name + " nodes"}),
		toolscache.NewReflectorWithOptions(toolscache.NewListWatchFromClient(core, "pods", "", scheduled),
			&corev1.Pod{}, podStore{c}, toolscache.ReflectorOptions{Name: c.member.Name + " pods"}),
	} {
		go r.RunWithContext(ctx)
	}
	select {
	case <-ctx.Done():
		return
	case <-c.full:
	}
	ticker := time.NewTicker(capacityInterval)
	defer ticker.Stop()
	for {
		if current, ok := c.take(); ok {
			report(current)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// seen notes that one of the two lists is complete.
func (c *capacity) seen(listed *bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.listed.nodes && c.listed.pods
	*listed = true
	if !before && c.listed.nodes && c.listed.pods {
		close(c.full)
	}
}

// take returns the sums if they are complete and have changed since the last call.
func (c *capacity) take() (*v1alpha1.MemberCapacity, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.dirty {
		return nil, false
	}
	c.dirty = false
	total, used := c.sums()
	out := &v1alpha1.MemberCapacity{
		Nodes:  int32(len(c.nodes)), //nolint:gosec // a cluster has far fewer than 2³¹ nodes
		CPU:    cores(total.cpu-used.cpu) + "/" + cores(total.cpu),
		Memory: binary(total.memory-used.memory) + "/" + binary(total.memory),
	}
	if total.gpu > 0 {
		out.GPUs = fmt.Sprintf("%d/%d", total.gpu-used.gpu, total.gpu)
	}
	return out, true
}

// sums are what schedulable nodes have, and what the pods on these ask for: pods on a cordoned node take no
// room from the others.
func (c *capacity) sums() (total, used amount) {
	for _, n := range c.nodes {
		if n.schedulable {
			total.add(n.amount, 1)
			used.add(c.used[n.name], 1)
		}
	}
	return total, used
}

func cores(milli int64) string {
	return resource.NewMilliQuantity(milli-milli%100, resource.DecimalSI).String()
}

// binary rounds down to whole MiB, or GiB from 10 GiB on.
func binary(bytes int64) string {
	unit := int64(1) << 20
	if bytes >= 10<<30 {
		unit = 1 << 30
	}
	return resource.NewQuantity(bytes-bytes%unit, resource.BinarySI).String()
}

type nodeStore struct{ *capacity }

func (s nodeStore) put(obj any) error {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(n.UID, &node{name: n.Name, schedulable: !n.Spec.Unschedulable, amount: amountOf(n.Status.Allocatable)})
	return nil
}

// set replaces a node, or removes it.
func (s nodeStore) set(uid types.UID, next *node) {
	old, had := s.nodes[uid]
	if next != nil && had && *next == old {
		return // most updates of nodes are heartbeats
	}
	delete(s.nodes, uid)
	if next != nil {
		s.nodes[uid] = *next
	}
	s.dirty = true
}

func (s nodeStore) Add(obj any) error    { return s.put(obj) }
func (s nodeStore) Update(obj any) error { return s.put(obj) }
func (s nodeStore) Delete(obj any) error {
	if n, ok := obj.(*corev1.Node); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set(n.UID, nil)
	}
	return nil
}

func (s nodeStore) Replace(list []any, _ string) error {
	s.mu.Lock()
	s.nodes, s.dirty = make(map[types.UID]node, len(list)), true
	s.mu.Unlock()
	for _, obj := range list {
		_ = s.put(obj)
	}
	s.seen(&s.listed.nodes)
	return nil
}

func (s nodeStore) Resync() error { return nil }

type podStore struct{ *capacity }

func (s podStore) put(obj any) error {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	requests := amountOf(podresources.PodRequests(p, podresources.PodResourcesOptions{}))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(p.UID, &pod{node: p.Spec.NodeName, amount: requests})
	return nil
}

// set replaces a pod's requests, or removes them.
func (s podStore) set(uid types.UID, next *pod) {
	old, had := s.pods[uid]
	if next != nil && had && *next == old {
		return
	}
	if had {
		s.use(old, -1)
	}
	delete(s.pods, uid)
	if next != nil {
		s.pods[uid] = *next
		s.use(*next, 1)
	}
	s.dirty = true
}

func (s podStore) use(p pod, sign int64) {
	sum := s.used[p.node]
	sum.add(p.amount, sign)
	if sum == (amount{}) {
		delete(s.used, p.node)
		return
	}
	s.used[p.node] = sum
}

func (s podStore) Add(obj any) error    { return s.put(obj) }
func (s podStore) Update(obj any) error { return s.put(obj) }
func (s podStore) Delete(obj any) error {
	if p, ok := obj.(*corev1.Pod); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set(p.UID, nil)
	}
	return nil
}

func (s podStore) Replace(list []any, _ string) error {
	s.mu.Lock()
	s.pods, s.used, s.dirty = make(map[types.UID]pod, len(list)), map[string]amount{}, true
	s.mu.Unlock()
	for _, obj := range list {
		_ = s.put(obj)
	}
	s.seen(&s.listed.pods)
	return nil
}

func (s podStore) Resync() error { return nil }
