package render

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// configPath is a path below the mount path, where users' scripts know it to be.
func (m *miniCluster) configPath(below string) string {
	return path.Join(m.spec.Flux.Container.MountPath, "config", below)
}

// leadHost is the hostname of the pod that leads: the first of all brokers.
func (m *miniCluster) leadHost() string {
	switch bursting := &m.spec.Flux.Bursting; {
	case m.leads():
		return m.name + "-0"
	case bursting.Hostlist != "":
		first, _ := cutHost(bursting.Hostlist)
		return first
	default:
		return bursting.LeadBroker.Name + "-0"
	}
}

// cutHost splits a hostlist into its first host and the others, such as a3x and a[5-7]x,b of
// a[3,5-7]x,b. What it does not understand is all in the others.
func cutHost(hostlist string) (first, rest string) {
	if found := plainHost.FindStringSubmatch(hostlist); found != nil {
		return found[1], found[2]
	}
	found := bracketedHosts.FindStringSubmatch(hostlist)
	if found == nil {
		return "", hostlist
	}
	prefix, number, last, others, suffix, rest := found[1], found[2], found[3], strings.TrimPrefix(found[4], ","), found[5], found[6]
	if last != "" {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return "", hostlist
		}
		next := fmt.Sprintf("%0*d", len(number), n+1)
		if next != last {
			next += "-" + last
		}
		others = strings.TrimSuffix(next+","+others, ",")
	}
	if others != "" {
		rest = strings.TrimSuffix(prefix+"["+others+"]"+suffix+","+rest, ",")
	}
	return prefix + number + suffix, rest
}

// plainHost and bracketedHosts match a hostlist that begins with one host, and with several.
var (
	plainHost      = regexp.MustCompile(`^([^\[\],]+)(?:,(.*))?$`)
	bracketedHosts = regexp.MustCompile(`^([^\[\],]*)\[([0-9]+)(?:-([0-9]+))?((?:,[0-9]+(?:-[0-9]+)?)*)\]([^\[\],]*)(?:,(.*))?$`)
)

// hostlist names the hosts of all brokers, in the order of their ranks, in Flux's notation (RFC 29):
// up to the largest size, since the brokers of a running cluster cannot be told of new hosts.
func (m *miniCluster) hostlist() string {
	bursting := &m.spec.Flux.Bursting
	if bursting.Hostlist != "" {
		return bursting.Hostlist
	}
	first := hosts(m.name, 0, m.spec.LargestSize())
	if lead := bursting.LeadBroker; !m.leads() {
		first = hosts(lead.Name, 0, lead.Size)
	}
	return strings.Join(append([]string{first}, m.burstedHosts()...), ",")
}

func (m *miniCluster) burstedHosts() []string {
	var names []string
	for _, cluster := range m.spec.Flux.Bursting.Clusters {
		names = append(names, hosts(cluster.Name, 0, cluster.Size))
	}
	return names
}

// hosts is the hostlist NAME-[FIRST-LAST] of count hosts.
func hosts(name string, first, count int32) string {
	if count == 1 {
		return fmt.Sprintf("%s-[%d]", name, first)
	}
	return fmt.Sprintf("%s-[%d-%d]", name, first, first+count-1)
}

// brokerConfig is the broker.toml of all brokers (flux-config(5)).
func (m *miniCluster) brokerConfig() string {
	if m.spec.Flux.BrokerConfig != "" {
		return m.spec.Flux.BrokerConfig
	}
	domain := fmt.Sprintf("%s.%s.svc.cluster.local", m.spec.Network.HeadlessName, m.namespace)
	var b strings.Builder
	b.WriteString("[access]\nallow-guest-user = true\nallow-root-owner = true\n\n")
	fmt.Fprintf(&b, "# What the brokers have to run on; the entrypoint writes it (flux-R(1)).\n[resource]\npath = %s\n\n",
		tomlString(m.configPath("etc/flux/system/R")))
	fmt.Fprintf(&b, "[bootstrap]\ncurve_cert = %s\ndefault_port = %d\ndefault_bind = \"tcp://eth0:%%p\"\ndefault_connect = %s\n%s\n",
		tomlString(m.configPath("curve/curve.cert")), fluxv1alpha2.DefaultBrokerPort,
		tomlString("tcp://%h."+domain+":%p"), m.hostBlock())
	fmt.Fprintf(&b, "[archive]\ndbpath = %s\nperiod = \"1m\"\nbusytimeout = \"50s\"\n\n",
		tomlString(m.configPath("var/lib/flux/job-archive.sqlite")))
	fmt.Fprintf(&b, "[sched-fluxion-qmanager]\nqueue-policy = %s\n", tomlString(m.spec.Flux.Scheduler.QueuePolicy))
	if m.spec.Flux.Scheduler.Simple {
		b.WriteString("\n[modules]\nalternatives.sched = \"sched-simple\"\nalternatives.feasibility = \"sched-simple\"\n")
	}
	return b.String()
}

