package gitsource

import (
	"cmp"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// maxToken bounds the token of a request in the status, in bytes.
const maxToken = 253

// requests remember which of its two annotations that ask to read the repository now was set last on each source.
type requests struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]request
}

// request is what one source asks for: the values of minifleet.dev/reconcile-at and of reconcile.fluxcd.io/requestedAt,
// and the one of them that was set last.
type request struct {
	uid       types.UID
	own, flux string
	latest    string
}

// latest is the annotation of a source that was set last, and its value; both are empty without a request.
func (r *requests) latest(source *v1alpha1.GitSource) (annotation, token string) {
	now := request{
		uid: source.UID, own: tokenOf(source, v1alpha1.AnnotationReconcileAt), flux: tokenOf(source, v1alpha1.AnnotationRequestedAt),
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(source)
	before, known := r.seen[key]
	if !known || before.uid != source.UID {
		before = request{latest: source.Status.LastHandledReconcileAt}
	}
	now.latest = latestOf(before, now.own, now.flux)
	if r.seen == nil {
		r.seen = map[types.NamespacedName]request{}
	}
	r.seen[key] = now
	if now.latest != now.own {
		return v1alpha1.AnnotationRequestedAt, now.latest
	}
	if now.latest == "" {
		return "", ""
	}
	return v1alpha1.AnnotationReconcileAt, now.latest
}

func (r *requests) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, key)
}

// latestOf is the one of two values that was set last: the one that has changed. Where both have, as when nothing was
// seen before, it is the one of the later time; where that is not known, the one that was not acted on yet.
func latestOf(before request, own, flux string) string {
	switch {
	case own == "" || flux == "" || own == flux:
		return cmp.Or(own, flux)
	case own == before.own && flux == before.flux:
		return before.latest
	case own == before.own:
		return flux
	case flux == before.flux:
		return own
	case v1alpha1.RequestedAfter(own, flux):
		return own
	case v1alpha1.RequestedAfter(flux, own):
		return flux
	case own == before.latest:
		return flux
	default:
		return own
	}
}

func tokenOf(source *v1alpha1.GitSource, annotation string) string {
	return sanitize.Text(source.Annotations[annotation], maxToken)
}
