package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/backup"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// What becomes of objects that the hub has, and that are not as in the file.
const (
	ExistingKeep    = "keep"
	ExistingReplace = "replace"
)

// writers is how many FleetMiniClusters are written at once.
const writers = 16

// Restore is one that is asked for.
type Restore struct {
	Hub client.Client
	// Namespace is that of the hub's controller.
	Namespace string
	// Existing is ExistingKeep, ExistingReplace, or empty to refuse a hub that has objects which are not as in the file.
	Existing string
	// Members are the names of those that were registered after the backup: they are waited for.
	Members []string
	DryRun  bool
	Ask     AskMember
	Now     func() time.Time
	// Program is how texts name the program.
	Program string
	// Tell prints a line about an object, Note something else. They are called from one goroutine at a time.
	Tell, Note func(format string, args ...any)
}

// file is what was read of a backup: all but FleetMiniClusters.
type file struct {
	header   backup.Header
	checksum string
	identity *unstructured.Unstructured
	objects  []*unstructured.Unstructured // in the order in which they are put back
	runs     int
}

// restoration is a Restore under way.
type restoration struct {
	*Restore
	file
	kinds    []schema.GroupVersionKind
	present  present
	sources  backup.Sources
	onHub    *unstructured.Unstructured // the identity as the hub has it, nil where it has none
	epoch    int64
	raised   bool
	resuming bool // an earlier restore of this file was interrupted
	counts   map[outcome]int
	renewed  time.Time // when the lease was, before anything was changed
}

// Run restores a file, which open opens anew each time, on a hub. It checks everything first: an error that it returns
// before the first write says that nothing was changed.
func (r *Restore) Run(ctx context.Context, open func() (io.ReadCloser, error)) error {
	s := &restoration{Restore: r, sources: backup.Sources{}, counts: map[outcome]int{}}
	if err := s.check(ctx, open); err != nil {
		return fmt.Errorf("%w (nothing was changed)", err)
	}
	if err := s.write(ctx, open); err != nil {
		return fmt.Errorf("%w; not all is restored, and no controller starts on this hub before it is: remove the cause and run the same command again", err)
	}
	s.sum(ctx)
	return nil
}

// check reads the file and the hub, and decides whether and as which epoch it is restored.
func (s *restoration) check(ctx context.Context, open func() (io.ReadCloser, error)) error {
	var err error
	if s.file, err = readFile(open); err != nil {
		return err
	}
	if s.header.ManagerNamespace != s.Namespace {
		return inputf("the backup is of a hub whose controller is in namespace %s, and not in %s: give --manager-namespace %s", s.header.ManagerNamespace, s.Namespace, s.header.ManagerNamespace)
	}
	if s.kinds, err = ownKinds(ctx, s.Hub); err != nil {
		return err
	}
	if err := s.refuseUnknownKinds(); err != nil {
		return err
	}
	if s.renewed, err = refuseController(ctx, s.Hub, s.Namespace, s.Now()); err != nil {
		return err
	}
	if err := s.checkIdentity(ctx); err != nil {
		return err
	}
	if s.present, err = readPresent(ctx, s.Hub, s.kinds); err != nil {
		return err
	}
	s.learnSources()
	changes, err := s.compare(open)
	if err != nil {
		return err
	}
	return s.chooseEpoch(ctx, changes)
}