// hostBlock lists the brokers in the order of their ranks. A lead broker in another cluster has an
// address of its own, since names of this cluster's DNS do not lead there.
func (m *miniCluster) hostBlock() string {
	first, rest := "", m.hostlist()
	if !m.leads() {
		first, rest = cutHost(rest)
	}
	block := "hosts = [\n"
	if first != "" {
		lead := m.spec.Flux.Bursting.LeadBroker
		port := strconv.Itoa(int(lead.Port))
		block += fmt.Sprintf("  { host = %s, bind = %s, connect = %s },\n",
			tomlString(first), tomlString("tcp://eth0:"+port), tomlString("tcp://"+bracketed(lead.Address)+":"+port))
	}
	if rest != "" {
		block += fmt.Sprintf("  { host = %s },\n", tomlString(rest))
	}
	return block + "]\n"
}

// bracketed puts an IPv6 address in brackets, as URIs want it.
func bracketed(address string) string {
	if strings.Contains(address, ":") && !strings.HasPrefix(address, "[") {
		return "[" + address + "]"
	}
	return address
}

// brokerOptions are the options of every broker, one word each: broker attributes
// (flux-broker-attributes(7)) that old and new versions of Flux know.
func (m *miniCluster) brokerOptions() []string {
	flux, logging := &m.spec.Flux, &m.spec.Logging
	topology := flux.Topology
	if topology == "" {
		// Wide, so that all but the largest clusters are one level deep.
		topology = "kary:256"
	}
	options := []string{
		"--config-path=" + m.configPath("etc/flux/config"),
		"-Scron.directory=" + m.configPath("etc/flux/system/cron.d"),
		"-Srundir=" + m.configPath("run/flux"),
		"-Sstatedir=" + m.configPath("var/lib/flux"),
		"-Stbon.topo=" + topology,
		"-Stbon.connect_timeout=" + flux.ConnectTimeout,
		"-Sbroker.cleanup-timeout=" + strconv.Itoa(cleanupSeconds) + "s",
		"-Slog-stderr-mode=local",
		"-Slog-stderr-level=" + strconv.Itoa(int(m.logLevel())),
	}
	if !flux.DisableSocket {
		options = append(options, "-Slocal-uri="+m.socket())
	}
	if m.spec.Interactive {
		options = append(options, "-Sbroker.rc2_none")
	}
	if quorum := m.quorum(); quorum > 0 {
		options = append(options, "-Sbroker.quorum="+strconv.Itoa(int(quorum)))
	}
	if logging.Zeromq {
		options = append(options, "-Stbon.zmqdebug=1")
	}
	return options
}

// socket is the URI of the local broker, which sidecars and people connect to.
func (m *miniCluster) socket() string {
	return "local://" + m.configPath("run/flux/local")
}

// logLevel keeps errors when the log is to be quiet: Flux's own default is to show them.
func (m *miniCluster) logLevel() int32 {
	if m.spec.Logging.Quiet {
		return 3
	}
	return m.spec.Flux.LogLevel
}

// quorum is how many brokers must be up before the command runs; 0 is all. Flux knows more hosts than
// there are pods when the cluster is elastic, or when clusters are burst to, which come later.
func (m *miniCluster) quorum() int32 {
	switch {
	case m.spec.MinSize > 0:
		return m.spec.MinSize
	case m.spec.LargestSize() > m.spec.Size || len(m.spec.Flux.Bursting.Clusters) > 0:
		return m.spec.Size
	default:
		return 0
	}
}

// tomlString is a basic string of TOML.
func tomlString(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
