package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGeneratedFilesAreThoseOfTheirSources(t *testing.T) {
	rules, err := os.ReadFile("../../" + folder + "/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rule, err := prometheusRule(rules)
	if err != nil {
		t.Fatal(err)
	}
	board, err := dashboardJSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"prometheus_rule.yaml": rule, "dashboard.json": board} {
		have, err := os.ReadFile("../../" + folder + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(have)); diff != "" {
			t.Errorf("%s is old: make generate-monitoring\n%s", name, diff)
		}
	}
}
