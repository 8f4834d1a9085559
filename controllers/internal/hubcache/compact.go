package hubcache

import (
	"reflect"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// What texts are shared: so many that came lately, and none that are longer. The fleet has fewer names, states and reasons; what
// is long is rarely said twice, and is not to be held when its object is no more.
const (
	maxTexts  = 10000
	maxLength = 256
)

// Compact returns a transform for a cache. Managed fields are dropped. FleetMiniClusters say the same in less memory: what many of
// them say, in each of their ledger lines, is there once, and lists have no room for more, of which decoders leave up to as much
// again. It changes objects in place, so they must not be in use yet, which a cache promises to a transform.
func Compact() toolscache.TransformFunc {
	strip, shared := cache.TransformStripManagedFields(), &texts{}
	return func(obj any) (any, error) {
		obj, err := strip(obj)
		if f, is := obj.(*v1alpha1.FleetMiniCluster); is {
			shared.compact(f)
		}
		return obj, err
	}
}

// texts are those that came lately, each once.
type texts struct {
	mu   sync.Mutex
	held map[string]string
}

func (t *texts) compact(f *v1alpha1.FleetMiniCluster) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.walk(reflect.ValueOf(f).Elem())
}

// walk compacts a value and what it is made of. What a type keeps to itself, as a time does, stays as it is.
func (t *texts) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(t.shared(v.String()))
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				t.walk(field)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			t.walk(v.Elem())
		}
	case reflect.Slice:
		if v.Len() < v.Cap() {
			fitted := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(fitted, v)
			v.Set(fitted)
		}
		for i := range v.Len() {
			t.walk(v.Index(i))
		}
	case reflect.Map:
		if !v.IsNil() {
			t.walkMap(v)
		}
	default: // has no texts
	}
}

// walkMap replaces a map, since what is in it cannot be changed where it is.
func (t *texts) walkMap(v reflect.Value) {
	out := reflect.MakeMapWithSize(v.Type(), v.Len())
	for entries := v.MapRange(); entries.Next(); {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.Set(entries.Key())
		value.Set(entries.Value())
		t.walk(key)
		t.walk(value)
		out.SetMapIndex(key, value)
	}
	v.Set(out)
}

// shared is the text that is held and says the same; this one from now on where there is none.
func (t *texts) shared(text string) string {
	if len(text) > maxLength {
		return text
	}
	if held, ok := t.held[text]; ok {
		return held
	}
	if t.held == nil || len(t.held) == maxTexts {
		t.held = map[string]string{} // what goes on to come is held again from here on
	}
	t.held[text] = text
	return text
}
