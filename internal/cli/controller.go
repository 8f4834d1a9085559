package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/clusters"
	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/internal/headroom"
	"github.com/minifleet/minifleet/internal/policy"
	"github.com/minifleet/minifleet/internal/tenant"
	"github.com/minifleet/minifleet/internal/version"
)

// serviceAccountNamespace is where a pod finds the namespace that it runs in.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// startTime is for how long the controller collects garbage less often when it starts, and when it begins to lead: longer than it
// takes for a thousand MiniClusters to be reconciled.
const startTime = 15 * time.Second

type controllerFlags struct {
	kubeconfig, logLevel string
	development          bool
	options              controllers.Options
	dashboard            servingFlags
	git                  gitFlags
	receiver             receiverFlags
	profiles             clusterProfileFlags
	notifications        notificationFlags
	tracing              tracingFlags
}

func newController() *cobra.Command {
	var f controllerFlags
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the hub controller",
		Long: "Runs the hub controller. Inside a cluster it uses the pod's service account, elsewhere --kubeconfig or\n" +
			"the environment variable KUBECONFIG.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig of the hub; empty: in-cluster, or $KUBECONFIG")
	flags.StringVar(&f.options.Namespace, "namespace", "", "namespace of the members' kubeconfig Secrets and of the lease; empty: the pod's own, or minifleet-system")
	flags.StringVar(&f.options.Shard, "shard", "",
		"take the MemberClusters, Placements, GitSources, FleetMiniClusters and Notifications with the label minifleet.dev/shard of this value; empty: those without the label (docs/sharding.md)")
	flags.BoolVar(&f.options.LeaderElection, "leader-elect", true, "wait until no other controller is active")
	flags.StringVar(&f.options.MetricsAddress, "metrics-bind-address", "127.0.0.1:8080", "address of /metrics; 0 turns it off, and another than a loopback one takes --metrics-secure")
	flags.BoolVar(&f.options.MetricsSecure, "metrics-secure", false, "serve /metrics over TLS, to those whom the hub lets get it")
	flags.StringVar(&f.options.MetricsCertDir, "metrics-cert-dir", "", "directory of tls.crt and tls.key for --metrics-secure; empty: a self-signed certificate")
	flags.StringVar(&f.options.ProbeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz; 0 turns it off")
	flags.IntVar(&f.options.Workers, "workers", 32, "how many FleetMiniClusters are reconciled at once")
	flags.DurationVar(&f.options.FollowInterval, "follow-interval", time.Minute,
		"how often the hub's Secrets and ConfigMaps that live runs have copies of are read")
	flags.StringSliceVar((*[]string)(&f.options.Reserved), "reserved-namespaces", tenant.DefaultReserved,
		"namespaces of members that no namespace of the hub may use: patterns with *; the manager's own is always one")
	flags.Int32Var(&f.options.DefaultMaxPriority, "default-max-priority", 0,
		"highest spec.priority that counts among MiniClusters of other namespaces, where the annotation minifleet.dev/max-priority of the namespace does not say another")
	flags.StringSliceVar(&f.options.Policy.PodAnnotations, "allowed-pod-annotations", policy.DefaultPodAnnotations(),
		"annotations of pods that take no permission, by key, or by the beginning of a key and *; what is known to reach the node takes one all the same")
	flags.BoolVar(&f.options.AllowUnenforced, "allow-without-admission-policy", false,
		"let spec.allow of GitSources count on a hub without the admission policy of config/policy: for where only those may write GitSources who may let them use anything")
	flags.Float64Var(&f.options.IntervalScale, "interval-scale", 1, "factor for the intervals between attempts; for tests")
	_ = flags.MarkHidden("interval-scale") // fails for unknown names only
	flags.Float64Var(&f.options.MemberLimitFactor, "member-limit-factor", 1, "factor for what a member may answer before it is quarantined, from 1 to 100 (docs/members.md)")
	flags.IntVar(&f.options.MemberConnects, "member-connects", clusters.DefaultConnects, "how many members are connected at once when the hub starts, or many return; 0 is no bound")
	f.git.add(flags)
	f.receiver.add(flags)
	f.profiles.add(flags)
	f.notifications.add(flags)
	f.dashboard.add(flags)
	f.tracing.add(flags)
	flags.StringVar(&f.options.PprofAddress, "pprof-bind-address", "", "loopback address, such as 127.0.0.1:6060, of Go's profiles at /debug/pprof; empty: none")
	flags.StringVar(&f.logLevel, "log-level", "info", "one of debug, info, error")
	flags.BoolVar(&f.development, "log-text", false, "log lines for people instead of JSON")
	return cmd
}

// check says which flag is wrong, and reads those that have to be.
func (f *controllerFlags) check() (err error) {
	o := &f.options
	if err := checkNumbers(o); err != nil {
		return invalid{err}
	}
	if err := v1alpha1.CheckShard(o.Shard); err != nil {
		return invalid{fmt.Errorf("--shard: %w", err)}
	}
	if err := o.Reserved.Validate(); err != nil {
		return invalid{fmt.Errorf("--reserved-namespaces: %w", err)}
	}
	if err := policy.CheckPodAnnotations(o.Policy.PodAnnotations); err != nil {
		return invalid{fmt.Errorf("--allowed-pod-annotations: %w", err)}
	}
	if err := checkMetrics(o.MetricsAddress, o.MetricsSecure); err != nil {
		return err
	}
	if err := checkPprof(o.PprofAddress); err != nil {
		return err
	}
	if err := f.tracing.check(); err != nil {
		return err
	}
	if o.Git, err = f.git.options(); err != nil {
		return invalid{err}
	}
	if o.ClusterProfiles, err = f.profiles.options(); err != nil {
		return invalid{err}
	}
	if o.Notifications, err = f.notifications.options(f.dashboard.url); err != nil {
		return invalid{err}
	}
	if err := f.receiver.check(); err != nil {
		return err
	}
	return f.dashboard.check()
}

