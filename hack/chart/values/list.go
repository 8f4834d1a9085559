package values

import "slices"

// Config is what the defaults are taken from.
type Config struct {
	Repository string
	Replicas   int64
	Resources  map[string]any
	// Parts are the components of config that exist, and Default those that are on by default.
	Parts, Default []string
	// PodLabels and PodAnnotations are keys that config sets, and values may not.
	PodLabels, PodAnnotations []string
	// Share is GOMEMLIMIT as a share of the limit of memory, in percent.
	Share string
}

func text() Schema    { return Schema{"type": "string"} }
func boolean() Schema { return Schema{"type": "boolean"} }
func oneOf(values ...string) Schema {
	return Schema{"type": "string", "enum": values}
}

// name is one of an object of Kubernetes.
func name() Schema {
	return Schema{"type": "string", "minLength": 1, "maxLength": 253, "pattern": `^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`}
}

// texts are labels or annotations, without the keys that config sets.
func texts(not ...string) Schema {
	s := Schema{"type": "object", "additionalProperties": Schema{"type": "string"}}
	if len(not) > 0 {
		s["propertyNames"] = Schema{"not": Schema{"enum": not}}
	}
	return s
}

// objects are items of which Kubernetes has the fields, and that have these at least.
func objects(required ...string) Schema {
	item := Schema{"type": "object"}
	if len(required) > 0 {
		item["required"] = required
	}
	return Schema{"type": "array", "items": item}
}

// arguments are flags: what does not begin with -- would be read as a command.
func arguments() Schema {
	return Schema{"type": "array", "items": Schema{"type": "string", "pattern": "^--[a-z]"}}
}

func amounts() Schema {
	return Schema{"type": "object", "additionalProperties": Schema{"type": []string{"string", "number"}}}
}

func resources() Schema {
	return Schema{"type": "object", "additionalProperties": false, "properties": Schema{
		"limits": amounts(), "requests": amounts(), "claims": objects("name"),
	}}
}

// List returns all values.
func List(c Config) []Value {
	has := func(part string) bool { return slices.Contains(c.Parts, part) }
	on := func(part string) bool { return slices.Contains(c.Default, part) }
	out := slices.Concat(image(c), pod(c), []Value{
		{"serviceAccount.annotations", map[string]any{}, texts(), "Annotations of the controller's ServiceAccount."},
		{"namespace.create", false, boolean(), "Have a Namespace with its labels among the templates, for `helm template`, Argo CD and whoever else applies\nwhat is rendered. `helm install` wants a namespace that exists, and refuses one that it has not made itself."},
		{"crds.enabled", true, boolean(), "Install the CustomResourceDefinitions, and upgrade them with the release. They stay when the release is uninstalled,\nand when this becomes false: to delete them is to delete every object and every run."},
		{"admissionPolicy.enabled", true, boolean(), "Install the admission policy of spec.allow of GitSources, on clusters that serve such policies (Kubernetes 1.30 or\nlater). Without it, what sources allow does not count."},
	})
	if has("network-policy") {
		out = append(out, Value{"networkPolicy.enabled", on("network-policy"), boolean(), "Install NetworkPolicies: who may reach the controller, and whom it may reach."})
	}
	for _, p := range []struct{ key, what string }{{"dashboard", "the dashboard"}, {"receiver", "the receiver of webhooks"}} {
		if has(p.key) {
			out = append(out, served(p.key, p.what, on(p.key))...)
		}
	}
	if has("cluster-profiles") {
		out = append(out, Value{"clusterProfiles.enabled", on("cluster-profiles"), boolean(), "Reach members by ClusterProfiles (docs/members.md). ConfigMap minifleet-cluster-profiles, and the plugins that it names, are yours to\nadd, these with extraVolumes and extraVolumeMounts."})
	}
	if has("monitoring") {
		out = append(out, Value{"monitoring.enabled", on("monitoring"), boolean(), "Install what config/monitoring has. Its kinds, such as ServiceMonitor and PrometheusRule, have to be served by the cluster."})
	}
	return out
}

