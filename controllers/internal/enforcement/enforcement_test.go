package enforcement_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/minifleet/minifleet/config/policy"
	"github.com/minifleet/minifleet/controllers/internal/enforcement"
)

// installed is the policy and its binding as an API server has them.
func installed(t *testing.T, name string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	var p admissionregistrationv1.ValidatingAdmissionPolicy
	var b admissionregistrationv1.ValidatingAdmissionPolicyBinding
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(policy.GitSourceAllow)), 4096)
	if err := errors.Join(documents.Decode(&p), documents.Decode(&b)); err != nil {
		t.Fatal(err)
	}
	p.Name, b.Name, b.Spec.PolicyName = name, name, name
	constraints := p.Spec.MatchConstraints
	constraints.MatchPolicy = ptr.To(admissionregistrationv1.Equivalent)
	constraints.NamespaceSelector, constraints.ObjectSelector = &metav1.LabelSelector{}, &metav1.LabelSelector{}
	for i := range constraints.ResourceRules {
		constraints.ResourceRules[i].Scope = ptr.To(admissionregistrationv1.AllScopes)
	}
	return &p, &b
}

func TestMissing(t *testing.T) {
	type (
		Policy  = admissionregistrationv1.ValidatingAdmissionPolicy
		Binding = admissionregistrationv1.ValidatingAdmissionPolicyBinding
	)
	some := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	cases := map[string]struct {
		name            string
		without         string // Policy or Binding
		policy          func(*Policy)
		binding         func(*Binding)
		waived          bool
		want, wantField string
	}{
		"by config/default":                 {name: "minifleet-gitsource-allow"},
		"by config/policy":                  {name: "gitsource-allow"},
		"by another name":                   {name: "mine", want: "has no ValidatingAdmissionPolicy minifleet-gitsource-allow"},
		"not at all, and that is so wanted": {name: "mine", waived: true},
		"without its binding":               {name: "gitsource-allow", without: "Binding", want: "has no ValidatingAdmissionPolicyBinding"},
		"the binding alone":                 {name: "gitsource-allow", without: "Policy", want: "has no ValidatingAdmissionPolicy "},
		"it warns": {name: "gitsource-allow", binding: func(b *Binding) {
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		}, want: "does not deny"},
		"it denies and audits": {name: "gitsource-allow", binding: func(b *Binding) {
			b.Spec.ValidationActions = append(b.Spec.ValidationActions, admissionregistrationv1.Audit)
		}},
		"bound to another": {name: "gitsource-allow", binding: func(b *Binding) { b.Spec.PolicyName = "other" }, want: "spec.policyName"},
		"bound to some namespaces": {name: "gitsource-allow", binding: func(b *Binding) {
			b.Spec.MatchResources = &admissionregistrationv1.MatchResources{NamespaceSelector: some}
		}, want: "spec.matchResources"},
		"it fails open":      {name: "gitsource-allow", policy: func(p *Policy) { p.Spec.FailurePolicy = ptr.To(admissionregistrationv1.Ignore) }, want: "spec.failurePolicy"},
		"for some objects":   {name: "gitsource-allow", policy: func(p *Policy) { p.Spec.MatchConstraints.ObjectSelector = some }, want: "spec.matchConstraints"},
		"not for the status": {name: "gitsource-allow", policy: func(p *Policy) { p.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"gitsources"} }, want: "spec.matchConstraints"},
		"for some names":     {name: "gitsource-allow", policy: func(p *Policy) { p.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"fleet"} }, want: "spec.matchConstraints"},
		"for what has no namespace": {name: "gitsource-allow", policy: func(p *Policy) {
			p.Spec.MatchConstraints.ResourceRules[0].Scope = ptr.To(admissionregistrationv1.ClusterScope)
		}, want: "spec.matchConstraints"},
		"on some conditions": {name: "gitsource-allow", policy: func(p *Policy) {
			p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "never", Expression: "false"}}
		}, want: "spec.matchConditions"},
		"of an earlier version":  {name: "gitsource-allow", policy: func(p *Policy) { p.Spec.Variables[2].Expression = "['allow', 'secretRef']" }, want: "spec.variables"},
		"with a validation less": {name: "gitsource-allow", policy: func(p *Policy) { p.Spec.Validations = p.Spec.Validations[:1] }, want: "spec.validations"},
		"with a validation more": {name: "gitsource-allow", policy: func(p *Policy) {
			p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{Expression: "object.spec.url.startsWith('https://git.example.org/')"})
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, b := installed(t, c.name)
			if c.policy != nil {
				c.policy(p)
			}
			if c.binding != nil {
				c.binding(b)
			}
			var objects []client.Object
			if c.without != "Policy" {
				objects = append(objects, p)
			}
			if c.without != "Binding" {
				objects = append(objects, b)
			}
			checker := &enforcement.Checker{Reader: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build(), Waived: c.waived, Now: time.Now}
			got, err := checker.Missing(t.Context())
			if err != nil || !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Fatalf("%q, %v", got, err)
			}
			if c.want != "" && (!strings.Contains(got, "kubectl apply -k config/policy") || !strings.Contains(got, "--allow-without-admission-policy")) {
				t.Errorf("it does not say what to do: %s", got)
			}
		})
	}
}

