// Monitoring writes what watches MiniFleet and is made of something else: the dashboard for Grafana, and the PrometheusRule
// of the rules that are in config/monitoring/rules.yaml. It is run in the root of the repository.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// folder is where all of it is.
const folder = "config/monitoring"

func main() {
	if err := run(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string) error {
	board, err := dashboardJSON()
	if err != nil {
		return err
	}
	rules, err := os.ReadFile(filepath.Join(dir, "rules.yaml"))
	if err != nil {
		return err
	}
	rule, err := prometheusRule(rules)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"dashboard.json": board, "prometheus_rule.yaml": rule} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// prometheusRule is the object that the Prometheus Operator takes for a file of rules.
func prometheusRule(rules []byte) ([]byte, error) {
	var spec map[string]any
	if err := yaml.Unmarshal(rules, &spec); err != nil {
		return nil, err
	}
	out, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": "alerts", "namespace": "system"}, "spec": spec,
	})
	return append([]byte("# Made of rules.yaml by make generate.\n"), out...), err
}

// dashboardJSON is the dashboard as Grafana imports it.
func dashboardJSON() ([]byte, error) {
	board, err := newDashboard().Build()
	if err != nil {
		return nil, fmt.Errorf("the dashboard: %w", err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err = encoder.Encode(board)
	return out.Bytes(), err
}
