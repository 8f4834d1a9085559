package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/lab"
)

// lingers is after how long connections are closed that nobody uses any more.
const lingers = 100 * time.Second

// weighLive adds a line about the controller's memory once it has collected garbage twice, which it does every two
// minutes when nothing else makes it.
func (b *bench) weighLive(ctx context.Context, when string) error {
	for range 2 { // what pools hold is let go of by the second that finds it unused
		since := float64(time.Now().UnixMilli()) / 1000
		err := b.eventually(ctx, "the controller to collect garbage", func(ctx context.Context) (bool, error) {
			m, err := b.metrics(ctx)
			return m.sum("go_memstats_last_gc_time_seconds") > since, err
		})
		if err != nil {
			return err
		}
	}
	m, err := b.metrics(ctx)
	if err != nil {
		return err
	}
	if err := b.weigh(ctx, when); err != nil {
		return err
	}
	last := &b.report.Memory[len(b.report.Memory)-1]
	// What was found to be live: what is allocated has garbage, too, until the heap is swept.
	last.Live = m.sum("go_gc_heap_live_bytes") / (1 << 20)
	b.say("%s: RSS %.1f MiB, live %.1f MiB, %.0f goroutines", when, last.RSS, last.Live, last.Goroutines)
	return nil
}

func (b *bench) lastWeight() weight { return b.report.Memory[len(b.report.Memory)-1] }

// weighMembers measures what one more idle member costs, and what others have on a member.
func (b *resting) weighMembers(ctx context.Context) error {
	if err := b.removeFleet(ctx); err != nil {
		return err
	}
	if err := b.restartController(ctx, len(memberNames)); err != nil {
		return err
	}
	if err := b.weighLive(ctx, fmt.Sprintf("memory: %d idle members", len(memberNames))); err != nil {
		return err
	}
	if err := b.weighDoubles(ctx); err != nil {
		return err
	}
	return b.weighStrangers(ctx)
}

// restartController starts it anew, and waits until it has seen to as many members.
func (b *bench) restartController(ctx context.Context, members int) error {
	if err := b.controller.Stop(); err != nil {
		return err
	}
	if err := b.controller.Start(); err != nil {
		return err
	}
	err := b.eventually(ctx, "the controller to see to all members", func(ctx context.Context) (bool, error) {
		m, err := b.metrics(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // it does not answer yet
		}
		return m.sum(reconcileTotal, `controller="membercluster"`) >= float64(members), nil
	})
	if err != nil {
		return err
	}
	_, err = b.trail.quiet(ctx, 4*b.still())
	return err
}

// weighDoubles registers many idle members and removes them. The floor is what a bare cache of the same kinds
// costs this process.
func (b *resting) weighDoubles(ctx context.Context) error {
	n := b.options.doubles
	before := b.lastWeight()
	doubles, err := b.newDoubles(observed, n)
	defer func() {
		for _, d := range doubles {
			d.close()
		}
	}()
	if err != nil {
		return err
	}
	for i, d := range doubles {
		kubeconfig, err := d.kubeconfig()
		if err != nil {
			return err
		}
		if err := b.registerOne(ctx, fmt.Sprintf("double-%02d", i), kubeconfig, v1alpha1.CapacityObserve); err != nil {
			return err
		}
	}
	if err := b.connected(ctx, len(memberNames)+n); err != nil {
		return err
	}
	if err := b.weighLive(ctx, fmt.Sprintf("memory: %d idle members", len(memberNames)+n)); err != nil {
		return err
	}
	after := b.lastWeight()
	floor, err := b.bareCaches(ctx, n)
	if err != nil {
		return err
	}
	each := func(more float64) float64 { return more / float64(n) }
	const bare = "a bare cache of the same kinds"
	b.report.figure("RSS of one more idle member", "MiB", each(after.RSS-before.RSS), bare, floor.RSS)
	b.report.figure("live memory of one more idle member", "MiB", each(after.Live-before.Live), bare, floor.Live)
	b.report.figure("goroutines of one more idle member", "", each(after.Goroutines-before.Goroutines), bare, floor.Goroutines)
	for i := range doubles {
		if err := b.hub.Delete(ctx, &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("double-%02d", i)}}); err != nil {
			return err
		}
	}
	if err := b.connected(ctx, len(memberNames)); err != nil {
		return err
	}
	if err := wait.Pause(ctx, lingers); err != nil {
		return err
	}
	return b.weighLive(ctx, fmt.Sprintf("memory: %d of them removed", n))
}

// bareCaches measures what caches like those of a member cost, each over a connection of its own.
func (f *fleet) bareCaches(ctx context.Context, n int) (weight, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	measure := func() weight {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return weight{RSS: float64(m.HeapAlloc+m.StackInuse) / (1 << 20), Live: float64(m.HeapAlloc) / (1 << 20), Goroutines: float64(runtime.NumGoroutine())}
	}
	before := measure()
	for range n {
		if err := f.watchBare(ctx, observed, true); err != nil {
			return weight{}, err
		}
	}
	if err := wait.Pause(ctx, 4*f.still()); err != nil {
		return weight{}, err
	}
	after, share := measure(), float64(n)
	return weight{
		RSS: (after.RSS - before.RSS) / share, Live: (after.Live - before.Live) / share, Goroutines: (after.Goroutines - before.Goroutines) / share,
	}, nil
}