func readFile(open func() (io.ReadCloser, error)) (file, error) {
	var f file
	in, err := open()
	if err != nil {
		return f, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	f.header, f.checksum, err = backup.Read(in, func(obj *unstructured.Unstructured) error {
		if err := refuseForeign(obj); err != nil {
			return err
		}
		switch {
		case obj.GetKind() == kindFleetMiniCluster:
			f.runs++
		case obj.GetKind() == configMapKind.Kind:
			if f.identity != nil {
				return inputf("the backup has more than one identity of a fleet")
			}
			f.identity = obj
		default:
			f.objects = append(f.objects, obj)
		}
		return nil
	})
	if errors.Is(err, backup.ErrDamaged) || errors.Is(err, backup.ErrUnknown) {
		return f, &InputError{err.Error()}
	}
	if err != nil {
		return f, err
	}
	if f.identity == nil || identityOf(f.identity).ID() == "" {
		return f, inputf("the backup has no identity of a fleet")
	}
	if err := f.refuseContradictions(); err != nil {
		return f, err
	}
	slices.SortStableFunc(f.objects, func(a, b *unstructured.Unstructured) int { return order(a) - order(b) })
	return f, nil
}

// refuseForeign refuses what no backup has: a file may come from elsewhere, its checksum says only that it is whole, and it is
// restored with the rights of an administrator.
func refuseForeign(obj *unstructured.Unstructured) error {
	why := ""
	switch kind := obj.GroupVersionKind(); {
	case kind.Group == v1alpha1.GroupVersion.Group, kind == namespaceKind:
	case kind == configMapKind && obj.GetName() == v1alpha1.FleetConfigMap:
	case kind == secretKind:
		if kindOf, _, _ := unstructured.NestedString(obj.Object, "type"); kindOf == string(corev1.SecretTypeServiceAccountToken) {
			why = "Kubernetes would make a token of a ServiceAccount for it"
		}
	case kind == roleBindingKind, kind == clusterRoleBindingKind:
		role, _, _ := unstructured.NestedString(obj.Object, "roleRef", "name")
		if !strings.HasPrefix(role, rolePrefix) {
			why = fmt.Sprintf("roleRef.name: %q is no role of MiniFleet", sanitize.Text(role, sanitize.MaxMessage))
		}
	default:
		why = "no backup has objects of this kind, or of this name"
	}
	if why == "" {
		return nil
	}
	return inputf("the file has %s, which `minifleet backup` does not write (%s): restore nothing of it unless you know who made it", sanitize.Text(about(obj), sanitize.MaxMessage), why)
}

// refuseContradictions refuses a file whose header is of another fleet than its identity, and Secrets that nothing in it needs.
func (f *file) refuseContradictions() error {
	if f.identity.GetNamespace() != f.header.ManagerNamespace || identityOf(f.identity).ID() != f.header.FleetID {
		return inputf("the backup says in its header that it is of fleet %q in namespace %q, and has the identity of another: it is not as `minifleet backup` has made it", f.header.FleetID, f.header.ManagerNamespace)
	}
	needed := map[client.ObjectKey]bool{}
	for _, obj := range f.objects {
		if obj.GroupVersionKind().Group == v1alpha1.GroupVersion.Group {
			for _, ref := range backup.SecretRefs(obj, f.header.ManagerNamespace) {
				needed[client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}] = true
			}
		}
	}
	for _, obj := range f.objects {
		if obj.GroupVersionKind() == secretKind && !needed[client.ObjectKeyFromObject(obj)] {
			return inputf("the file has %s, which no object in it needs: `minifleet backup` does not write such a Secret", sanitize.Text(about(obj), sanitize.MaxMessage))
		}
	}
	return nil
}

// order is that in which objects are put back.
func order(obj *unstructured.Unstructured) int {
	kinds := []string{namespaceKind.Kind, clusterRoleBindingKind.Kind, roleBindingKind.Kind, secretKind.Kind}
	if i := slices.Index(kinds, obj.GetKind()); i >= 0 {
		return i
	}
	return len(kinds) + rank(obj.GetKind())
}

func (s *restoration) refuseUnknownKinds() error {
	var unknown []string
	for _, obj := range s.objects {
		known := slices.ContainsFunc(s.kinds, func(k schema.GroupVersionKind) bool { return k == obj.GroupVersionKind() })
		if obj.GroupVersionKind().Group == v1alpha1.GroupVersion.Group && !known {
			unknown = append(unknown, obj.GroupVersionKind().String())
		}
	}
	slices.Sort(unknown)
	if unknown = slices.Compact(unknown); len(unknown) > 0 {
		return fmt.Errorf("the hub does not know %s, of which the backup has objects: install the version of MiniFleet that it was made with (%s), or a later one", strings.Join(unknown, ", "), s.header.Program)
	}
	return nil
}

