package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

const mergePatch = types.MergePatchType

// actions are what a step can do. An error says that it could not be done, for the moment did not allow it:
// there is no such object, or the API server is down. The schedule goes on.
var actions = map[string]func(context.Context, *fleet, step) error{
	"kill-hub":       killHub,
	"pause-hub":      pauseHub,
	"stop-hub":       eachHub((*minifleet).Pause),
	"resume-hub":     eachHub((*minifleet).Resume),
	"succeed-hub":    succeedHub,
	"depose-hub":     deposeHub,
	"second-hub":     secondHub,
	"cut-hub":        cutHub,
	"kill-rival":     killRival,
	"break":          breakCluster,
	"worsen":         breakCluster,
	"restore":        func(ctx context.Context, f *fleet, s step) error { return f.restore(ctx, s.on) },
	"create":         create,
	"delete":         deleteFMC,
	"command":        changeCommand,
	"on-change":      edit(`{"spec":{"onChange":%s}}`, func(s step) any { return s.arg }),
	"size":           resize,
	"suspend":        edit(`{"spec":{"suspend":%s}}`, func(s step) any { return s.arg == "true" }),
	"rerun":          edit(`{"metadata":{"annotations":{"`+v1alpha1.AnnotationRerunAt+`":%s}}}`, func(s step) any { return s.arg }),
	"lengthen":       edit(`{"spec":{"miniCluster":{"pod":{"annotations":{"`+lab.AskSeconds+`":%s}}}}}`, func(s step) any { return fmt.Sprint(s.n) }),
	"touch":          edit(`{"metadata":{"annotations":{"example.org/touched":%s}}}`, func(s step) any { return s.arg }),
	"cancel":         cancelRun,
	"place":          edit(`{"spec":{"placement":{"clusterSelector":{"matchLabels":%s}}}}`, zoneLabels),
	"move":           move,
	"drain":          func(ctx context.Context, f *fleet, s step) error { return f.drain(ctx, s.on, s.arg) },
	"label":          func(ctx context.Context, f *fleet, s step) error { return f.label(ctx, s.on, s.arg) },
	"retries":        edit(`{"spec":{"retries":%s}}`, func(s step) any { return s.n }),
	"history":        limitHistory,
	"ttl":            edit(`{"spec":{"ttlSecondsAfterFinished":%s}}`, orNull),
	"cleanup":        edit(`{"spec":{"miniCluster":{"cleanup":%s}}}`, func(s step) any { return s.arg == "true" }),
	"delete-job":     deleteJob,
	"edit-object":    editObject,
	"delete-object":  deleteObject,
	"end-pods":       endPods,
	"fill":           fill,
	"free":           free,
	"failover":       edit(`{"spec":{"placement":{"failover":%s}}}`, failoverAfter10),
	"patience":       edit(`{"spec":{"placement":{"pendingTimeout":%s}}}`, textOrNull),
	"count":          edit(`{"spec":{"placement":{"numberOfClusters":%s}}}`, orNull),
	"priority":       edit(`{"spec":{"priority":%s}}`, func(s step) any { return s.n }),
	"declare":        declare,
	"queue":          queue,
	"unready":        unready,
	"cordon":         cordon,
	"lose-node":      loseNode,
	"node":           func(ctx context.Context, f *fleet, s step) error { return f.restoreNode(ctx, s.on) },
	"unregister":     unregister,
	"register":       func(ctx context.Context, f *fleet, s step) error { return f.register(ctx, s.on) },
	"await":          awaitState,
	"expect":         expectState,
	"empty-status":   whileDown(emptyStatus),
	"unmark-job":     unmarkJob,
	"rebuild-hub":    rebuildHub,
	"back-up":        backUp,
	"restore-backup": restoreBackup,
	"recreate":       recreate,
	"edit-status":    editStatus,
}

var errNothing = errors.New("there is no such thing")

func pause(milliseconds int) { time.Sleep(time.Duration(milliseconds) * time.Millisecond) }

// killHub kills what runs of MiniFleet, and starts it again a moment later.
func killHub(ctx context.Context, f *fleet, s step) error {
	f.killHubs(s.shard)
	pause(s.n)
	return f.superviseHub(ctx)
}

// pauseHub keeps it from doing anything for a moment.
func pauseHub(_ context.Context, f *fleet, s step) error {
	all := f.running(s.shard)
	err := each(all, (*minifleet).Pause)
	pause(s.n)
	return errors.Join(err, each(all, (*minifleet).Resume))
}

