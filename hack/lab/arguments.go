package lab

import (
	"path/filepath"
	"strconv"
	"strings"
)

// memberControllers are what a cluster that runs Jobs needs and what a tenant of it would notice. They
// are named in full because `*` would bring forty more, each with its informers.
var memberControllers = []string{
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"node-lifecycle-controller",
	"pod-garbage-collector-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"taint-eviction-controller",
	"ttl-after-finished-controller",
	"endpointslice-controller",
}

func apiServerArgs(c *Cluster, port int) []string {
	file := func(name string) string { return filepath.Join(c.dir, name) }
	etcd := func(name string) string { return filepath.Join(c.lab.etcdDir, name) }
	args := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(port),
		"--etcd-servers=" + c.lab.etcdURL,
		"--etcd-prefix=/" + c.spec.Name,
		"--etcd-cafile=" + etcd("ca.crt"), "--etcd-certfile=" + etcd("client.crt"), "--etcd-keyfile=" + etcd("client.key"),
		"--cert-dir=" + file("certs"),
		"--tls-cert-file=" + file("server.crt"), "--tls-private-key-file=" + file("server.key"),
		"--client-ca-file=" + file("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file("sa.pub"), "--service-account-signing-key-file=" + file("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--allow-privileged=true", // as most clusters do; who may use it is for admission to say
		// An endpoint of the kubernetes Service on a loopback address would be refused.
		"--endpoint-reconciler-type=none",
		"--audit-policy-file=" + file("audit-policy.yaml"),
		"--audit-log-path=" + c.AuditLog(),
		// A request is in the log before it is answered: a test that has seen the answer finds it.
		"--audit-log-mode=blocking-strict",
		"--profiling=false",
		"--kubelet-preferred-address-types=InternalIP", // names of nodes mean nothing to this machine
	}
	return append(args, c.spec.APIServerArgs...)
}

func controllerManagerArgs(c *Cluster) []string {
	return []string{
		"--controllers=" + strings.Join(memberControllers, ","),
		"--service-account-private-key-file=" + filepath.Join(c.dir, "sa.key"),
		"--root-ca-file=" + filepath.Join(c.dir, "ca.crt"),
		"--leader-elect=false",
		"--secure-port=0", // nobody asks it for metrics
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--profiling=false",
	}
}

func schedulerArgs() []string {
	return []string{
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--profiling=false",
	}
}

func kwokArgs(c *Cluster) []string {
	file := func(name string) string { return filepath.Join(c.dir, name) }
	args := []string{"--config=" + file("kwok.yaml")}
	if c.spec.Logs {
		args = append(args, "--server-address="+localAddress(c.kubeletPort),
			"--tls-cert-file="+file("server.crt"), "--tls-private-key-file="+file("server.key"))
	}
	return args
}
