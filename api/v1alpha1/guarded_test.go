package v1alpha1_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minifleet/minifleet/api/v1alpha1"
)

// TestEveryFieldOfAGitSourceIsFreeOrGuarded fails when GitSources get a new field: then decide whether it may be edited in
// a source that allows permissions by somebody who has not the verb allow. Those who have not may edit the free ones, which
// config/policy lists; all others are guarded without being named there.
func TestEveryFieldOfAGitSourceIsFreeOrGuarded(t *testing.T) {
	const (
		free    = "free: "
		guarded = "guarded: "
	)
	fields := map[string]string{
		"url":                guarded + "says what is read",
		"ref":                guarded + "says what is read",
		"path":               guarded + "says what is read",
		"paths":              guarded + "says what is read",
		"ignore":             guarded + "says what is read",
		"proxySecretRef":     guarded + "says who is on the way to the server",
		"verify":             guarded + "says whom to believe",
		"receiver":           free + "says who may ask to read it now",
		"mode":               free + "says whether it is applied, as suspend does",
		"deletionPolicy":     free + "says what stays on the hub, as prune does",
		"approval":           free + "says when a person is asked before something is deleted or runs anew, as it was declared",
		"secretRef":          guarded + "says whom to believe that it is the server, and what that shows to whom",
		"serviceAccountName": guarded + "says as whom it is written",
		"defaultPlacement":   guarded + "says with which overrides MiniClusters are declared",
		"allow":              free + "has a rule of its own, by which it may only be taken away",
		"interval":           free + "says when it is read",
		"timeout":            free + "says for how long it is read",
		"prune":              free + "says whether what Git declares no more stays on the hub, as it was declared",
		"suspend":            free + "says whether it is read; to distrust a repository is to take spec.allow away",
	}
	var all []string
	for f := range reflect.TypeFor[v1alpha1.GitSourceSpec]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
		if fields[name] == "" {
			t.Errorf("spec.%s: decide whether it is free or guarded, and why", name)
		}
	}
	body, err := os.ReadFile("../../config/policy/gitsource_allow.yaml")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?s)name: free\s+expression: "\[(.*?)\]"`).FindSubmatch(body)
	if list == nil {
		t.Fatal("config/policy has no list of what is free")
	}
	var listed []string
	for name := range strings.SplitSeq(string(list[1]), ",") {
		listed = append(listed, strings.Trim(name, " '"))
	}
	for name, why := range fields {
		if !slices.Contains(all, name) {
			t.Errorf("there is no field %s", name)
		}
		if strings.HasPrefix(why, free) != slices.Contains(listed, name) {
			t.Errorf("spec.%s is %s, and config/policy lists %v as free", name, why, listed)
		}
	}
	for _, name := range listed {
		if fields[name] == "" {
			t.Errorf("config/policy lists %s, which there is not", name)
		}
	}
}