// eachHub does something with all that run.
func eachHub(do func(*minifleet) error) func(context.Context, *fleet, step) error {
	return func(_ context.Context, f *fleet, s step) error { return each(f.running(s.shard), do) }
}

// succeedHub starts another beside it, which waits for the lease, and kills the first.
func succeedHub(ctx context.Context, f *fleet, s step) error {
	all := f.running(s.shard)
	_, err := f.startHubs(s.shard, true)
	pause(s.n)
	return errors.Join(err, each(all, (*minifleet).Kill), f.freeLeases(ctx, s.shard))
}

// deposeHub pauses it until another one leads, and lets it go on: it learns only then that it has lost the
// lease, and may still be in the middle of something.
func deposeHub(ctx context.Context, f *fleet, s step) error {
	all := f.running(s.shard)
	paused := each(all, (*minifleet).Pause)
	_, err := f.startHubs(s.shard, true)
	err = errors.Join(paused, err, f.freeLeases(ctx, s.shard))
	pause(s.n)
	return errors.Join(err, each(all, (*minifleet).Resume))
}

// secondHub lets two of them act at once for a while, without any election.
func secondHub(_ context.Context, f *fleet, s step) error {
	second, err := f.startHubs(s.shard, false)
	pause(s.n)
	return errors.Join(err, each(second, (*minifleet).Kill))
}

// killRival kills those that take no notice of others.
func killRival(_ context.Context, f *fleet, s step) error {
	var errs []error
	for _, p := range f.running(s.shard) {
		if p.rival {
			errs = append(errs, p.Kill())
		}
	}
	return errors.Join(errs...)
}

// cutHub cuts it off from the hub, and not from the members, until another one leads. What it knows is old.
func cutHub(ctx context.Context, f *fleet, s step) error {
	all := f.running(s.shard)
	cut := each(all, func(p *minifleet) error { return p.proxy.SetMode(lab.Hang) })
	_, err := f.startHubs(s.shard, true)
	err = errors.Join(cut, err, f.freeLeases(ctx, s.shard))
	pause(s.n)
	return errors.Join(err, each(all, func(p *minifleet) error { return p.proxy.SetMode(f.hubMode[p.shard]) }))
}

var modes = map[string]lab.ProxyMode{
	"refuse": lab.Refuse, "hang": lab.Hang, "slow": lab.Slow, "trickle": lab.Trickle, "drop": lab.DropReplies,
}

// troubles are those that do not concern all requests. What is stale, or deaf, has connections that are good
// and caches that grow old; what is deaf cannot be asked either.
var troubles = map[string]lab.Trouble{
	"stale": {StallWatches: true}, "deaf": {StallWatches: true, FailReads: true}, "deny": {FailWrites: true},
	"deny-jobs": {FailWrites: true, Only: "jobs"}, "deaf-jobs": {StallWatches: true, FailReads: true, Only: "jobs"},
	"rival": {StallWatches: true},
}

func breakCluster(_ context.Context, f *fleet, s step) error {
	if trouble, ok := troubles[s.arg]; ok {
		f.setTrouble(s.on, s.shard, trouble)
		if s.arg != "rival" {
			return nil
		}
		_, err := f.startHubs(s.shard, false) // beside the others, who learn of what it does with delay
		return err
	}
	if s.arg != "kill" {
		return f.setMode(s.on, s.shard, modes[s.arg])
	}
	f.starting.Wait()
	f.down[s.on] = true
	return f.lab.Cluster(s.on).KillAPIServer()
}

// changeCommand makes another digest.
func changeCommand(ctx context.Context, f *fleet, s step) error {
	body := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/miniCluster/containers/0/command","value":%q}]`, s.arg)
	obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: s.name}}
	return f.clients[hubName].Patch(ctx, obj, client.RawPatch(types.JSONPatchType, body))
}

// move changes where it runs and what, so that the next run is elsewhere while this one may be live.
func move(ctx context.Context, f *fleet, s step) error {
	place := edit(`{"spec":{"placement":{"clusterSelector":{"matchLabels":%s}}}}`, zoneLabels)
	if err := place(ctx, f, step{name: s.name, arg: s.on}); err != nil {
		return err
	}
	return changeCommand(ctx, f, s)
}

