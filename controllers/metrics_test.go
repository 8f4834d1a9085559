package controllers_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/lab"
)

// samples are what a scrape tells: values by series, as Prometheus writes these.
type samples map[string]float64

// withMetrics has MiniFleet serve metrics until the end of the test, and returns what scrapes them.
func withMetrics() func(context.Context) samples {
	GinkgoHelper()
	address, err := lab.FreeAddress()
	Expect(err).NotTo(HaveOccurred())
	before := slices.Clone(minifleet.Args)
	restart := func(args []string) {
		Expect(minifleet.Kill()).To(Succeed())
		minifleet.Args = args
		startMinifleet(labs.Cluster("hub").Kubeconfig())
	}
	DeferCleanup(func() { restart(before) })
	restart(append(slices.Clone(before), "--metrics-bind-address", address))
	return func(ctx context.Context) samples {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
		if err != nil {
			return nil
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return nil
		}
		defer func() { _ = res.Body.Close() }()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil
		}
		out := samples{}
		for line := range strings.Lines(string(body)) {
			if series, value, found := lastCut(strings.TrimSpace(line)); found && !strings.HasPrefix(line, "#") {
				if n, err := strconv.ParseFloat(value, 64); err == nil {
					out[series] = n
				}
			}
		}
		return out
	}
}

func lastCut(line string) (series, value string, found bool) {
	i := strings.LastIndex(line, " ")
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// span is what was scraped at one time, with how many minutes that is taken to have lasted.
type span struct {
	scraped samples
	minutes int
}

// fed says whether alerts are about a series. Times of the clock mean nothing in simulated time.
func fed(series string) bool {
	name, _, _ := strings.Cut(series, "{")
	return !strings.HasSuffix(name, "_bucket") && !strings.HasSuffix(name, "_timestamp_seconds") &&
		(strings.HasPrefix(name, "minifleet_") || name == "workqueue_depth" || name == "controller_runtime_reconcile_errors_total" ||
			name == "process_resident_memory_bytes" || name == "go_gc_gomemlimit_bytes")
}

// firing is what promtool says where other alerts fire at these times than are wanted, each as its labels; empty where they do.
func firing(phases []span, at []time.Duration, want [][]string) string {
	GinkgoHelper()
	var end int
	union := map[string]bool{}
	for _, p := range phases {
		end += p.minutes
		for series := range p.scraped {
			if fed(series) {
				union[series] = true
			}
		}
	}
	type expectation struct {
		Expr    string           `json:"expr"`
		Time    string           `json:"eval_time"`
		Samples []map[string]any `json:"exp_samples"`
	}
	var input []map[string]string
	for _, series := range slices.Sorted(maps.Keys(union)) {
		var values []string
		for _, p := range phases {
			values = append(values, during(series, p))
		}
		input = append(input, map[string]string{"series": series, "values": strings.Join(values, " ")})
	}
	var tests []expectation
	for i := range at {
		e := expectation{Expr: `count by (alertname, member, source, reason) (ALERTS{alertstate="firing"})`, Time: at[i].String(), Samples: []map[string]any{}}
		for _, labels := range want[i] {
			e.Samples = append(e.Samples, map[string]any{"labels": "{" + labels + "}", "value": 1})
		}
		tests = append(tests, e)
	}
	root, err := lab.RepositoryRoot()
	Expect(err).NotTo(HaveOccurred())
	content, err := yaml.Marshal(map[string]any{
		"rule_files": []string{filepath.Join(root, "config", "monitoring", "rules.yaml")}, "evaluation_interval": "1m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": tests}},
	})
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(workDir, "scraped.yaml")
	Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	out, err := exec.Command(promtool(root), "test", "rules", file).CombinedOutput()
	if err != nil {
		return string(out)
	}
	return ""
}

// during are the values of a series in a phase, in promtool's words. An age grows.
func during(series string, p span) string {
	value, is := p.scraped[series]
	name, _, _ := strings.Cut(series, "{")
	switch {
	case !is:
		return fmt.Sprintf("_x%d", p.minutes)
	case strings.HasSuffix(name, "_age_seconds") && value > 0:
		return fmt.Sprintf("%f+60x%d", value, p.minutes-1)
	default:
		return fmt.Sprintf("%fx%d", value, p.minutes-1)
	}
}

// promtool is the program that make builds; the test is left out where nobody has.
func promtool(root string) string {
	GinkgoHelper()
	found, err := filepath.Glob(filepath.Join(root, "bin", "promtool-*"))
	Expect(err).NotTo(HaveOccurred())
	if len(found) == 0 {
		Skip("NOT TESTED that alerts fire when it happens: bin/promtool is not built; make promtool")
	}
	return found[len(found)-1]
}

