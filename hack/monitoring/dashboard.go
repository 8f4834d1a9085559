package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// panel is one of the dashboard: a number, or lines over time.
type panel struct {
	title, description string
	// unit is one of Grafana's; none without.
	unit    string
	number  bool
	queries []query
}

// query is an expression with the legend of its series.
type query struct{ expr, legend string }

// row is a row of panels.
type row struct {
	title  string
	panels []panel
}

// Sizes in Grafana's grid, which is 24 wide.
const (
	numberWidth, numberHeight = 4, 4
	linesWidth, linesHeight   = 8, 8
)

// rows are the dashboard. Series of all replicas are put together: the one that leads has them, whichever that is.
var rows = []row{
	{"Fleet", []panel{
		{title: "Controllers that lead", number: true, queries: []query{{`sum(minifleet_leader)`, ""}}},
		{title: "Members ready", number: true, queries: []query{{`sum(max by (member) (minifleet_member_ready))`, ""}}},
		{title: "Members not ready", number: true, queries: []query{{`count(max by (member) (minifleet_member_ready) == 0) or vector(0)`, ""}}},
		{title: "Sources not ready", number: true, queries: []query{{`count(max by (source) (minifleet_source_ready) == 0) or vector(0)`, ""}}},
		{title: "Approvals pending", number: true, description: "Sources with a commit that a person has to approve.",
			queries: []query{{`count(max by (source) (minifleet_source_approvals_pending) > 0) or vector(0)`, ""}}},
		{title: "Failed", number: true, queries: []query{{`max(minifleet_fleetminiclusters{state="Failed"})`, ""}}},
		{title: "FleetMiniClusters", queries: []query{{`max by (state) (minifleet_fleetminiclusters)`, "{{state}}"}, {`max(minifleet_fleetminiclusters_out_of_sync)`, "out of sync"}}},
		{title: "Live runs by member", queries: []query{{`sum by (member) (max by (member, state) (minifleet_runs))`, "{{member}}"}}},
		{title: "Versions", queries: []query{{`count by (version) (minifleet_build_info)`, "{{version}}"}}},
	}},
	{"Runs", []panel{
		{title: "Started per hour", queries: []query{{`sum by (member) (increase(minifleet_runs_started_total[1h]))`, "{{member}}"}}},
		{title: "Ended per hour", queries: []query{{`sum by (result) (increase(minifleet_runs_ended_total[1h]))`, "{{result}}"}}},
		{title: "Duration of runs", unit: "s", queries: []query{
			{`histogram_quantile(0.5, sum by (le, result) (rate(minifleet_run_duration_seconds_bucket[1h])))`, "{{result}}, half"},
			{`histogram_quantile(0.95, sum by (le, result) (rate(minifleet_run_duration_seconds_bucket[1h])))`, "{{result}}, 95%"},
		}},
		{title: "From the decision until all pods run", unit: "s", queries: quantiles("minifleet_run_start_duration_seconds", "")},
		{title: "From a push to its first Job", unit: "s", description: "From when the hub first knew of the commit, with the time that was waited for room.",
			queries: quantiles("minifleet_push_to_job_duration_seconds", "trigger")},
		{title: "Denied for lack of a permission per hour", queries: []query{{`sum by (kind) (increase(minifleet_policy_denials_total[1h]))`, "{{kind}}"}}},
	}},
	{"Waiting", []panel{
		{title: "Waiting, by what for", queries: []query{{`max by (reason) (minifleet_waiting)`, "{{reason}}"}}},
		{title: "The oldest that waits", unit: "s", queries: []query{{`max by (reason) (minifleet_waiting_oldest_age_seconds)`, "{{reason}}"}}},
		{title: "Line for room by member", queries: []query{{`max by (member) (minifleet_queue_length)`, "{{member}}"}, {`max by (member) (minifleet_queue_ready)`, "{{member}}, could begin"}}},
		{title: "Waiting by placement", queries: []query{{`topk(10, max by (placement) (minifleet_placement_waiting))`, "{{placement}}"}}},
		{title: "The oldest by placement", unit: "s", queries: []query{{`topk(10, max by (placement) (minifleet_placement_waiting_oldest_age_seconds))`, "{{placement}}"}}},
		{title: "Reservations by member", queries: []query{{`max by (member) (minifleet_queue_reservations)`, "{{member}}"}}},
	}},
	{"Members", []panel{
		{title: "Silence", unit: "s", queries: []query{{`max by (member) (minifleet_member_last_heard_age_seconds)`, "{{member}}"}}},
		{title: "Not ready, by reason", queries: []query{{`max by (member, reason) (minifleet_member_status{reason!="Connected"})`, "{{member}}: {{reason}}"}}},
		{title: "Cordoned", queries: []query{{`max by (member) (minifleet_member_cordoned)`, "{{member}}"}}},
		{title: "CPU that is free", unit: "percentunit", queries: []query{{`max by (member) (minifleet_member_cpu_free_cores) / (max by (member) (minifleet_member_cpu_cores) > 0)`, "{{member}}"}}},
		{title: "Memory that is free", unit: "percentunit", queries: []query{{`max by (member) (minifleet_member_memory_free_bytes) / (max by (member) (minifleet_member_memory_bytes) > 0)`, "{{member}}"}}},
		{title: "GPUs that are free", queries: []query{{`max by (member) (minifleet_member_gpus_free)`, "{{member}}"}, {`sum(max by (member) (minifleet_member_gpus))`, "all GPUs"}}},
		{title: "Nodes", queries: []query{{`max by (member) (minifleet_member_nodes)`, "{{member}}"}}},
		{title: "Time of a step on a member", unit: "s", queries: quantiles("minifleet_apply_duration_seconds", "member")},
		{title: "Steps that failed per hour", queries: []query{{`sum by (member) (increase(minifleet_apply_failures_total[1h]))`, "{{member}}"}}},
		{title: "Drift put right per hour", queries: []query{{`sum by (member) (increase(minifleet_drift_repaired_total[1h]))`, "{{member}}"}}},
		{title: "Stale requests refused per hour", queries: []query{{`sum by (member) (increase(minifleet_stale_requests_refused_total[1h]))`, "{{member}}"}}},
		{title: "Jobs without an owner, and orphans", queries: []query{{`max by (member) (minifleet_member_unowned_jobs)`, "{{member}}: Jobs"}, {`max by (member) (minifleet_member_orphans)`, "{{member}}: orphans"}}},
	}},
	{"Git", []panel{
		{title: "Readings per minute", queries: []query{{`sum by (result) (rate(minifleet_git_fetches_total[5m])) * 60`, "{{result}}"}}},
		{title: "Failures per hour", queries: []query{{`sum by (reason) (increase(minifleet_git_fetch_failures_total[1h]))`, "{{reason}}"}}},
		{title: "Time of a reading", unit: "s", queries: quantiles("minifleet_git_fetch_duration_seconds", "result")},
		{title: "Not ready, by reason", queries: []query{{`max by (source, reason) (minifleet_source_status{reason!="Succeeded"})`, "{{source}}: {{reason}}"}}},
		{title: "Since the last reading that succeeded", unit: "s", queries: []query{{`time() - max by (source) (minifleet_source_last_read_timestamp_seconds)`, "{{source}}"}}},
		{title: "Problems in files", queries: []query{{`max by (source) (minifleet_source_problems) > 0`, "{{source}}"}}},
		{title: "Approvals pending", queries: []query{{`max by (source, approval) (minifleet_source_approvals_pending) > 0`, "{{source}}: {{approval}}"}}},
		{title: "Objects", queries: []query{{`max by (source) (minifleet_source_objects)`, "{{source}}"}}},
		{title: "Pruned per hour", queries: []query{{`sum(increase(minifleet_pruned_objects_total[1h]))`, "objects"}}},
		{title: "Webhooks per minute", queries: []query{{`sum by (result) (rate(minifleet_webhook_requests_total[5m])) * 60`, "{{result}}"}}},
	}},
	{"Controller", []panel{
		{title: "Time of a reconciliation, 95%", unit: "s", queries: []query{{`histogram_quantile(0.95, sum by (le, controller) (rate(controller_runtime_reconcile_time_seconds_bucket{controller=~"gitsource|membercluster|fleetminicluster"}[5m])))`, "{{controller}}"}}},
		{title: "Errors per minute", queries: []query{{`sum by (controller) (rate(controller_runtime_reconcile_errors_total{controller=~"gitsource|membercluster|fleetminicluster"}[5m])) * 60`, "{{controller}}"}}},
		{title: "Queues", queries: []query{{`max by (name) (workqueue_depth{name=~"gitsource|membercluster|fleetminicluster"})`, "{{name}}"}}},
		{title: "Memory", unit: "bytes", queries: []query{{`process_resident_memory_bytes and on (job, instance) minifleet_leader`, "{{instance}}"}, {`go_gc_gomemlimit_bytes and on (job, instance) minifleet_leader`, "{{instance}}, limit"}}},
		{title: "CPU", queries: []query{{`rate(process_cpu_seconds_total[5m]) and on (job, instance) minifleet_leader`, "{{instance}}"}}},
		{title: "Requests to the dashboard per minute", queries: []query{{`sum by (code) (rate(minifleet_dashboard_requests_total[5m])) * 60`, "{{code}}"}}},
		{title: "Time of an answer of the dashboard", unit: "s", queries: quantiles("minifleet_dashboard_request_duration_seconds", "")},
		{title: "Streams of the dashboard", queries: []query{{`sum by (kind) (minifleet_dashboard_streams)`, "{{kind}}"}}},
	}},
}

