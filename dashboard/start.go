package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/dashboard/store"
	"github.com/minifleet/minifleet/internal/actions"
	"github.com/minifleet/minifleet/internal/sanitize"
)

// shownWithin is how long an answer waits until what was created can be read here, too.
const shownWithin = time.Second

// start does not ask whether the person may see the namespace: one without objects is seen by nobody, and what the API
// server says to who may not create there is the same where there is no such namespace.
func (s *Server) start(ctx context.Context, w *writer, in *startRequest) (*startResponse, error) {
	f, err := in.Body.object()
	if err != nil {
		return nil, err
	}
	out, err := actions.Start(ctx, w.hub, f, in.IdempotencyKey, actions.Options{DryRun: in.DryRun})
	if own := actions.AsError(err); own != nil && own.Kind == actions.NotFound {
		return nil, invalidRequest(fmt.Sprintf("namespace %s is not there: create it, or choose another", f.Namespace),
			&huma.ErrorDetail{Location: "body.namespace", Message: "is not there"})
	}
	if err != nil {
		return nil, s.refusal(err, inStart)
	}
	created := out.Object
	at := "/miniclusters/" + created.Namespace + "/" + created.Name
	res := &startResponse{Status: http.StatusOK, Body: Started{
		Namespace: created.Namespace, Name: created.Name, UID: string(created.UID), URL: "/api/v1" + at, Page: at,
		Created: out.Changed, DryRun: in.DryRun, Message: sentence(out.Note),
	}}
	if out.Changed {
		f.Name = created.Name
		effect, _ := actions.EffectStart(f) // Start has checked it
		res.Body.Message = sentence(effect)
	}
	switch {
	case in.DryRun:
		res.Body.UID = ""
	case out.Changed:
		res.Status, res.Location = http.StatusCreated, res.Body.URL
		s.awaitShown(ctx, store.Key{Namespace: created.Namespace, Name: created.Name})
	}
	return res, nil
}

// awaitShown waits until a FleetMiniCluster can be read here: whoever has created it follows it at once.
func (s *Server) awaitShown(ctx context.Context, key store.Key) {
	ctx, cancel := context.WithTimeout(ctx, shownWithin)
	defer cancel()
	for {
		cursor := s.store.Cursor()
		if s.store.MiniCluster(key) != nil {
			return
		}
		select {
		case <-s.store.Changed(cursor):
		case <-ctx.Done():
			return
		}
	}
}

// object is the FleetMiniCluster that is asked for. Fields that are not known are refused.
func (in *Start) object() (*v1alpha1.FleetMiniCluster, error) {
	f := &v1alpha1.FleetMiniCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: in.Name, GenerateName: in.GenerateName, Labels: in.Labels},
		Spec:       v1alpha1.FleetMiniClusterSpec{Priority: in.Priority, Retries: in.Retries, TTLSecondsAfterFinished: in.TTLSecondsAfterFinished},
	}
	wrong := in.check()
	wrong = append(wrong, strictly("body.miniCluster", in.MiniCluster, &f.Spec.MiniCluster)...)
	if in.PlacementRef != "" {
		f.Spec.PlacementRef = &v1alpha1.LocalReference{Name: in.PlacementRef}
	}
	if in.Placement != nil {
		f.Spec.Placement = &v1alpha1.PlacementSpec{}
		wrong = append(wrong, strictly("body.placement", in.Placement, f.Spec.Placement)...)
	}
	if len(wrong) == 0 {
		return f, nil
	}
	first := wrong[0]
	details := make([]error, len(wrong))
	for i, w := range wrong {
		details[i] = w
	}
	object := "FleetMiniCluster " + in.Namespace + "/" + in.Name + in.GenerateName
	return nil, invalidRequest(sanitize.Text(fmt.Sprintf("%s: %s: %s", object, first.Location, first.Message), maxDetail), details...)
}

// check is what is wrong with the request itself, beside its two specs.
func (in *Start) check() (wrong []*huma.ErrorDetail) {
	say := func(location, message string) {
		wrong = append(wrong, &huma.ErrorDetail{Location: location, Message: message})
	}
	if len(validation.IsDNS1123Label(in.Namespace)) > 0 {
		say("body.namespace", "is no name of a namespace: use small letters, digits and hyphens")
	}
	switch {
	case in.Name == "" && in.GenerateName == "":
		say("body.name", "is missing: name it, or set generateName")
	case in.Name != "" && in.GenerateName != "":
		say("body.generateName", "is set beside name: remove one of them")
	}
	if (in.PlacementRef == "") == (in.Placement == nil) {
		say("body.placementRef", "set exactly one of placement and placementRef")
	}
	for _, field := range []string{"size", "deadlineSeconds"} {
		// Decoded, 0 is like nothing, and would get the default.
		if number, ok := in.MiniCluster[field].(float64); ok && number == 0 {
			say("body.miniCluster."+field, "must not be 0: remove it, or use a larger number")
		}
	}
	return wrong
}

// strictly decodes values into a type of the API, and says which fields it does not have.
func strictly(at string, values map[string]any, into any) (wrong []*huma.ErrorDetail) {
	data, err := json.Marshal(values)
	if err != nil {
		return []*huma.ErrorDetail{{Location: at, Message: "cannot be read"}}
	}
	unknown, err := kjson.UnmarshalStrict(data, into, kjson.DisallowUnknownFields)
	for _, u := range unknown {
		location := at
		var field kjson.FieldError
		if errors.As(u, &field) {
			location += "." + sanitize.Text(field.FieldPath(), maxDetail)
		}
		wrong = append(wrong, &huma.ErrorDetail{Location: location, Message: "there is no such field: correct its name, or remove it"})
	}
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		location := strings.TrimSuffix(at+"."+kind.Field, ".")
		wrong = append(wrong, &huma.ErrorDetail{Location: location, Message: fmt.Sprintf("must be %s, and is a %s: correct its value", inJSON(kind.Type.Kind()), kind.Value)})
	case err != nil:
		wrong = append(wrong, &huma.ErrorDetail{Location: at, Message: sanitize.Text(strings.TrimPrefix(err.Error(), "json: "), maxDetail)})
	}
	return wrong
}

// inJSON is what a kind of Go is called in JSON.
func inJSON(kind reflect.Kind) string {
	switch kind {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.String:
		return "a string"
	}
	return "an object"
}

// inStart is where in the body of start a field of the object comes from.
func inStart(field string) string {
	for _, of := range []string{"metadata.", "spec."} {
		if rest, ok := strings.CutPrefix(field, of); ok {
			return "body." + strings.Replace(rest, "placementRef.name", "placementRef", 1)
		}
	}
	switch field {
	case "spec", "":
		return "body"
	case "idempotency key":
		return "header.Idempotency-Key"
	}
	return field
}

// tokenOf is the token of the request with an Idempotency-Key, which may have any characters.
func tokenOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "key-" + hex.EncodeToString(sum[:10])
}