func zoneLabels(s step) any {
	if s.arg == "" {
		return nil
	}
	return map[string]string{"zone": s.arg}
}

func create(ctx context.Context, f *fleet, s step) error {
	has := func(trait string) bool { return slices.Contains(strings.Split(s.arg, ","), trait) }
	obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: s.name, Labels: labelled(s.shard)}}
	obj.Spec.Placement = &v1alpha1.PlacementSpec{}
	if has(traitOne) {
		obj.Spec.Placement.NumberOfClusters = ptr.To[int32](1)
	}
	if s.on != "" {
		obj.Spec.Placement.ClusterSelector.MatchLabels = map[string]string{"zone": s.on}
	}
	m := &obj.Spec.MiniCluster
	m.Size, m.BackoffLimit = 2, 1
	m.Containers = []fluxv1alpha2.MiniClusterContainer{{Name: s.name, Image: "example.org/app", Command: "work-0"}}
	m.Pod.Annotations = map[string]string{lab.AskSeconds: fmt.Sprint(s.n)}
	m.Pod.RestartPolicy = string(corev1.RestartPolicyNever)
	if has(traitElastic) {
		m.MaxSize = maxSize
	}
	if has(traitFails) {
		m.Pod.Annotations[lab.AskExitCode] = "1"
		obj.Spec.Retries = 1
	}
	if has(traitToken) {
		m.Containers[0].Secrets = map[string]fluxv1alpha2.Secret{"TOKEN": {Name: "token", Key: "token"}}
	}
	if has(traitBig) {
		m.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(bigCPU, resource.DecimalSI)}
	}
	if has(traitTidy) {
		m.Cleanup = true
	}
	if has(traitReplace) {
		obj.Spec.OnChange = v1alpha1.Replace
	}
	if has(traitHasty) {
		obj.Spec.DeletionDeadlineSeconds = ptr.To[int32](2)
	}
	return f.clients[hubName].Create(ctx, obj)
}

func deleteFMC(ctx context.Context, f *fleet, s step) error {
	return f.clients[hubName].Delete(ctx, &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: s.name}})
}

// edit patches a FleetMiniCluster; %s in the patch is a value.
func edit(patch string, value func(step) any) func(context.Context, *fleet, step) error {
	return func(ctx context.Context, f *fleet, s step) error { return f.patch(ctx, s.name, patch, value(s)) }
}

func (f *fleet) patch(ctx context.Context, name, patch string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	obj := &v1alpha1.FleetMiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}}
	return f.clients[hubName].Patch(ctx, obj, client.RawPatch(mergePatch, fmt.Appendf(nil, patch, body)))
}

func (f *fleet) get(ctx context.Context, name string) (*v1alpha1.FleetMiniCluster, error) {
	var obj v1alpha1.FleetMiniCluster
	return &obj, f.clients[hubName].Get(ctx, client.ObjectKey{Namespace: f.namespace, Name: name}, &obj)
}

// resize sets the size of what is elastic. Elsewhere that would be a change like any other.
func resize(ctx context.Context, f *fleet, s step) error {
	obj, err := f.get(ctx, s.name)
	if err != nil {
		return err
	}
	if obj.Spec.MiniCluster.MaxSize == 0 {
		return errNothing
	}
	return f.patch(ctx, s.name, `{"spec":{"miniCluster":{"size":%s}}}`, s.n)
}

// cancelRun cancels the latest run on a member, by adding it to those that were cancelled before.
func cancelRun(ctx context.Context, f *fleet, s step) error {
	obj, err := f.get(ctx, s.name)
	if err != nil {
		return err
	}
	for _, c := range obj.Status.Clusters {
		if c.Name == s.on && c.Run != "" {
			ids := strings.TrimPrefix(obj.Annotations[v1alpha1.AnnotationCancel]+","+c.Run, ",")
			return f.patch(ctx, s.name, `{"metadata":{"annotations":{"`+v1alpha1.AnnotationCancel+`":%s}}}`, ids)
		}
	}
	return errNothing
}

// orNull is the step's number, and null for -1.
func orNull(s step) any {
	if s.n < 0 {
		return nil
	}
	return s.n
}

func limitHistory(ctx context.Context, f *fleet, s step) error {
	field := map[string]string{"succeeded": "successfulRunsHistoryLimit", "failed": "failedRunsHistoryLimit"}[s.arg]
	return f.patch(ctx, s.name, `{"spec":{"`+field+`":%s}}`, orNull(s))
}