// A hub that does not know admission policies has none; one that does not answer is not known to have any.
func TestHubsThatCannotBeAsked(t *testing.T) {
	kind := schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy"}
	cases := map[string]struct {
		err  error
		want string
	}{
		"too old":         {&meta.NoKindMatchError{GroupKind: kind}, "has no ValidatingAdmissionPolicy"},
		"not permitted":   {apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no")), "may not read the ValidatingAdmissionPolicy"},
		"does not answer": {apierrors.NewTimeoutError("slow", 1), ""},
	}
	for name, c := range cases {
		hub := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return c.err
			},
		}).Build()
		got, err := (&enforcement.Checker{Reader: hub, Now: time.Now}).Missing(t.Context())
		if (err != nil) != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// OLM gives the verb that the policy asks for to the administrators of namespaces. The policy of config/olm/policy asks for another.
func TestGrantsByOLM(t *testing.T) {
	role := func(verb string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "gitsources.minifleet.dev-v1alpha1-admin"},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{"minifleet.dev"}, Resources: []string{"gitsources"}}},
		}
	}
	more := permissionsValidation(t)
	cases := map[string]struct {
		role *rbacv1.ClusterRole
		more bool
		want string
	}{
		"no role":                         {},
		"a role of other verbs":           {role: role("create")},
		"all verbs":                       {role: role("*"), want: "kubectl apply -k config/olm/policy"},
		"the verb":                        {role: role("allow"), want: "kubectl apply -k config/olm/policy"},
		"all verbs and the policy for it": {role: role("*"), more: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, b := installed(t, "minifleet-gitsource-allow")
			if c.more {
				p.Spec.Validations = append(p.Spec.Validations, more)
			}
			objects := []client.Object{p, b}
			if c.role != nil {
				objects = append(objects, c.role)
			}
			got, err := enforcement.Examine(t.Context(), fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build())
			if err != nil || (got.Problem == "") != (c.want == "") || !strings.Contains(got.Problem, c.want) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// permissionsValidation is what config/olm/policy adds.
func permissionsValidation(t *testing.T) admissionregistrationv1.Validation {
	t.Helper()
	patch, err := os.ReadFile("../../../config/olm/policy/permissions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var operations []struct {
		Value admissionregistrationv1.Validation
	}
	if err := yaml.Unmarshal(patch, &operations); err != nil || len(operations) != 1 || operations[0].Value.Expression == "" {
		t.Fatal(operations, err)
	}
	return operations[0].Value
}

// What is wrong is told once, and again when it has changed, also where it is waived.
func TestAnnouncements(t *testing.T) {
	for name, waived := range map[string]bool{"counts": false, "waived": true} {
		t.Run(name, func(t *testing.T) {
			p, b := installed(t, "gitsource-allow")
			hub := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(p).Build()
			told, changed := make(chan string, 10), make(chan bool, 10)
			checker := &enforcement.Checker{
				Reader: hub, Waived: waived, Interval: time.Millisecond, Now: time.Now,
				Announce: func(problem string) { told <- problem }, Changed: func() { changed <- true },
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- checker.Start(ctx) }()
			if got := <-told; !strings.Contains(got, "has no ValidatingAdmissionPolicyBinding") {
				t.Errorf("told %q", got)
			}
			if err := hub.Create(ctx, b); err != nil {
				t.Fatal(err)
			}
			if got := <-told; got != "" {
				t.Errorf("told %q", got)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if got := len(changed) > 0; got == waived || len(told) > 0 {
				t.Errorf("changed: %v, more was told: %d", got, len(told))
			}
		})
	}
}

// An answer is as old as an interval, and no older.
func TestAnswersAreKept(t *testing.T) {
	p, b := installed(t, "gitsource-allow")
	hub := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(p, b).Build()
	now := time.Unix(0, 0)
	checker := &enforcement.Checker{Reader: hub, Interval: time.Minute, Now: func() time.Time { return now }}
	there := func() bool {
		why, err := checker.Missing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return why == ""
	}
	if !there() {
		t.Error("it is not there")
	}
	if err := hub.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	now = now.Add(59 * time.Second)
	if !there() {
		t.Error("the hub is asked again at once")
	}
	if now = now.Add(time.Second); there() {
		t.Error("it is still there")
	}
}
