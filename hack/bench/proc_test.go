package main

import (
	"testing"
	"time"
)

func TestCPUTimeIsUserAndSystemTime(t *testing.T) {
	// The name may hold spaces and brackets.
	const stat = "4711 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 120 30 13 14 20 0 9 0 100 200 300\n"
	got, err := cpuTime(stat)
	if err != nil || got != 1500*time.Millisecond {
		t.Errorf("cpuTime = %v, %v; want 1.5s", got, err)
	}
	if _, err := cpuTime("4711 (a) S 1"); err == nil {
		t.Error("a short line is no error")
	}
}

func TestMetricsAreSummedOverLabels(t *testing.T) {
	const page = metrics(`# HELP reconciles_total How many reconciliations.
# TYPE reconciles_total counter
reconciles_total{controller="a",result="success"} 3
reconciles_total{controller="a",result="error"} 1
reconciles_total{controller="b",result="success"} 1.5e+01
reconciles_total_created 7
go_goroutines 40
`)
	for name, c := range map[string]struct {
		metric string
		labels []string
		want   float64
	}{
		"all":             {metric: "reconciles_total", want: 19},
		"one label":       {metric: "reconciles_total", labels: []string{`controller="a"`}, want: 4},
		"two labels":      {metric: "reconciles_total", labels: []string{`controller="a"`, `result="error"`}, want: 1},
		"without labels":  {metric: "go_goroutines", want: 40},
		"a longer name":   {metric: "reconciles", want: 0},
		"nothing matches": {metric: "reconciles_total", labels: []string{`controller="c"`}, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := page.sum(c.metric, c.labels...); got != c.want {
				t.Errorf("sum = %g, want %g", got, c.want)
			}
		})
	}
}