// checkIdentity refuses a hub of another fleet.
func (s *restoration) checkIdentity(ctx context.Context) error {
	var err error
	s.onHub, err = read(ctx, s.Hub, configMapKind, client.ObjectKey{Namespace: s.Namespace, Name: v1alpha1.FleetConfigMap})
	if err != nil || s.onHub == nil {
		return err
	}
	here, kept := identityOf(s.onHub), identityOf(s.identity)
	if here.ID() != kept.ID() {
		return fmt.Errorf("the hub is of fleet %q, as ConfigMap %s/%s says, and the backup is of fleet %q: is it the right --context? If a controller was started on a new hub too early, and nothing has begun there, delete that ConfigMap",
			here.ID(), s.Namespace, v1alpha1.FleetConfigMap, kept.ID())
	}
	restoring := here[v1alpha1.FleetRestoringKey]
	if restoring != "" && restoring != s.checksum {
		return fmt.Errorf("the restore of another file, with checksum %s, was interrupted on this hub: finish that, or remove the key %s from the data of ConfigMap %s/%s to give it up",
			restoring, v1alpha1.FleetRestoringKey, s.Namespace, v1alpha1.FleetConfigMap)
	}
	s.resuming = restoring != ""
	return nil
}

// learnSources notes the UIDs of GitSources that the hub has, since what they have applied names them.
func (s *restoration) learnSources() {
	for _, obj := range s.objects {
		if uid := s.present.objects[about(obj)].uid; obj.GetKind() == kindGitSource && uid != "" {
			s.sources[obj.GetUID()] = types.UID(uid)
		}
	}
}

// compare says whether anything has to be changed, and refuses a hub whose objects may be newer.
func (s *restoration) compare(open func() (io.ReadCloser, error)) (changes bool, err error) {
	var differ, deleting []string
	one := func(kept *unstructured.Unstructured) error {
		switch s.decide(kept, backup.Prepare(kept, s.sources).Object) {
		case created:
			changes = true
		case replaced, differs:
			changes = true
			differ = append(differ, about(kept))
		case isDeleting:
			deleting = append(deleting, about(kept))
		}
		return nil
	}
	for _, obj := range s.objects {
		if obj.GroupVersionKind().Group == v1alpha1.GroupVersion.Group {
			_ = one(obj) // it returns none
		}
	}
	if !s.present.runs { // all of them are created
		changes = changes || s.runs > 0
	} else if err := s.eachRun(open, one); err != nil {
		return false, err
	}
	if len(deleting) > 0 {
		return false, fmt.Errorf("the hub is deleting %s: start its controller until that is done, or wait for it", some(deleting))
	}
	if len(differ) > 0 && s.Existing == "" && !s.resuming {
		return false, fmt.Errorf("the hub has %s, which are not as in the backup and may be newer: --existing keep restores only what is missing, --existing replace puts back what the backup has; members are asked what has run since in either case", some(differ))
	}
	return changes, nil
}

// eachRun reads the FleetMiniClusters of the file that was checked.
func (f *file) eachRun(open func() (io.ReadCloser, error), each func(*unstructured.Unstructured) error) error {
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	_, checksum, err := backup.Read(in, func(obj *unstructured.Unstructured) error {
		if obj.GetKind() != kindFleetMiniCluster {
			return nil
		}
		return each(obj)
	})
	if err == nil && checksum != f.checksum {
		return errors.New("the file has been changed while it was read")
	}
	return err
}

// chooseEpoch chooses one that is later than all that are known, unless this very file was restored and nobody has led the
// fleet since.
func (s *restoration) chooseEpoch(ctx context.Context, changes bool) error {
	kept, err := identityOf(s.identity).Epoch()
	if err != nil {
		return err
	}
	here := int64(0)
	if s.onHub != nil {
		identity := identityOf(s.onHub)
		if here, err = identity.Epoch(); err != nil {
			return err
		}
		same := s.resuming || identity[v1alpha1.FleetRestoredKey] == s.checksum && !changes
		if same && !identity.Led() {
			s.epoch = here
			return nil
		}
	}
	members, err := s.membersToAsk(ctx)
	if err != nil {
		return err
	}
	there, silent := latestEpoch(ctx, s.Ask, members, s.header.FleetID)
	for _, member := range silent {
		s.Note("member %s was not asked for its latest epoch: should that be later, it says Fenced, with the epoch to set, once the controller runs", member)
	}
	s.epoch, s.raised = max(kept, here, there)+1, true
	return nil
}