var _ = Describe("Metrics", func() {
	It("have alerts fire when it really happens, and end when it is over", func(ctx SpecContext) {
		w := newWorld(ctx)
		proxy, kubeconfig := through(labs.Cluster("basalt"))
		scrape := withMetrics()
		w.register(ctx, "alpine", labs.Cluster("alpine").Kubeconfig())
		w.register(ctx, "basalt", kubeconfig)
		east, west := w.member("alpine"), w.member("basalt")
		value := func(series string) func() float64 {
			return func() float64 {
				v, is := scrape(ctx)[series]
				if !is {
					return -1
				}
				return v
			}
		}
		eventually := func(series string, v float64) {
			GinkgoHelper()
			Eventually(value(series)).Should(Equal(v), "%s", series)
		}

		By("everything being well")
		r := w.newRepository(ctx)
		names := []string{"one", "two", "three", "four", "five", "six", "seven", "eight"}
		files := map[string]string{}
		for _, name := range names {
			files[name+".yaml"] = fmt.Sprintf(`apiVersion: minifleet.dev/v1alpha1
kind: FleetMiniCluster
metadata: {name: %s}
spec:
  suspend: true
  placementRef: {name: all}
  miniCluster: {size: 1, containers: [{image: example.org/app, command: "true"}]}
`, name)
		}
		r.commit(files)
		source := r.source(ctx)
		fleet := w.name + "/fleet"
		eventually(`minifleet_source_ready{source="`+fleet+`"}`, 1)
		eventually(`minifleet_source_objects{source="`+fleet+`"}`, 8)
		gitSource(ctx, w.name, "other", r.server.TLSURL("fleet"), func(s *v1alpha1.GitSourceSpec) {
			s.Interval, s.SecretRef, s.Mode = metav1.Duration{Duration: time.Second}, &v1alpha1.LocalReference{Name: "git"}, v1alpha1.SourceDryRun
		})
		other := func(change func(*v1alpha1.GitSourceSpec)) {
			GinkgoHelper()
			Eventually(func() error {
				var s v1alpha1.GitSource
				if err := hub.Get(ctx, client.ObjectKey{Namespace: w.name, Name: "other"}, &s); err != nil {
					return err
				}
				change(&s.Spec)
				return hub.Update(ctx, &s)
			}).Should(Succeed())
		}
		eventually(`minifleet_source_status{reason="DryRun",source="`+w.name+`/other"}`, 1)
		w.run(ctx, "good", brief)
		Eventually(func() v1alpha1.State { return w.get(ctx, "good").Status.State }).Should(Equal(v1alpha1.StateSucceeded))
		eventually(`minifleet_fleetminiclusters{state="Succeeded"}`, 1)
		eventually(`minifleet_runs_ended_total{member="`+east+`",result="Succeeded"}`, 1)
		well := scrape(ctx)

		By("a member falling silent, a repository disappearing, a prune blocked, a run failing, and another waiting")
		onAlpine := func(name string, annotations map[string]string, size int32) *v1alpha1.FleetMiniCluster {
			f := w.fmc(name, annotations)
			f.Spec.Placement.ClusterSelector.MatchLabels["member"] = "alpine"
			f.Spec.MiniCluster.Size = size
			f.Spec.MiniCluster.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			Expect(hub.Create(ctx, f)).To(Succeed())
			return f
		}
		bad := onAlpine("bad", map[string]string{lab.AskExitCode: "3", lab.AskSeconds: "0"}, 1)
		eventually(`minifleet_fleetminiclusters{state="Failed"}`, 1)
		large := onAlpine("large", held, 1000)
		eventually(`minifleet_waiting{reason="room"}`, 1)
		removed := map[string]string{}
		for _, name := range names {
			removed[name+".yaml"] = ""
		}
		r.commit(removed)
		eventually(`minifleet_source_approvals_pending{approval="prune",source="`+fleet+`"}`, 8)
		other(func(s *v1alpha1.GitSourceSpec) { s.URL = r.server.TLSURL("missing") })
		eventually(`minifleet_source_ready{source="`+w.name+`/other"}`, 0)
		Expect(proxy.SetMode(lab.Refuse)).To(Succeed())
		eventually(`minifleet_member_ready{member="`+west+`"}`, 0)
		Eventually(value(`minifleet_waiting_oldest_age_seconds{reason="room"}`)).Should(BeNumerically(">", 0))
		Eventually(value(`minifleet_member_last_heard_age_seconds{member="` + west + `"}`)).Should(BeNumerically(">", 0))
		ill := scrape(ctx)
		why := w.reason(ctx, "basalt")

		By("all of it being over")
		Expect(proxy.SetMode(lab.Forward)).To(Succeed())
		other(func(s *v1alpha1.GitSourceSpec) { s.URL = r.server.TLSURL("fleet") })
		r.commit(files)
		Expect(hub.Delete(ctx, large)).To(Succeed())
		Expect(hub.Delete(ctx, bad)).To(Succeed())
		eventually(`minifleet_member_ready{member="`+west+`"}`, 1)
		eventually(`minifleet_source_approvals_pending{approval="prune",source="`+fleet+`"}`, 0)
		eventually(`minifleet_source_status{reason="DryRun",source="`+w.name+`/other"}`, 1)
		eventually(`minifleet_fleetminiclusters{state="Failed"}`, 0)
		eventually(`minifleet_waiting{reason="room"}`, 0)
		over := scrape(ctx)
		Expect(source().Status.InventoryCount).To(Equal(int32(8)))
		Expect(why).To(Equal("Unknown Unreachable"))

		phases := []span{{well, 30}, {ill, 480}, {over, 90}}
		Expect(firing(phases, []time.Duration{29 * time.Minute, 509 * time.Minute, 599 * time.Minute}, [][]string{
			nil,
			{
				`alertname="MiniFleetMemberUnreachable",member="` + west + `"`,
				`alertname="MiniFleetSourceNotFetched",reason="NotFound",source="` + w.name + `/other"`,
				`alertname="MiniFleetPruneBlocked",source="` + fleet + `"`,
				`alertname="MiniFleetRunFailed"`,
				`alertname="MiniFleetWaitingTooLong",reason="room"`,
			},
			nil,
		})).To(BeEmpty())

		By("a member being deleted")
		Expect(hub.Delete(ctx, w.memberCluster(ctx, "basalt"))).To(Succeed())
		Eventually(func() (left []string) {
			for series := range scrape(ctx) {
				if strings.Contains(series, `member="`+west+`"`) {
					left = append(left, series)
				}
			}
			return left
		}).Should(BeEmpty(), "series of a member that was deleted")
	})
})
