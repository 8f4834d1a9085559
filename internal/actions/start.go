package actions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// maxIdempotencyKey is in bytes.
const maxIdempotencyKey = 255

// Start creates a FleetMiniCluster. Of want its name or generateName, namespace, labels, annotations and spec count.
//
// With an idempotency key, the same key and content again change nothing and return the object that there is; the same
// key with other content is a Conflict. That holds in one namespace for as long as the object exists. With a key and
// generateName the name is made from the key.
func Start(ctx context.Context, c client.Client, want *v1alpha1.FleetMiniCluster, idempotencyKey string, o Options) (MiniCluster, error) {
	f, err := toCreate(want, idempotencyKey)
	if err != nil {
		return MiniCluster{}, err
	}
	key := client.ObjectKeyFromObject(f)
	if idempotencyKey != "" {
		if other, err := startedAs(ctx, c, f); other != nil || err != nil {
			return again(f, other, err)
		}
	}
	options := []client.CreateOption{client.FieldOwner(FieldManager)}
	if o.DryRun {
		options = append(options, client.DryRunAll)
	}
	created := f.DeepCopy()
	err = c.Create(ctx, created, options...)
	if !apierrors.IsAlreadyExists(err) || f.Name == "" {
		if err != nil {
			return MiniCluster{}, typed(err, Describe(f, key))
		}
		return MiniCluster{Object: created, Changed: true}, nil
	}
	have := &v1alpha1.FleetMiniCluster{}
	if err := c.Get(ctx, key, have); err != nil {
		return MiniCluster{}, typed(err, Describe(f, key))
	}
	return again(f, have, nil)
}

// toCreate is what Start asks the API server to create.
func toCreate(want *v1alpha1.FleetMiniCluster, idempotencyKey string) (*v1alpha1.FleetMiniCluster, error) {
	f := &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: want.Name, GenerateName: want.GenerateName, Namespace: want.Namespace,
			Labels: maps.Clone(want.Labels), Annotations: maps.Clone(want.Annotations),
		},
		Spec: *want.Spec.DeepCopy(),
	}
	if len(idempotencyKey) > maxIdempotencyKey {
		return nil, &Error{Kind: Invalid, Field: "idempotency key", Message: fmt.Sprintf("has %d bytes", len(idempotencyKey)), Remedy: fmt.Sprintf("use at most %d", maxIdempotencyKey)}
	}
	if err := checkStart(f); err != nil {
		return nil, err
	}
	if idempotencyKey == "" {
		return f, nil
	}
	request, content := hash([]byte(idempotencyKey)), contentOf(f)
	if f.Name == "" {
		f.Name, f.GenerateName = f.GenerateName+request[:10], ""
	}
	if f.Labels == nil {
		f.Labels = map[string]string{}
	}
	f.Labels[v1alpha1.LabelRequest] = request[:32]
	annotate(f, v1alpha1.AnnotationRequestDigest, content)
	return f, nil
}

func checkStart(f *v1alpha1.FleetMiniCluster) error {
	object := Describe(f, client.ObjectKeyFromObject(f))
	name := f.Name
	if name == "" {
		name = f.GenerateName
	}
	if name == "" {
		return &Error{Kind: Invalid, Object: object, Field: "metadata.name", Message: "is missing", Remedy: "name it, or set metadata.generateName"}
	}
	for _, key := range []string{v1alpha1.LabelSource, v1alpha1.LabelRequest} {
		if _, set := f.Labels[key]; set {
			return &Error{Kind: Invalid, Object: object, Field: "metadata.labels[" + key + "]", Message: "is for MiniFleet to set", Remedy: "remove it"}
		}
	}
	for key := range f.Annotations {
		if strings.HasPrefix(key, sourceAnnotations) || key == v1alpha1.AnnotationRequestDigest {
			return &Error{Kind: Invalid, Object: object, Field: "metadata.annotations[" + key + "]", Message: "is for MiniFleet to set", Remedy: "remove it"}
		}
	}
	spec := f.Spec.MiniCluster.DeepCopy()
	spec.Default()
	errs := fluxv1alpha2.Validate(strings.TrimSuffix(name, "-"), spec, field.NewPath("spec", "miniCluster"))
	if len(errs) == 0 {
		return nil
	}
	return &Error{Kind: Invalid, Object: object, Field: errs[0].Field, Message: errs[0].ErrorBody(), Remedy: "correct it" + more(len(errs)-1)}
}

// sourceAnnotations begin the annotations that say where Git declares an object.
const sourceAnnotations = "minifleet.dev/source-"

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d more such problems)", n)
}

// startedAs finds what the key has started under another name. Whoever may create FleetMiniClusters and not list them
// is believed to use a key once.
func startedAs(ctx context.Context, c client.Client, f *v1alpha1.FleetMiniCluster) (*v1alpha1.FleetMiniCluster, error) {
	var list v1alpha1.FleetMiniClusterList
	err := c.List(ctx, &list, client.InNamespace(f.Namespace), client.MatchingLabels{v1alpha1.LabelRequest: f.Labels[v1alpha1.LabelRequest]})
	if apierrors.IsForbidden(err) || err == nil && len(list.Items) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &list.Items[0], nil
}

// again is the outcome where an object is there already.
func again(f, have *v1alpha1.FleetMiniCluster, err error) (MiniCluster, error) {
	if err != nil {
		return MiniCluster{}, typed(err, Describe(f, client.ObjectKeyFromObject(f)))
	}
	object := Describe(have, client.ObjectKeyFromObject(have))
	request := f.Labels[v1alpha1.LabelRequest]
	switch {
	case request == "" || have.Labels[v1alpha1.LabelRequest] != request:
		return MiniCluster{}, &Error{Kind: Conflict, Object: object, Field: "metadata.name", Message: "exists already", Remedy: "use another name, or delete it"}
	case have.Annotations[v1alpha1.AnnotationRequestDigest] != f.Annotations[v1alpha1.AnnotationRequestDigest]:
		return MiniCluster{}, &Error{Kind: Conflict, Object: object, Field: "idempotency key", Message: "has started something else before", Remedy: "use a new key for a new run"}
	}
	return MiniCluster{Object: have, Note: "it was started before with the same idempotency key"}, nil
}

// contentOf is a hash of what a person asks for.
func contentOf(f *v1alpha1.FleetMiniCluster) string {
	body, _ := json.Marshal(struct { // has no value that JSON lacks
		Name         string            `json:"name,omitempty"`
		GenerateName string            `json:"generateName,omitempty"`
		Labels       map[string]string `json:"labels,omitempty"`
		Annotations  map[string]string `json:"annotations,omitempty"`

		Spec v1alpha1.FleetMiniClusterSpec `json:"spec"`
	}{f.Name, f.GenerateName, f.Labels, f.Annotations, f.Spec})
	return hash(body)
}

func hash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