// membersToAsk are those of the file and of the hub, with their kubeconfigs from either.
func (s *restoration) membersToAsk(ctx context.Context) ([]asked, error) {
	secrets := map[string]*unstructured.Unstructured{}
	all := map[string]*unstructured.Unstructured{}
	for _, obj := range s.objects {
		switch {
		case obj.GetKind() == kindMemberCluster:
			all[obj.GetName()] = obj
		case obj.GetKind() == secretKind.Kind && obj.GetNamespace() == s.Namespace:
			secrets[obj.GetName()] = obj
		}
	}
	for _, kind := range s.kinds {
		if kind.Kind != kindMemberCluster {
			continue
		}
		if _, err := eachOf(ctx, s.Hub, kind, func(obj *unstructured.Unstructured) error {
			all[obj.GetName()] = obj
			return nil
		}); err != nil {
			return nil, err
		}
	}
	var out []asked
	for name, obj := range all {
		var member v1alpha1.MemberCluster
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &member); err != nil {
			return nil, fmt.Errorf("MemberCluster %s: %w", name, err)
		}
		ref := member.Spec.KubeconfigSecretRef.Name
		kubeconfig, err := s.kubeconfig(ctx, ref, secrets[ref])
		if err != nil {
			return nil, err
		}
		out = append(out, asked{name, member.Spec, kubeconfig})
	}
	slices.SortFunc(out, func(a, b asked) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// kubeconfig is that of the hub, else that of the file; empty where there is none.
func (s *restoration) kubeconfig(ctx context.Context, name string, kept *unstructured.Unstructured) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	secret, err := read(ctx, s.Hub, secretKind, client.ObjectKey{Namespace: s.Namespace, Name: name})
	if err != nil {
		return nil, err
	}
	if secret == nil {
		secret = kept
	}
	if secret == nil {
		return nil, nil
	}
	return secretValue(secret, v1alpha1.KubeconfigKey), nil
}

// write puts everything back. The identity is first, so that no controller starts before all is there, and says so last.
func (s *restoration) write(ctx context.Context, open func() (io.ReadCloser, error)) error {
	for i, obj := range s.objects {
		if obj.GetKind() != namespaceKind.Kind {
			continue
		}
		if err := s.put(ctx, s.objects[i]); err != nil {
			return err
		}
	}
	if err := s.writeIdentity(ctx, v1alpha1.FleetRestoringKey); err != nil {
		return err
	}
	// One that has read the identity before has the lease by now, or finds none of what it would start.
	if err := s.refuseSince(ctx); err != nil {
		return err
	}
	for _, obj := range s.objects {
		if obj.GetKind() == namespaceKind.Kind {
			continue
		}
		if err := s.put(ctx, obj); err != nil {
			return err
		}
	}
	if err := s.writeRuns(ctx, open); err != nil {
		return err
	}
	if err := s.refuseSince(ctx); err != nil {
		return err
	}
	return s.writeIdentity(ctx, v1alpha1.FleetRestoredKey)
}

// refuseSince returns an error where a controller runs now. One that renews its lease runs, although that has ended by the clock
// of this machine.
func (s *restoration) refuseSince(ctx context.Context) error {
	renewed, err := refuseController(ctx, s.Hub, s.Namespace, s.Now())
	if err == nil && renewed.After(s.renewed) {
		err = fmt.Errorf("a controller is active on the hub: it has renewed its Lease in namespace %s meanwhile, which has ended by the clock of this machine; stop it, and set the clock", s.Namespace)
	}
	return err
}

