package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/api/pkg/validation/errors"
)

// accepted are parts of warnings that stay, and why.
var accepted = map[string]string{
	"unable to inspect the image": "the validator runs docker on a published image; that of this repository is minifleet:dev, which nobody has pushed",
	"node affinity":               "the image is of both architectures that the labels name, so that the pod may be on any node",
}

// TestValidators runs everything that operator-framework/api checks: the defaults and what is optional (OperatorHub, standard
// categories and capabilities, objects, community, removed APIs, good practices, architectures).
func TestValidators(t *testing.T) {
	bundle := committed(t)
	objects := []any{bundle, bundle.CSV, map[string]string{"k8s-version": "1.36", "container-tools": "none", "index-path": filepath.Join(root, dockerfile)}}
	for _, crd := range bundle.V1CRDs {
		objects = append(objects, crd)
	}
	for _, object := range bundle.Objects {
		objects = append(objects, object)
	}
	results := append(validation.AllValidators.Validate(objects...), validation.OperatorHubV2Validator.Validate(objects...)...)
	if len(results) < 10 {
		t.Errorf("only %d results: the validators have not seen the bundle", len(results))
	}
	for _, result := range results {
		for _, e := range result.Errors {
			t.Errorf("%s: %s", result.Name, e.Error())
		}
		for _, w := range result.Warnings {
			if reason := reasonFor(w); reason == "" {
				t.Errorf("%s: warning: %s", result.Name, w.Error())
			}
		}
	}
}

func reasonFor(w errors.Error) string {
	for part, reason := range accepted {
		if strings.Contains(w.Error(), part) {
			return reason
		}
	}
	return ""
}

// The validators see what is wrong: the tests above can fail.
func TestValidatorsSeeMistakes(t *testing.T) {
	cases := map[string]func(*manifests.Bundle){
		"an example of a kind that there is not": func(b *manifests.Bundle) {
			b.CSV.Annotations["alm-examples"] = `[{"apiVersion": "minifleet.dev/v1alpha1", "kind": "Nothing"}]`
		},
		"a CRD that is not described": func(b *manifests.Bundle) { b.CSV.Spec.CustomResourceDefinitions.Owned = nil },
		"no install mode":             func(b *manifests.Bundle) { b.CSV.Spec.InstallModes = nil },
		"another level":               func(b *manifests.Bundle) { b.CSV.Annotations["capabilities"] = "Perfect" },
		"another category":            func(b *manifests.Bundle) { b.CSV.Annotations["categories"] = "Toys" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			bundle := committed(t)
			change(bundle)
			found := 0
			for _, result := range validation.AllValidators.Validate(bundle, bundle.CSV) {
				found += len(result.Errors)
			}
			if found == 0 {
				t.Error("no validator reports it")
			}
		})
	}
}
