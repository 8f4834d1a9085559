package parse

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/api/v1alpha1"
)

// header is what tells whose a document is.
type header struct{ apiVersion, kind, name, namespace string }

// readHeader reads leniently, since most documents of a repository are not ours to judge.
func readHeader(node *yaml.Node) header {
	return header{
		apiVersion: text(child(node, "apiVersion")),
		kind:       text(child(node, "kind")),
		name:       text(child(behindAlias(child(node, "metadata")), "name")),
		namespace:  text(child(behindAlias(child(node, "metadata")), "namespace")),
	}
}

func (h header) object() string {
	if h.name == "" {
		return h.kind
	}
	return h.kind + "/" + clip(h.name, 253)
}

// isList reports whether the document is a List, or one of our kinds' own lists.
func (h header) isList() bool {
	if h.apiVersion == "v1" {
		return h.kind == "List"
	}
	switch h.kind {
	case KindMiniCluster + "List", KindFleetMiniCluster + "List", KindPlacement + "List":
		return h.ours()
	}
	return false
}

func (h header) group() string {
	group, _, ok := strings.Cut(h.apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

func (h header) ours() bool {
	return h.group() == fluxv1alpha2.GroupVersion.Group || h.group() == v1alpha1.GroupVersion.Group
}

// pick returns the kind of a document that is ours, "" for any other, and what is wrong with its
// apiVersion or kind.
func (h header) pick() (kind, problem string) {
	for kind, want := range map[string]string{
		KindMiniCluster:      fluxv1alpha2.GroupVersion.String(),
		KindFleetMiniCluster: v1alpha1.GroupVersion.String(),
		KindPlacement:        v1alpha1.GroupVersion.String(),
	} {
		if !h.ours() || !strings.EqualFold(h.kind, kind) {
			continue
		}
		switch {
		case h.kind != kind:
			return kind, fmt.Sprintf("kind %s is written %s", h.kind, kind)
		case h.apiVersion != want:
			return kind, fmt.Sprintf("%s has apiVersion %s here, and only %s is read; convert the manifest to it",
				kind, clip(h.apiVersion, 80), want)
		}
		return kind, ""
	}
	switch h.kind {
	case "GitSource", "MemberCluster", "GitSourceList", "MemberClusterList":
		return "", "" // ours, but not read from Git
	}
	// A misspelt kind must not be taken for a MiniCluster that was removed from Git. Other projects have kinds of other
	// names in Flux Framework's group.
	if h.group() == v1alpha1.GroupVersion.Group || h.ours() && strings.HasPrefix(strings.ToLower(h.kind), "mini") {
		return h.kind, fmt.Sprintf("there is no kind %s in %s; correct its name", strconv.Quote(clip(h.kind, 80)), h.group())
	}
	return "", ""
}

// child returns the value of key in a mapping, nil when there is none.
func child(node *yaml.Node, key string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Kind == yaml.ScalarNode && node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

// behindAlias returns what an alias stands for.
func behindAlias(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func text(node *yaml.Node) string {
	if node = behindAlias(node); node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}