// watchBare fills caches with what the controller's caches of a member hold, and keeps them, over a connection
// of their own.
func (f *fleet) watchBare(ctx context.Context, member string, capacity bool) error {
	cfg, err := f.lab.Cluster(member).RESTConfig()
	if err != nil {
		return err
	}
	cfg.UserAgent, cfg.ContentType = benchAgent, "application/vnd.kubernetes.protobuf"
	cfg.Dial = dialer()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy
	}))
	for _, i := range []cache.SharedIndexInformer{
		factory.Batch().V1().Jobs().Informer(), factory.Core().V1().ConfigMaps().Informer(), factory.Core().V1().Secrets().Informer(),
		factory.Core().V1().Services().Informer(), factory.Core().V1().Pods().Informer(),
	} {
		if _, err := i.AddEventHandler(cache.ResourceEventHandlerFuncs{}); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	if !capacity {
		return nil
	}
	core := c.CoreV1().RESTClient()
	scheduled := fields.ParseSelectorOrDie("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed")
	go cache.NewReflector(cache.NewListWatchFromClient(core, "nodes", "", fields.Everything()), &corev1.Node{}, cache.NewStore(cache.MetaNamespaceKeyFunc), 0).RunWithContext(ctx)
	go cache.NewReflector(cache.NewListWatchFromClient(core, "pods", "", scheduled), &corev1.Pod{}, cache.NewStore(cache.MetaNamespaceKeyFunc), 0).RunWithContext(ctx)
	return nil
}

// weighStrangers gives a member objects of others. The controller is started anew for each figure, for most of
// what it takes it takes when it first reads them.
func (b *resting) weighStrangers(ctx context.Context) error {
	fresh := func(when string) error {
		if err := b.restartController(ctx, len(memberNames)); err != nil {
			return err
		}
		if err := b.weigh(ctx, when+", just started"); err != nil {
			return err
		}
		return b.weighLive(ctx, when)
	}
	if err := fresh("memory: nothing of others"); err != nil {
		return err
	}
	base := b.lastWeight()
	if err := b.createStrangers(ctx, b.options.strangers); err != nil {
		return err
	}
	what := fmt.Sprintf("%d pods, Jobs and ConfigMaps of others on a member", b.options.strangers)
	if err := b.weighLive(ctx, "memory: just created: "+what); err != nil {
		return err
	}
	for _, mode := range []v1alpha1.CapacityMode{v1alpha1.CapacityObserve, v1alpha1.CapacityNone} {
		m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: observed}}
		if err := b.hub.Patch(ctx, m, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"capacity":%q}}`, mode))); err != nil {
			return err
		}
		with := fmt.Sprintf("%s, capacity: %s", what, mode)
		if err := fresh("memory: " + with); err != nil {
			return err
		}
		b.report.figure("RSS with "+with, "MiB", b.lastWeight().RSS, "without them", base.RSS)
		b.report.figure("live memory with "+with, "MiB", b.lastWeight().Live, "without them", base.Live)
	}
	return nil
}

// createStrangers creates objects as others have them. Who would act on them is paused, and stays so.
func (b *resting) createStrangers(ctx context.Context, n int) error {
	for _, component := range []string{lab.Kwok, lab.Scheduler, lab.ControllerManager} {
		if err := b.lab.Cluster(observed).Component(component).Pause(); err != nil {
			return err
		}
	}
	c := b.bare[observed]
	work := make(chan int)
	errs := make([]error, inFlight)
	var group sync.WaitGroup
	for worker := range inFlight {
		group.Go(func() {
			for i := range work {
				errs[worker] = errors.Join(errs[worker], createStranger(ctx, c, i))
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	group.Wait()
	b.say("%d pods, Jobs and ConfigMaps of others are there", n)
	return errors.Join(errs...)
}

func createStranger(ctx context.Context, c *kubernetes.Clientset, i int) error {
	o := metav1.CreateOptions{FieldManager: benchAgent}
	named := metav1.ObjectMeta{Name: fmt.Sprintf("stranger-%05d", i), Labels: map[string]string{"app": "stranger", "tier": "any"}}
	pod := strangerPod()
	suspended := true
	job := &batchv1.Job{ObjectMeta: named, Spec: batchv1.JobSpec{Suspend: &suspended, Template: corev1.PodTemplateSpec{Spec: pod}}}
	pod.NodeName = fmt.Sprintf("%s-%d", observed, i%5)
	configMap := &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"settings": fmt.Sprintf("%01000d", i)}}
	_, podErr := c.CoreV1().Pods(floorNamespace).Create(ctx, &corev1.Pod{ObjectMeta: named, Spec: pod}, o)
	_, jobErr := c.BatchV1().Jobs(floorNamespace).Create(ctx, job, o)
	_, mapErr := c.CoreV1().ConfigMaps(floorNamespace).Create(ctx, configMap, o)
	return errors.Join(podErr, jobErr, mapErr)
}

// strangerPod is of the size that pods have.
func strangerPod() corev1.PodSpec {
	spec := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}
	for _, name := range []string{"main", "sidecar"} {
		container := corev1.Container{
			Name: name, Image: "registry.example.org/team/" + name + ":v1.2.3", Command: []string{"/bin/" + name, "--verbose"},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
			}},
		}
		for i := range 20 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: "a value of some length"})
		}
		spec.Containers = append(spec.Containers, container)
	}
	return spec
}

// dialer makes a configuration have connections of its own.
func dialer() func(context.Context, string, string) (net.Conn, error) {
	return (&net.Dialer{Timeout: 5 * time.Second}).DialContext
}