func deleteJob(ctx context.Context, f *fleet, s step) error {
	if taken[s.name] == s.on {
		return errNothing // it is the stranger's, who does not
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: s.name}}
	return f.clients[s.on].Delete(ctx, job, client.PropagationPolicy(metav1.DeletionPropagation(s.arg)))
}

// object finds one of the objects that a MiniCluster has beside its Job on a member.
func (f *fleet) object(ctx context.Context, s step) (client.Object, error) {
	ours := []client.ListOption{client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.LabelOwner: s.name}}
	var found []client.Object
	var err error
	switch c := f.clients[s.on]; s.arg {
	case "ConfigMap":
		var list corev1.ConfigMapList
		err = c.List(ctx, &list, ours...)
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	case "Secret":
		var list corev1.SecretList
		err = c.List(ctx, &list, ours...)
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	default:
		var list corev1.ServiceList
		err = c.List(ctx, &list, ours...)
		for i := range list.Items {
			found = append(found, &list.Items[i])
		}
	}
	found = slices.DeleteFunc(found, func(obj client.Object) bool {
		return f.isStranger(obj) || obj.GetLabels()[v1alpha1.LabelRecord] != "" // which no run needs
	})
	if err != nil || len(found) == 0 {
		return nil, errors.Join(err, errNothing)
	}
	return found[0], nil
}

func (f *fleet) isStranger(obj client.Object) bool {
	return slices.ContainsFunc(f.strangers, func(s stranger) bool { return s.object.GetUID() == obj.GetUID() })
}

func editObject(ctx context.Context, f *fleet, s step) error {
	obj, err := f.object(ctx, s)
	if err != nil {
		return err
	}
	switch obj := obj.(type) {
	case *corev1.ConfigMap:
		for k := range obj.Data {
			obj.Data[k] = edited
		}
	case *corev1.Secret:
		for k := range obj.Data {
			obj.Data[k] = []byte(edited)
		}
	case *corev1.Service:
		obj.Spec.Selector = map[string]string{"app": "another"}
	}
	f.edited = obj.GetUID()
	return f.clients[s.on].Update(ctx, obj)
}

func deleteObject(ctx context.Context, f *fleet, s step) error {
	obj, err := f.object(ctx, s)
	if err != nil {
		return err
	}
	return f.clients[s.on].Delete(ctx, obj)
}

// endPods makes the pods of a MiniCluster on a member end now, with an exit code.
func endPods(ctx context.Context, f *fleet, s step) error {
	var list corev1.PodList
	err := f.clients[s.on].List(ctx, &list, client.InNamespace(f.namespace), client.MatchingLabels{v1alpha1.LabelOwner: s.name})
	if err != nil || len(list.Items) == 0 {
		return errors.Join(err, errNothing)
	}
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0",%q:"%d"}}}`, lab.AskSeconds, lab.AskExitCode, s.n)
	var errs []error
	for i := range list.Items {
		errs = append(errs, f.clients[s.on].Patch(ctx, &list.Items[i], client.RawPatch(mergePatch, body)))
	}
	return errors.Join(errs...)
}

// endAllPods lets all pods that there are end as they would later.
func (f *fleet) endAllPods(ctx context.Context) {
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"0"}}}`, lab.AskSeconds)
	for _, member := range membersOf(f.shards) {
		var list corev1.PodList
		if f.clients[member].List(ctx, &list, client.InNamespace(f.namespace), client.HasLabels{v1alpha1.LabelOwner}) != nil {
			continue // it takes longer then, and no harm is done
		}
		for i := range list.Items {
			_ = f.clients[member].Patch(ctx, &list.Items[i], client.RawPatch(mergePatch, body)) // as above
		}
	}
}

// fill puts a pod of somebody else on a member's node that leaves too little room for a big one.
func fill(ctx context.Context, f *fleet, s step) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "filler"}}
	pod.Spec.NodeName = s.on + "-0"
	pod.Spec.Containers = []corev1.Container{{Name: "x", Image: "example.org/x"}}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(nodeCPU-bigCPU/2, resource.DecimalSI)}
	return f.clients[s.on].Create(ctx, pod)
}

// free removes what fill has put there.
func free(ctx context.Context, f *fleet, s step) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "filler"}}
	return f.clients[s.on].Delete(ctx, pod, client.GracePeriodSeconds(0))
}