// writeRuns puts FleetMiniClusters back, several at once.
func (s *restoration) writeRuns(ctx context.Context, open func() (io.ReadCloser, error)) error {
	group, ctx := errgroup.WithContext(ctx)
	told := make(chan putBack, writers)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for p := range told {
			s.told(p)
		}
	}()
	group.SetLimit(writers)
	readErr := s.eachRun(open, func(kept *unstructured.Unstructured) error {
		if ctx.Err() != nil {
			return ctx.Err() // what has failed is told below
		}
		group.Go(func() error {
			p, err := s.putBack(ctx, kept)
			if err == nil {
				told <- p
			}
			return err
		})
		return nil
	})
	err := group.Wait()
	close(told)
	<-done
	return cmp.Or(err, readErr)
}

// writeIdentity writes the identity with the epoch, and with the checksum of the file under a key.
func (s *restoration) writeIdentity(ctx context.Context, key string) error {
	if s.DryRun {
		if key == v1alpha1.FleetRestoringKey {
			s.Tell("%s: %s", about(s.identity), s.epochText())
		}
		return nil
	}
	now, err := read(ctx, s.Hub, configMapKind, client.ObjectKeyFromObject(s.identity))
	if err != nil {
		return err
	}
	missing := now == nil
	if !missing && identityOf(now).ID() != identityOf(s.identity).ID() {
		return fmt.Errorf("%s has become that of fleet %q meanwhile: a controller was started on this hub; stop it", about(s.identity), identityOf(now).ID())
	}
	if missing {
		now = backup.Prepare(s.identity, nil).Object
		now.SetFinalizers(nil)
		unstructured.RemoveNestedField(now.Object, "data")
	}
	data := backup.Next(identityOf(s.identity), identityOf(now), s.epoch, s.memberNames())
	delete(data, v1alpha1.FleetRestoringKey)
	delete(data, v1alpha1.FleetRestoredKey)
	data[key] = s.checksum
	labels := now.GetLabels()
	delete(labels, v1alpha1.LabelVeleroRestore) // which asks for the epoch to be raised
	now.SetLabels(labels)
	if err := unstructured.SetNestedStringMap(now.Object, data, "data"); err != nil {
		return err
	}
	if missing {
		err = s.Hub.Create(ctx, now)
	} else {
		err = s.Hub.Update(ctx, now)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", about(s.identity), err)
	}
	if key == v1alpha1.FleetRestoringKey {
		s.Tell("%s: %s", about(s.identity), s.epochText())
	}
	return nil
}

func (s *restoration) epochText() string {
	epoch := strconv.FormatInt(s.epoch, 10)
	if s.raised {
		return "epoch raised to " + epoch
	}
	return "epoch stays " + epoch + ", since nobody has led the fleet since this backup was restored"
}

// memberNames are the members that are registered in the file, and those that a person names.
func (s *restoration) memberNames() []string {
	out := slices.Clone(s.Members)
	for _, obj := range s.objects {
		if obj.GetKind() == kindMemberCluster {
			out = append(out, obj.GetName())
		}
	}
	return out
}

// sum tells what was done, and what is to be done next.
func (s *restoration) sum(ctx context.Context) {
	var parts []string
	for _, o := range []outcome{created, replaced, unchanged, keptHubs, isDeleting} {
		if n := s.counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if s.DryRun {
		s.Note("dry run, nothing was done; objects: %s", strings.Join(parts, ", "))
		return
	}
	s.Note("restored the backup of %s in epoch %d; objects: %s", s.header.Created, s.epoch, strings.Join(parts, ", "))
	for _, secret := range s.missingSecrets(ctx) {
		s.Note("still missing: %s: create it before the controller is started", secret)
	}
	s.Note("next: make sure that no other controller of this fleet runs, and start the one of this hub; then `%s cluster list` says which members are asked, and `%s get -A` what runs", s.Program, s.Program)
}

// missingSecrets are those that the objects of the file need, and that neither the file nor the hub has.
func (s *restoration) missingSecrets(ctx context.Context) []string {
	var out []string
	for _, obj := range s.objects {
		if obj.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
			continue
		}
		for _, ref := range backup.SecretRefs(obj, s.Namespace) {
			key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
			if secret, err := read(ctx, s.Hub, secretKind, key); err == nil && secret == nil {
				out = append(out, fmt.Sprintf("Secret %s, for %s", nameOf(key), ref.For))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
