package clusters

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	watchapi "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	podresources "k8s.io/component-helpers/resource"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/fleet"
)

const (
	// capacityInterval is the shortest time between two reports of a member's capacity.
	capacityInterval = 5 * time.Second
	// roomInterval is the shortest time between two calls that tell those who wait of another Room: pods come
	// and go many at a time.
	roomInterval = 300 * time.Millisecond
)

// amount is CPU in millicores, memory in bytes, and whole GPUs.
type amount struct{ cpu, memory, gpu int64 }

func (a *amount) add(b amount) {
	a.cpu += b.cpu
	a.memory += b.memory
	a.gpu += b.gpu
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
// that and where it is: about 200 bytes, whatever the size of the pod. Of each node it keeps labels, taints
// and sums.
type capacity struct {
	member *Member

	mu     sync.Mutex
	nodes  map[types.UID]node
	pods   map[types.UID]pod
	listed struct{ nodes, pods bool }
	denied struct{ nodes, pods bool }
	failed *Error                     // the last list or watch that was answered otherwise, until one succeeds
	used   map[string]*usage          // by the name of the node
	runs   map[string]fleet.Scheduled // by the id of the run
	dirty  bool
	// full is closed when nodes and pods have been listed for the first time.
	full chan struct{}
	// changed holds a token when anything has changed since it was last empty.
	changed chan struct{}
	room    *Room // the last one made, until something changes
}

type node struct {
	name        string
	schedulable bool
	amount      amount
	total       fleet.Amounts
	labels      map[string]string
	taints      []corev1.Taint
}

// same says whether nothing has changed that is kept of a node: most updates of nodes are heartbeats.
func (n *node) same(o *node) bool {
	return n.name == o.name && n.schedulable == o.schedulable && maps.Equal(n.total, o.total) && maps.Equal(n.labels, o.labels) &&
		slices.EqualFunc(n.taints, o.taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

// pod is where a pod is and what it asks for.
type pod struct {
	at     *usage
	amount amount
	extra  string // what else it requests, as extraOf writes it
	run    string // the id of the run that it belongs to, if it is one of ours
	kind   podKind
}

type podKind uint8

const (
	// comesAndGoes is any pod but those below.
	comesAndGoes podKind = iota
	// servesRun is the pod of services beside a run.
	servesRun
	// staysOnNode is a pod that never ends by itself.
	staysOnNode
)

func newCapacity(m *Member) *capacity {
	return &capacity{
		member: m, nodes: map[types.UID]node{}, pods: map[types.UID]pod{}, used: map[string]*usage{}, runs: map[string]fleet.Scheduled{},
		full: make(chan struct{}), changed: make(chan struct{}, 1),
	}
}

// off says that the member's capacity is not observed: because that is not wanted, or because credentials
// for one namespace see neither nodes nor other people's pods.
func (c *capacity) off() bool {
	return c.member.Spec.Namespace != "" || c.member.Spec.Capacity == v1alpha1.CapacityNone
}

// run watches nodes and pods, where the credentials allow it, and reports changes until ctx ends: the sums
// to report, and that there is another Room to roomChanged.
func (c *capacity) run(ctx context.Context, report func(*v1alpha1.MemberCapacity), roomChanged func()) {
	if c.off() {
		return
	}
	cfg := rest.CopyConfig(c.member.GetConfig())
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfigAndClient(cfg, c.member.http)
	if err != nil {
		return
	}
	scheduled := fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
	core := client.CoreV1().RESTClient()
	for _, r := range []*toolscache.Reflector{
		toolscache.NewReflectorWithOptions(c.watched(&c.denied.nodes, toolscache.NewListWatchFromClient(core, "nodes", "", fields.Everything())),
			&corev1.Node{}, nodeStore{c}, toolscache.ReflectorOptions{Name: c.member.Name + " nodes"}),
		toolscache.NewReflectorWithOptions(c.watched(&c.denied.pods, toolscache.NewListWatchFromClient(core, "pods", "", scheduled)),
			&corev1.Pod{}, podStore{c}, toolscache.ReflectorOptions{Name: c.member.Name + " pods"}),
	} {
		go r.RunWithContext(ctx)
	}
	c.tell(ctx, report, roomChanged)
}

// tell reports changes until ctx ends. That the room has become known is told at once: everything that is to
// be placed waits for it.
func (c *capacity) tell(ctx context.Context, report func(*v1alpha1.MemberCapacity), roomChanged func()) {
	ticker := time.NewTicker(capacityInterval)
	defer ticker.Stop()
	full, known := c.full, false
	var soon <-chan time.Time // when to tell of another Room
	for {
		select {
		case <-ctx.Done():
			return
		case <-full:
			full = nil // once
		case <-c.changed:
			switch {
			case known && soon == nil:
				soon = time.After(roomInterval)
			case !known && !c.pending():
				known = true
				roomChanged()
			}
			continue
		case <-soon:
			soon = nil
			roomChanged()
			continue
		case <-ticker.C:
		}
		if current, ok := c.take(); ok && full == nil {
			report(current)
		}
	}
}

// watched notes whether the credentials are refused what a list and a watch ask for.
func (c *capacity) watched(denied *bool, lw *toolscache.ListWatch) *toolscache.ListWatch {
	list, watch := lw.ListWithContextFunc, lw.WatchFuncWithContext
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			out, err := list(ctx, o)
			c.refused(denied, err)
			return out, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watchapi.Interface, error) {
			out, err := watch(ctx, o)
			c.refused(denied, err)
			return out, err
		},
	}
}

func (c *capacity) refused(denied *bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !apierrors.IsForbidden(err) {
		c.failed = connectionError(err)
		return // it says nothing of what is allowed
	}
	c.failed = nil
	if *denied != (err != nil) {
		*denied = err != nil
		c.touch()
	}
}

// touch notes that something has changed.
func (c *capacity) touch() {
	c.dirty, c.room = true, nil
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// seen notes that one of the two lists is complete.
func (c *capacity) seen(listed *bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.listed.nodes && c.listed.pods
	*listed = true
	c.touch()
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
			total.add(n.amount)
			if u := c.used[n.name]; u != nil {
				used.add(u.amount())
			}
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
	s.set(n.UID, nodeFrom(n))
	return nil
}

func nodeFrom(n *corev1.Node) *node {
	return &node{
		name: n.Name, schedulable: !n.Spec.Unschedulable, amount: amountOf(n.Status.Allocatable),
		total: fleet.AmountsOf(n.Status.Allocatable), labels: n.Labels, taints: n.Spec.Taints,
	}
}

// set replaces a node, or removes it.
func (s nodeStore) set(uid types.UID, next *node) {
	old, had := s.nodes[uid]
	if next != nil && had && next.same(&old) {
		return
	}
	delete(s.nodes, uid)
	if next != nil {
		s.nodes[uid] = *next
	}
	s.touch()
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

// Replace is one step to all others: between the old list and the new one nothing is free that is not.
func (s nodeStore) Replace(list []any, _ string) error {
	s.mu.Lock()
	s.nodes = make(map[types.UID]node, len(list))
	for _, obj := range list {
		if n, ok := obj.(*corev1.Node); ok {
			s.set(n.UID, nodeFrom(n))
		}
	}
	s.mu.Unlock()
	s.seen(&s.listed.nodes)
	return nil
}

func (s nodeStore) Resync() error { return nil }

type podStore struct{ *capacity }

// listedPod is what is kept of a pod until all have been listed: whole pods would for a moment take as much
// memory as all that others have on the member.
type listedPod struct {
	metav1.ObjectMeta

	node string
	pod  pod
}

// Transformer implements toolscache.TransformingStore.
func (s podStore) Transformer() toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if p, ok := obj.(*corev1.Pod); ok {
			return listedFrom(p), nil
		}
		return obj, nil
	}
}

func listedFrom(p *corev1.Pod) *listedPod {
	return &listedPod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, node: p.Spec.NodeName, pod: podFrom(p)}
}

