package main

import "github.com/minifleet/minifleet/hack/lab"

const hubName = "hub"

// member is a cluster that MiniClusters run on.
type member struct {
	name   string
	labels map[string]string
	nodes  []lab.Node
	// podSeconds is how long its pods run: members differ, so that there is something to watch.
	podSeconds int
}

var members = []member{
	{
		name:   "alpine",
		labels: map[string]string{"site": "north", "gpu": "true"},
		nodes: []lab.Node{
			{Name: "alpine-gpu-1", CPU: "64", Memory: "256Gi", GPUs: 4},
			{Name: "alpine-gpu-2", CPU: "64", Memory: "256Gi", GPUs: 4},
			{Name: "alpine-fat-1", CPU: "96", Memory: "768Gi"},
		},
		podSeconds: 8,
	},
	{
		name:   "basalt",
		labels: map[string]string{"site": "south", "gpu": "true"},
		nodes: []lab.Node{
			{Name: "basalt-gpu-1", CPU: "48", Memory: "192Gi", GPUs: 2},
			{Name: "basalt-cpu-1", CPU: "32", Memory: "128Gi"},
			{Name: "basalt-cpu-2", CPU: "32", Memory: "128Gi"},
		},
		podSeconds: 10,
	},
	{
		name:   "cinder",
		labels: map[string]string{"site": "south"},
		nodes: []lab.Node{
			{Name: "cinder-1", CPU: "16", Memory: "64Gi"},
			{Name: "cinder-2", CPU: "16", Memory: "64Gi"},
			{Name: "cinder-3", CPU: "16", Memory: "64Gi"},
			{Name: "cinder-4", CPU: "8", Memory: "32Gi"},
		},
		podSeconds: 12,
	},
}

// clusterSpecs returns the hub, which runs no pods, and the members.
func clusterSpecs() []lab.ClusterSpec {
	specs := []lab.ClusterSpec{{Name: hubName, Controllers: true}}
	for _, m := range members {
		specs = append(specs, lab.ClusterSpec{Name: m.name, Nodes: m.nodes, PodSeconds: m.podSeconds, Logs: true})
	}
	return specs
}

// podLog is what the logs of pods on a member say: nothing runs in pods that KWOK plays.
func podLog(member string) []string {
	return []string{
		"This is the log of every pod on " + member + ": its nodes are played by KWOK, and run nothing.",
		"On a real member this is what Flux and the application print.",
	}
}
