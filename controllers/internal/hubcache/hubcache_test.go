package hubcache

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newHub answers lists of ConfigMaps as they are now at once, and all else never. asked is told of each path.
func newHub(t *testing.T) (hub *httptest.Server, asked chan string) {
	t.Helper()
	asked = make(chan string, 100)
	hub = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		switch query := r.URL.Query(); {
		case query.Get("watch") == "" && query.Get("resourceVersion") == "" && strings.HasSuffix(r.URL.Path, "/configmaps"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"namespace":"hpc","name":"a","labels":{"team":"green"}}}]}`)
		default:
			<-r.Context().Done()
		}
	}))
	t.Cleanup(hub.Close)
	return hub, asked
}

func newCache(t *testing.T, hub *httptest.Server) cache.Cache {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	for _, kind := range []string{"ConfigMap", "Secret"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	cfg := &rest.Config{Host: hub.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	c, err := New(cfg, cache.Options{HTTPClient: hub.Client(), Scheme: clientgoscheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A kind that cannot be read keeps nobody waiting but those who have asked for it, and all are asked for when the cache starts.
func TestPrimedKindsAreReadAndNotWaitedFor(t *testing.T) {
	hub, asked := newHub(t)
	c := newCache(t, hub)
	if err := Prime(t.Context(), c, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Node{}); err != nil {
		t.Fatal(err) // the mapper does not know nodes
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("not filled")
	}
	seen := map[string]bool{}
	for len(seen) < 2 {
		seen[<-asked] = true
	}
	informer, err := c.GetInformer(ctx, &corev1.ConfigMap{})
	if err != nil || !informer.HasSynced() || !c.WaitForCacheSync(ctx) {
		t.Errorf("ConfigMaps were not read: %v", err)
	}
	soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if Filled(soon, c) {
		t.Error("filled, though Secrets cannot be read")
	}
	told := make(chan string, 1)
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) {
		told <- obj.(client.Object).GetName()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) || <-told != "a" {
		t.Error("the handler is not told of what there is")
	}
	if err := informer.RemoveEventHandler(registration); err != nil {
		t.Error(err)
	}
	if _, err := c.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false)); err != nil {
		t.Error(err)
	}
	stop()
	if c.WaitForCacheSync(ctx) {
		t.Error("Secrets, which were asked for, are not waited for")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Somebody is told of what is added before a handler is, and whether it was there before, though the handler is not.
func TestBeforeAdd(t *testing.T) {
	hub, _ := newHub(t)
	c := newCache(t, hub)
	var told []string
	if err := BeforeAdd(c, &corev1.ConfigMap{}, func(obj any, isInInitialList bool) {
		if o, is := obj.(*corev1.ConfigMap); is {
			told = append(told, o.Name+" "+strconv.FormatBool(isInInitialList))
		}
	}); err != nil {
		t.Fatal(err)
	}
	informer, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	handled := make(chan []string)
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { handled <- told }}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = c.Start(ctx) }()
	if got := <-handled; len(got) != 1 || got[0] != "a true" {
		t.Errorf("told of %q when the handler is", got)
	}
}

// What a Lister lists are the objects of the cache themselves.
func TestLister(t *testing.T) {
	hub, _ := newHub(t)
	c := newCache(t, hub)
	lister, err := NewLister(t.Context(), c, &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Start(t.Context()) }()
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("not filled")
	}
	first, second := lister.List(), lister.List()
	if len(first) != 1 || first[0].Name != "a" || first[0] != second[0] {
		t.Errorf("%v and %v", first, second)
	}
}

// Nobody waits for a kind before it is searched first, and then whoever searches it does.
func TestLabelled(t *testing.T) {
	hub, _ := newHub(t)
	c := newCache(t, hub)
	labelled := NewLabelled(c, &corev1.ConfigMap{}, "team")
	go func() { _ = c.Start(t.Context()) }()
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("something is waited for")
	}
	for at, want := range map[[2]string]int{{"hpc", "green"}: 1, {"hpc", "red"}: 0, {"hpc", ""}: 0, {"other", "green"}: 0} {
		some, err := labelled.List(t.Context(), at[0], at[1])
		if err != nil || len(some) != want {
			t.Errorf("%v with %q in %s, %v", some, at[1], at[0], err)
		}
	}
	for key, want := range map[types.NamespacedName]bool{{Namespace: "hpc", Name: "a"}: true, {Namespace: "hpc", Name: "b"}: false, {Namespace: "other", Name: "a"}: false} {
		obj, found, err := labelled.Get(t.Context(), key)
		if err != nil || found != want || found && obj.Name != key.Name {
			t.Errorf("%s: %t, %v, %v", key, found, obj, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	secrets := NewLabelled(c, &corev1.Secret{}, "team")
	if _, err := secrets.List(ended, "hpc", "green"); err == nil {
		t.Error("Secrets, which cannot be read, are listed")
	}
	if _, _, err := secrets.Get(ended, types.NamespacedName{Namespace: "hpc", Name: "a"}); err == nil {
		t.Error("Secrets, which cannot be read, are found")
	}
}
