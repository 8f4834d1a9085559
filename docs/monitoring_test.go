package docs_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/yaml"

	// They register metrics.
	_ "github.com/minifleet/minifleet/internal/cli"
)

// registered are the labels of our metrics, by name.
func registered(t *testing.T) map[string]string {
	t.Helper()
	all, is := ctrlmetrics.Registry.(prometheus.Collector)
	if !is {
		t.Fatal("the registry does not describe its metrics")
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		all.Describe(descs)
	}()
	described := regexp.MustCompile(`fqName: "(minifleet_\w+)".*variableLabels: \{(.*?)\}`)
	out := map[string]string{}
	for d := range descs {
		if m := described.FindStringSubmatch(d.String()); m != nil {
			labels := strings.Split(strings.ReplaceAll(m[2], " ", ""), ",")
			slices.Sort(labels)
			out[m[1]] = strings.Join(labels, ",")
		}
	}
	return out
}

// text is that of a file.
func text(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestMetricsAreDocumented(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `(minifleet_\\w+)` \\| \\w+ \\| (.*?)\\| [^|]+ \\| [^|]+ \\|$")
	documented := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(text(t, "metrics.md"), -1) {
		labels := strings.Split(strings.Trim(strings.NewReplacer("`", "", " ", "").Replace(m[2]), ","), ",")
		slices.Sort(labels)
		documented[m[1]] = strings.Join(labels, ",")
	}
	have := registered(t)
	if diff := cmp.Diff(have, documented); diff != "" {
		t.Errorf("metrics (-) and metrics.md (+) differ:\n%s", diff)
	}
}

// series are names of series of a metric that is a histogram.
var series = regexp.MustCompile(`_(bucket|count|sum)$`)

func TestAlertsDashboardAndRunbooksNameMetricsThatThereAre(t *testing.T) {
	known := registered(t)
	for path, least := range map[string]int{
		"../config/monitoring/rules.yaml": 15, "../config/monitoring/dashboard.json": 40, "runbooks.md": 1, "metrics.md": 50,
	} {
		names := regexp.MustCompile(`\bminifleet_\w+`).FindAllString(text(t, path), -1)
		slices.Sort(names)
		names = slices.Compact(names)
		if len(names) < least {
			t.Errorf("%s names %d metrics", path, len(names))
		}
		for _, name := range names {
			_, is := known[name]
			_, histogram := known[series.ReplaceAllString(name, "")]
			if !is && !histogram {
				t.Errorf("%s: there is no metric %s", path, name)
			}
		}
	}
}

// rules are the alerts, by name.
func rules(t *testing.T) map[string]string {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `json:"alert"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(text(t, "../config/monitoring/rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			out[r.Alert] = r.Annotations["runbook_url"]
			for _, name := range []string{"summary", "description"} {
				if r.Annotations[name] == "" {
					t.Errorf("%s has no %s", r.Alert, name)
				}
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
			}
		}
	}
	return out
}

func TestEachAlertHasARunbookAndEachRunbookAnAlert(t *testing.T) {
	alerts, sections := rules(t), map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(text(t, "runbooks.md"), -1) {
		sections[m[1]] = true
	}
	for alert, url := range alerts {
		if want := fmt.Sprintf("https://github.com/minifleet/minifleet/blob/main/docs/runbooks.md#%s", strings.ToLower(alert)); url != want {
			t.Errorf("%s: runbook_url is %q", alert, url)
		}
		if !sections[alert] {
			t.Errorf("runbooks.md has no section for %s", alert)
		}
		delete(sections, alert)
	}
	for section := range sections {
		t.Errorf("runbooks.md has a section for %s, which is no alert", section)
	}
	tests := text(t, "../hack/monitoring/testdata/rules/alerts.yaml")
	for alert := range alerts {
		if !strings.Contains(tests, fmt.Sprintf("alertname=%q", alert)) {
			t.Errorf("no test has %s fire", alert)
		}
	}
}
