package copies

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/internal/fleet"
)

var user = fleet.Origin{FleetID: "hub", Owner: "hpc/lammps", OwnerUID: "1"}

func hubSecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "hpc", Name: "s", UID: "original", ResourceVersion: "7",
			Labels:      map[string]string{v1alpha1.LabelPropagate: "true"},
			Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "hunter2"},
		},
		Type: "x/y", Data: map[string][]byte{"k": []byte("hunter2")}, Immutable: ptr.To(true),
	}
}

func TestCopyHoldsContentAlone(t *testing.T) {
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "site", Name: "s",
			Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelCopy: "true"},
			Annotations: map[string]string{
				"minifleet.dev/fleet-id": "hub", "minifleet.dev/copy-of": "hpc/s", "minifleet.dev/copy-of-uid": "original",
				"minifleet.dev/copy-of-version": "7", "user.minifleet.dev/1": "hpc/lammps",
			},
		},
		Type: "x/y", Data: map[string][]byte{"k": []byte("hunter2")}, Immutable: ptr.To(true),
	}
	got := copyOf(hubSecret(), "site", user)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]fleet.Origin{user}, Users(got)); diff != "" {
		t.Errorf("users: -want +got:\n%s", diff)
	}
	if user.Owns(got) {
		t.Error("a copy is taken for an object of a run, and would be deleted with the first that ends")
	}
}

func TestIsCopy(t *testing.T) {
	tests := map[string]struct {
		member string // its UID
		change func(*corev1.Secret)
		want   bool
	}{
		"a copy":                     {want: true},
		"its labels were taken off":  {change: func(s *corev1.Secret) { s.Labels = nil }, want: true},
		"a stranger's":               {change: func(s *corev1.Secret) { s.Annotations = nil }},
		"another hub's":              {change: func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationFleetID] = "other" }},
		"part of a run":              {change: func(s *corev1.Secret) { delete(s.Annotations, v1alpha1.AnnotationCopyOf) }},
		"the original, by its UID":   {change: func(s *corev1.Secret) { s.UID = "original" }},
		"the original, by its place": {member: "hub", change: func(s *corev1.Secret) { s.Namespace = "hpc" }},
		"elsewhere on the hub":       {member: "hub", want: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			have := copyOf(hubSecret(), "site", user).(*corev1.Secret)
			have.UID = "copy"
			if test.change != nil {
				test.change(have)
			}
			m := &clusters.Member{UID: test.member}
			if got := isCopy(m, have, "hub"); got != test.want {
				t.Errorf("got %t", got)
			}
			if isCopyOf(m, have, hubSecret(), "hub") != test.want {
				t.Error("isCopyOf differs")
			}
		})
	}
	other := hubSecret()
	other.Namespace = "other"
	if isCopyOf(&clusters.Member{}, copyOf(other, "site", user), hubSecret(), "hub") {
		t.Error("the copy of another namespace's Secret is taken for ours")
	}
}

func TestOnlyUsersChanged(t *testing.T) {
	tests := map[string]struct {
		change func(*corev1.Secret)
		want   bool
	}{
		"nothing":         {func(*corev1.Secret) {}, true},
		"a user more":     {func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationUserPrefix+"2"] = "hpc/x" }, true},
		"no user":         {func(s *corev1.Secret) { delete(s.Annotations, v1alpha1.AnnotationUserPrefix+"1") }, false},
		"content":         {func(s *corev1.Secret) { s.Data = nil }, false},
		"its label":       {func(s *corev1.Secret) { delete(s.Labels, v1alpha1.LabelCopy) }, false},
		"its origin":      {func(s *corev1.Secret) { s.Annotations[v1alpha1.AnnotationCopyOf] = "x/y" }, false},
		"not a copy more": {func(s *corev1.Secret) { s.Annotations = nil }, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := copyOf(hubSecret(), "site", user), copyOf(hubSecret(), "site", user)
			test.change(after.(*corev1.Secret))
			if got := OnlyUsersChanged(before, after); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if OnlyUsersChanged(&corev1.Service{}, &corev1.Service{}) {
		t.Error("any object is taken for a copy")
	}
}

func TestRedact(t *testing.T) {
	quoting := func(message string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New(message))
	}
	coded := base64.StdEncoding.EncodeToString([]byte("hunter2"))
	for _, message := range []string{"no: hunter2", "no: " + coded} {
		if got := redact(quoting(message), hubSecret()).Error(); strings.Contains(got, "hunter2") || strings.Contains(got, coded) || !strings.Contains(got, "Forbidden") {
			t.Errorf("got %q", got)
		}
	}
	if got := redact(quoting("exceeded quota"), hubSecret()).Error(); !strings.Contains(got, "exceeded quota") {
		t.Errorf("the member's message is lost: %q", got)
	}
	if redact(nil, hubSecret()) != nil {
		t.Error("made an error")
	}
}

func TestLostRace(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	kind := schema.GroupKind{Kind: "Secret"}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"none":                 {nil, false},
		"conflict":             {apierrors.NewConflict(secrets, "s", errors.New("x")), true},
		"exists":               {apierrors.NewAlreadyExists(secrets, "s"), true},
		"deleted":              {apierrors.NewNotFound(secrets, "s"), true},
		"no namespace":         {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), false},
		"another of this name": {apierrors.NewInvalid(kind, "s", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "x", "immutable")}), true},
		"refused":              {apierrors.NewInvalid(kind, "s", field.ErrorList{field.Invalid(field.NewPath("data"), "x", "too long")}), false},
		"no answer":            {errors.New("x"), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := lostRace(test.err); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
