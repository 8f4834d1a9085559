package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/crdify/pkg/config"
	"sigs.k8s.io/crdify/pkg/runner"
	"sigs.k8s.io/crdify/pkg/validations"
	"sigs.k8s.io/yaml"
)

const (
	crdDirectory = "config/crd/bases"
	// acceptedFile lists the incompatible changes since the previous release that were decided on.
	acceptedFile = "hack/release/incompatible.yaml"
)

// incompatibility is a change of a CRD that may break what people have: objects, files or programs.
type incompatibility struct {
	// CRD is its name, e.g. gitsources.minifleet.dev.
	CRD string `json:"crd"`
	// Property is VERSION and the path of the schema, e.g. v1alpha1.^.spec.url; empty for what concerns the whole CRD.
	Property string `json:"property,omitempty"`
	// Validation is the name of crdify's rule.
	Validation string `json:"validation"`
	// Change is crdify's message.
	Change string `json:"change"`
	// Reason says why the change was made all the same, in the file of those that are accepted.
	Reason string `json:"reason,omitempty"`
}

func (i incompatibility) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s: %s: %s", i.CRD, i.Property, i.Validation, i.Change))
}

func (i incompatibility) same(other incompatibility) bool {
	i.Reason, other.Reason = "", ""
	return i == other
}

// compareWithPrevious fails for incompatible changes of CRDs since the previous release that are not accepted. Where the
// history does not have that release it says so, and compares nothing.
func compareWithPrevious(root string, out io.Writer) error {
	tag, commit, err := previousRelease(root)
	if err != nil {
		return err
	}
	if !inHistory(root, commit) {
		_, err := fmt.Fprintf(out, "NOT TESTED, the CRDs against those of %s: its commit %s is not in this repository (a shallow clone? git fetch --unshallow)\n", tag, commit)
		return err
	}
	before, err := filesAt(root, commit, crdDirectory)
	if err != nil {
		return err
	}
	after, err := readFiles(filepath.Join(root, crdDirectory))
	if err != nil {
		return err
	}
	accepted, err := readAccepted(filepath.Join(root, acceptedFile))
	if err != nil {
		return err
	}
	found, err := compareCRDs(before, after)
	if err != nil {
		return err
	}
	return judge(tag, found, accepted)
}

func readFiles(directory string) (map[string][]byte, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(directory, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func readAccepted(path string) ([]incompatibility, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list struct {
		Accepted []incompatibility `json:"accepted"`
	}
	if err := yaml.UnmarshalStrict(body, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, i := range list.Accepted {
		if i.Reason == "" {
			return nil, fmt.Errorf("%s: %s %s %s has no reason", path, i.CRD, i.Property, i.Validation)
		}
	}
	return list.Accepted, nil
}

// judge fails for what is found and not accepted, and for what is accepted and not found: the list is of this release only.
func judge(tag string, found, accepted []incompatibility) error {
	var wrong []string
	for _, f := range found {
		if !slices.ContainsFunc(accepted, f.same) {
			wrong = append(wrong, f.String())
		}
	}
	for _, a := range accepted {
		if !slices.ContainsFunc(found, a.same) {
			wrong = append(wrong, fmt.Sprintf("%s is accepted in %s, and is no change since then: remove it there", a, acceptedFile))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("CRDs have changed since %s in ways that break what people have; undo it, or list it with a reason in %s:\n%s",
		tag, acceptedFile, strings.Join(wrong, "\n"))
}

// compareCRDs returns the incompatible changes between files with one CRD each, by name, in a stable order.
func compareCRDs(before, after map[string][]byte) ([]incompatibility, error) {
	old, err := parseCRDs(before)
	if err != nil {
		return nil, err
	}
	current, err := parseCRDs(after)
	if err != nil {
		return nil, err
	}
	settings := &config.Config{Validations: []config.ValidationConfig{{Name: "description", Enforcement: config.EnforcementPolicyNone}}}
	if err := config.ValidateConfig(settings); err != nil { // which sets the defaults: everything else is an error
		return nil, err
	}
	comparison, err := runner.New(settings, runner.DefaultRegistry())
	if err != nil {
		return nil, err
	}
	var found []incompatibility
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if current[name] == nil {
			found = append(found, incompatibility{CRD: name, Validation: "removed", Change: "the CRD is no longer there: with it all of its objects would be deleted"})
			continue
		}
		found = append(found, addedRules(old[name], current[name])...)
		found = append(found, flatten(name, comparison.Run(old[name], current[name]))...)
	}
	return found, nil
}

func parseCRDs(files map[string][]byte) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for name, body := range files {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(body, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		crds[crd.Name] = crd
	}
	return crds, nil
}

// oneLine is a message of several lines, which the comparison aligns in one way or another, as one.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

// flatten returns the errors among results.
func flatten(crd string, results *runner.Results) []incompatibility {
	var found []incompatibility
	add := func(property string, list []validations.ComparisonResult) {
		for _, r := range list {
			for _, message := range r.Errors {
				found = append(found, incompatibility{CRD: crd, Property: property, Validation: r.Name, Change: oneLine(message)})
			}
		}
	}
	add("", results.CRDValidation)
	for _, byVersion := range []map[string]map[string][]validations.ComparisonResult{results.SameVersionValidation, results.ServedVersionValidation} {
		for version, byProperty := range byVersion {
			for property, list := range byProperty {
				add(version+"."+property, list)
			}
		}
	}
	slices.SortFunc(found, func(a, b incompatibility) int { return strings.Compare(a.String(), b.String()) })
	return found
}
