package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var semver = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// newCSV is the ClusterServiceVersion: the base with all that follows from what is installed.
func newCSV(in *inputs, p *parts, examples []*unstructured.Unstructured, o Options) (*unstructured.Unstructured, error) {
	csv := in.base.DeepCopy()
	if err := setVersion(csv, o); err != nil {
		return nil, err
	}
	for _, d := range p.deployments {
		if err := setImage(d, o.Image); err != nil {
			return nil, err
		}
	}
	images, err := imagesOf(p.deployments)
	if err != nil {
		return nil, err
	}
	level, err := capabilityLevel(in.capabilitiesTable)
	if err != nil {
		return nil, err
	}
	alm, err := almExamples(examples)
	if err != nil {
		return nil, err
	}
	template, err := namespaceTemplate(p.namespace)
	if err != nil {
		return nil, err
	}
	annotated := csv.GetAnnotations()
	for key, value := range map[string]string{
		"alm-examples":   alm,
		"capabilities":   level,
		"containerImage": images[0],
		"operatorframework.io/suggested-namespace-template": template,
	} {
		annotated[key] = value
	}
	csv.SetAnnotations(annotated)
	owned, err := ownedDefinitions(csv, p.definitions, examples)
	if err != nil {
		return nil, err
	}
	for field, value := range map[string]any{
		"description":               string(in.description),
		"icon":                      []any{map[string]any{"base64data": encoded(in.icon), "mediatype": "image/svg+xml"}},
		"customresourcedefinitions": map[string]any{"owned": owned},
		"install":                   installStrategy(p),
		"relatedImages":             relatedImages(images),
	} {
		if err := unstructured.SetNestedField(csv.Object, value, "spec", field); err != nil {
			return nil, fmt.Errorf("spec.%s: %w", field, err)
		}
	}
	return csv, nil
}

// setVersion sets the version, the name, and what may be upgraded to it.
func setVersion(csv *unstructured.Unstructured, o Options) error {
	version, _, err := unstructured.NestedString(csv.Object, "spec", "version")
	if err != nil {
		return err
	}
	if o.Version != "" {
		version = o.Version
	}
	if !semver.MatchString(version) {
		return fmt.Errorf("version %q is not MAJOR.MINOR.PATCH", version)
	}
	csv.SetName(packageName + ".v" + version)
	if err := unstructured.SetNestedField(csv.Object, version, "spec", "version"); err != nil {
		return err
	}
	if o.Replaces != "" {
		if err := unstructured.SetNestedField(csv.Object, o.Replaces, "spec", "replaces"); err != nil {
			return err
		}
	}
	if replaces, _, _ := unstructured.NestedString(csv.Object, "spec", "replaces"); replaces == csv.GetName() {
		return fmt.Errorf("%s cannot replace itself: set spec.replaces of config/olm/csv.yaml to the version before it", replaces)
	}
	annotated := csv.GetAnnotations()
	annotated["olm.skipRange"] = "<" + version
	csv.SetAnnotations(annotated)
	return nil
}

// containersOf calls a function with each container of a Deployment, and stores what it makes of them.
func containersOf(deployment *unstructured.Unstructured, each func(container map[string]any)) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(deployment.Object, path...)
	if err != nil {
		return err
	}
	for _, c := range containers {
		container, ok := c.(map[string]any)
		if !ok {
			return fmt.Errorf("a container of Deployment %s is no object", deployment.GetName())
		}
		each(container)
	}
	return unstructured.SetNestedSlice(deployment.Object, containers, path...)
}

// setImage has the containers of a Deployment run another image; all run the same program.
func setImage(deployment *unstructured.Unstructured, image string) error {
	if image == "" {
		return nil
	}
	return containersOf(deployment, func(c map[string]any) { c["image"] = image })
}

// imagesOf are the images of Deployments, each once, in their order.
func imagesOf(deployments []*unstructured.Unstructured) ([]string, error) {
	var out []string
	seen := map[string]bool{}
	for _, d := range deployments {
		err := containersOf(d, func(c map[string]any) {
			if image, _ := c["image"].(string); image != "" && !seen[image] {
				seen[image] = true
				out = append(out, image)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no Deployment of config/default names an image")
	}
	return out, nil
}

// relatedImages are what a registry without access to the Internet needs a copy of.
func relatedImages(images []string) []any {
	var out []any
	for i, image := range images {
		name := "controller"
		if i > 0 {
			name = fmt.Sprintf("controller-%d", i+1)
		}
		out = append(out, map[string]any{"name": name, "image": image})
	}
	return out
}

// installStrategy is what OLM makes: Deployments, service accounts, and what these may do.
func installStrategy(p *parts) map[string]any {
	var deployments []any
	for _, d := range p.deployments {
		labels := map[string]any{}
		for key, value := range d.GetLabels() {
			labels[key] = value
		}
		deployments = append(deployments, map[string]any{"name": d.GetName(), "label": labels, "spec": d.Object["spec"]})
	}
	return map[string]any{
		"strategy": "deployment",
		"spec": map[string]any{
			"deployments":        deployments,
			"clusterPermissions": permissionsOf(p.clusterPermissions),
		},
	}
}

func permissionsOf(given []permission) []any {
	out := make([]any, 0, len(given))
	for _, g := range given {
		out = append(out, map[string]any{"serviceAccountName": g.account, "rules": g.rules})
	}
	return out
}

// almExamples are the samples as the annotation has them: JSON, without namespaces.
func almExamples(examples []*unstructured.Unstructured) (string, error) {
	var all []any
	for _, e := range examples {
		all = append(all, withoutNamespace(e).Object)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return string(text), err
}

// namespaceTemplate is the namespace with its labels, for consoles that make one for the operator.
func namespaceTemplate(namespace *unstructured.Unstructured) (string, error) {
	text, err := json.Marshal(namespace.Object)
	return strings.TrimSpace(string(text)), err
}