func (s podStore) put(obj any) error {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return nil
	}
	next := listedFrom(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(next.UID, next.node, &next.pod)
	return nil
}

// podFrom leaves open where the pod is.
func podFrom(p *corev1.Pod) pod {
	// With what the kubelet reports, of a pod whose requests are changed in place: until it is done, the old ones
	// may count, as they do for schedulers.
	requests := podresources.PodRequests(p, podresources.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
	return pod{amount: amountOf(requests), extra: extraOf(requests), run: strings.Clone(fleet.RunID(p.Labels)), kind: podKindOf(p)}
}

// set replaces a pod's requests, or removes them.
func (s podStore) set(uid types.UID, node string, next *pod) {
	if next != nil {
		if next.at = s.used[node]; next.at == nil {
			next.at = newUsage(node)
		}
	}
	old, had := s.pods[uid]
	if next != nil && had && *next == old {
		return
	}
	if had {
		s.use(&old, -1)
	}
	delete(s.pods, uid)
	if next != nil {
		s.pods[uid] = *next
		s.use(next, 1)
	}
	s.touch()
}

func (s podStore) use(p *pod, sign int64) {
	p.at.add(p, sign)
	if p.at.all[corev1.ResourcePods] == 0 {
		delete(s.used, p.at.node)
	} else {
		s.used[p.at.node] = p.at
	}
	if p.run == "" {
		return
	}
	n := s.runs[p.run]
	count(&n, p.kind, int(sign))
	if n == (fleet.Scheduled{}) {
		delete(s.runs, p.run)
		return
	}
	s.runs[p.run] = n
}

func (s podStore) Add(obj any) error    { return s.put(obj) }
func (s podStore) Update(obj any) error { return s.put(obj) }
func (s podStore) Delete(obj any) error {
	if p, ok := obj.(*corev1.Pod); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.set(p.UID, "", nil)
	}
	return nil
}

func (s podStore) Replace(list []any, _ string) error {
	s.mu.Lock()
	s.pods, s.used, s.runs = make(map[types.UID]pod, len(list)), map[string]*usage{}, map[string]fleet.Scheduled{}
	for _, obj := range list {
		switch p := obj.(type) {
		case *listedPod:
			s.set(p.UID, p.node, &p.pod)
		case *corev1.Pod:
			next := listedFrom(p)
			s.set(next.UID, next.node, &next.pod)
		}
	}
	s.mu.Unlock()
	s.seen(&s.listed.pods)
	return nil
}

func (s podStore) Resync() error { return nil }