func image(c Config) []Value {
	return []Value{
		{"image.repository", c.Repository, Schema{"type": "string", "minLength": 1, "pattern": "^[^@ ]+$"}, "Registry and name of the image, without tag and digest."},
		{"image.tag", "", Schema{"type": "string", "pattern": "^[A-Za-z0-9_.-]*$"}, "Tag of the image; empty: the version of the chart's application."},
		{"image.digest", "", Schema{"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}, "Digest of the image, sha256:…, which counts in place of the tag: a tag can be moved, and a digest cannot."},
		{"image.pullPolicy", "", oneOf("", "Always", "IfNotPresent", "Never"), "When nodes pull the image; empty: what Kubernetes does by default."},
		{"image.pullSecrets", []any{}, objects("name"), "Secrets with credentials of the registry: a list of {name: NAME}."},
	}
}

func pod(c Config) []Value {
	return []Value{
		{"replicas", c.Replicas, Schema{"type": "integer", "minimum": 0}, "How many controllers there are. All but one wait for the lease of that one, which a crash makes available after seconds."},
		{"resources", c.Resources, resources(), "What the controller's container requests, and may use."},
		{"gomemlimit", "", Schema{"type": "string", "pattern": "^([0-9]+([KMGT]i)?B?|off)?$"}, "GOMEMLIMIT of the controller, above which it collects garbage more often; empty: " + c.Share + " % of resources.limits.memory."},
		{"nodeSelector", map[string]any{}, texts(), "Labels of the nodes that the controller may run on."},
		{"tolerations", []any{}, objects(), "Taints that the controller tolerates."},
		{"affinity", map[string]any{}, Schema{"type": "object"}, "Affinity of the controller's pods."},
		{"topologySpreadConstraints", []any{}, objects("maxSkew", "topologyKey", "whenUnsatisfiable"), "How the controller's pods are spread."},
		{"priorityClassName", "", text(), "PriorityClass of the controller's pods."},
		{"podLabels", map[string]any{}, texts(c.PodLabels...), "More labels of the controller's pods."},
		{"podAnnotations", map[string]any{}, texts(c.PodAnnotations...), "More annotations of the controller's pods."},
		{"extraArgs", []any{}, arguments(), "More flags of the controller: `minifleet controller --help` lists them. The last of two that are the same counts."},
		{"extraEnv", []any{}, objects("name"), "More variables of the controller's environment, such as HTTPS_PROXY."},
		{"extraVolumes", []any{}, objects("name"), "More volumes of the controller's pods, such as one with certificates that --dashboard-oidc-ca-file names."},
		{"extraVolumeMounts", []any{}, objects("name", "mountPath"), "Where those are mounted in the controller's container."},
	}
}

// served is a part that listens, with a Service that leads to the leader.
func served(key, what string, on bool) []Value {
	port := map[string]string{"dashboard": "8443", "receiver": "9292"}[key]
	out := []Value{{key + ".enabled", on, boolean(), "Serve " + what + "."}}
	if key == "dashboard" {
		out = append(out, Value{key + ".writes", false, boolean(), "Let people change things through it, with their own rights."})
	}
	return append(out,
		Value{key + ".tlsSecretName", "minifleet-" + key + "-tls", name(), "Secret in the release's namespace with tls.crt and tls.key of " + what + ". The pod starts when it is there."},
		Value{key + ".extraArgs", []any{}, arguments(), "More flags of the controller that count where " + what + " is served."},
		Value{key + ".service.type", "ClusterIP", oneOf("ClusterIP", "NodePort", "LoadBalancer"), "Type of Service minifleet-" + key + ". It selects no pods: the replica that leads writes its address."},
		Value{key + ".service.loadBalancerClass", "", text(), "Class of the load balancer, for type LoadBalancer."},
		Value{key + ".service.annotations", map[string]any{}, texts(), "Annotations of the Service."},
		Value{key + ".ingress.enabled", false, boolean(), "Install an Ingress to the Service. The pod speaks TLS at port " + port + ": tell your controller of Ingresses so in the annotations."},
		Value{key + ".ingress.className", "", text(), "Class of the Ingress; empty: the cluster's default."},
		Value{key + ".ingress.host", "", Schema{"type": "string", "pattern": `^([a-z0-9*]([-a-z0-9.]*[a-z0-9])?)?$`}, "Name by which it is reached."},
		Value{key + ".ingress.tlsSecretName", "", Schema{"type": "string", "pattern": `^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$`}, "Secret with the certificate of that name, for the controller of Ingresses; empty: none."},
		Value{key + ".ingress.annotations", map[string]any{}, texts(), "Annotations of the Ingress."},
	)
}