// quantiles are the half and 95 percent of a histogram, by a label or over all.
func quantiles(histogram, label string) []query {
	by, legend := "le", ""
	if label != "" {
		by, legend = "le, "+label, "{{"+label+"}}, "
	}
	of := func(q string) string {
		return "histogram_quantile(" + q + ", sum by (" + by + ") (rate(" + histogram + "_bucket[15m])))"
	}
	return []query{{of("0.5"), legend + "half"}, {of("0.95"), legend + "95%"}}
}

// newDashboard makes the dashboard of its rows.
func newDashboard() *dashboard.DashboardBuilder {
	board := dashboard.NewDashboardBuilder("MiniFleet").Uid("minifleet").Tags([]string{"minifleet"}).
		Description("A fleet of members that run MiniClusters from Git.").
		Refresh("30s").Time("now-6h", "now").Timezone(common.TimeZoneBrowser).Readonly().
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus"))
	for _, r := range rows {
		board.WithRow(dashboard.NewRowBuilder(r.title))
		for i := range r.panels {
			board.WithPanel(newPanel(&r.panels[i]))
		}
	}
	return board
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

func newPanel(p *panel) cog.Builder[dashboard.Panel] {
	if p.number {
		out := stat.NewPanelBuilder().Title(p.title).Description(p.description).Datasource(source()).Span(numberWidth).Height(numberHeight)
		for _, q := range p.queries {
			out.WithTarget(target(q).Instant())
		}
		return out
	}
	out := timeseries.NewPanelBuilder().Title(p.title).Description(p.description).Datasource(source()).Span(linesWidth).Height(linesHeight).Min(0)
	if p.unit != "" {
		out.Unit(p.unit)
	}
	for _, q := range p.queries {
		out.WithTarget(target(q))
	}
	return out
}

func target(q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Datasource(source()).Expr(q.expr).LegendFormat(q.legend)
}