// checkNumbers says which number is out of range.
func checkNumbers(o *controllers.Options) error {
	switch {
	case o.Workers < 1:
		return errors.New("--workers must be at least 1")
	case o.FollowInterval < time.Second:
		return errors.New("--follow-interval must be at least 1s")
	case o.IntervalScale <= 0:
		return errors.New("--interval-scale must be more than 0")
	case o.MemberLimitFactor < 1 || o.MemberLimitFactor > 100:
		return errors.New("--member-limit-factor must be from 1 to 100")
	case o.MemberConnects < 0:
		return errors.New("--member-connects must be at least 0")
	}
	return nil
}

func (f *controllerFlags) run(cmd *cobra.Command) error {
	if err := f.setUpLogs(); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	detectSilence()
	cfg, err := f.restConfig()
	if err != nil {
		return err
	}
	if f.options.Namespace == "" {
		f.options.Namespace = ownNamespace()
	}
	f.options.Now = time.Now
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	endTracing, err := f.tracing.start(ctx, ctrl.Log.WithName("tracing"))
	if err != nil {
		return err
	}
	defer endTracing()
	f.options.Webhooks = f.receiver.server()
	headroom.Give(startTime)
	mgr, err := controllers.NewManager(ctx, cfg, f.options)
	if err != nil {
		return err
	}
	if f.receiver.on() {
		if err := f.receiver.serve(mgr.GetLocalManager(), cfg, f.options.Namespace, f.options.Webhooks); err != nil {
			return err
		}
	}
	if f.dashboard.on() {
		if err := f.dashboard.serve(mgr, cfg, f.options.Namespace); err != nil {
			return err
		}
	}
	// One that has waited for the lease connects the members, and reconciles everything, when it has that.
	if err := mgr.GetLocalManager().Add(manager.RunnableFunc(func(context.Context) error {
		headroom.Give(startTime)
		return nil
	})); err != nil {
		return err
	}
	ctrl.Log.Info("starting", "version", version.String(), "namespace", f.options.Namespace, "shard", f.options.Shard)
	return mgr.Start(ctx)
}

// checkMetrics refuses metrics that anybody in reach could read.
func checkMetrics(address string, secure bool) error {
	if address == "0" || secure {
		return nil
	}
	loopback, err := isLoopback(address)
	if err != nil {
		return invalid{fmt.Errorf("--metrics-bind-address: %w", err)}
	}
	if !loopback {
		return invalid{fmt.Errorf("--metrics-bind-address: %s is no loopback address, so that others could read the metrics: add --metrics-secure, or listen on 127.0.0.1", address)}
	}
	return nil
}

// checkPprof refuses profiles that others could read: they show what is in memory.
func checkPprof(address string) error {
	if address == "" || address == "0" {
		return nil
	}
	loopback, err := isLoopback(address)
	if err != nil {
		return invalid{fmt.Errorf("--pprof-bind-address: %w", err)}
	}
	if !loopback {
		return invalid{fmt.Errorf("--pprof-bind-address: %s is no loopback address, and profiles show what is in memory: listen on 127.0.0.1, and use kubectl port-forward", address)}
	}
	return nil
}

// isLoopback says whether HOST:PORT is reached from this machine, or this pod, alone.
func isLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback(), nil
}

func (f *controllerFlags) setUpLogs() error {
	var level zapcore.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return invalid{fmt.Errorf("--log-level: %q is none of debug, info, error", f.logLevel)}
	}
	log := newLogger(level, f.development, os.Stderr)
	ctrl.SetLogger(log)
	klog.SetLogger(log.WithName("client-go"))
	return nil
}

// newLogger writes lines of JSON, or for people.
func newLogger(level zapcore.Level, development bool, to io.Writer) logr.Logger {
	return sanitized(ctrlzap.New(ctrlzap.UseDevMode(false), ctrlzap.Level(zap.NewAtomicLevelAt(level)), ctrlzap.WriteTo(to), func(o *ctrlzap.Options) {
		encoder := zap.NewProductionEncoderConfig()
		encoder.EncodeTime = zapcore.RFC3339TimeEncoder
		o.Encoder = zapcore.NewJSONEncoder(encoder)
		if development {
			o.Encoder = zapcore.NewConsoleEncoder(encoder)
		}
	}))
}

// detectSilence makes the Kubernetes client libraries notice a connection that has gone silent within 15
// seconds rather than 45. They take these settings from the environment only.
func detectSilence() {
	for name, seconds := range map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "10", "HTTP2_PING_TIMEOUT_SECONDS": "5"} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, seconds) // fails for malformed names only
		}
	}
}

func (f *controllerFlags) restConfig() (*rest.Config, error) {
	if f.kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		if cfg, err := rest.InClusterConfig(); err == nil {
			return cfg, nil
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = f.kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, invalid{fmt.Errorf("no connection to a hub: give --kubeconfig or set KUBECONFIG: %w", err)}
	}
	return cfg, nil
}

func ownNamespace() string {
	if body, err := os.ReadFile(serviceAccountNamespace); err == nil {
		if ns := strings.TrimSpace(string(body)); ns != "" {
			return ns
		}
	}
	return "minifleet-system"
}
