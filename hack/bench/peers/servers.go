package peers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/controllers"
	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/lab"
)

const hubName = "hub"

var memberNames = []string{"alpine", "basalt", "cinder"}

// patience bounds each wait but that for a push.
const patience = 5 * time.Minute

// servers are what all peers share: API servers, Job controllers, and a Git server.
type servers struct {
	options Options
	dir     string

	lab *lab.Lab
	git *lab.GitServer
	// clients and bare are the harness's own, by cluster; bare ones speak protobuf.
	clients map[string]client.Client
	bare    map[string]*kubernetes.Clientset
	audit   map[string]*lab.AuditReader
	// registered says that MiniFleet's members are.
	registered bool
}

func (s *servers) start(ctx context.Context) error {
	specs := []lab.ClusterSpec{{Name: hubName, Controllers: true}}
	for _, name := range memberNames {
		spec := lab.ClusterSpec{Name: name, Controllers: true, PodSeconds: int(time.Hour.Seconds())}
		for i := range s.options.Nodes {
			spec.Nodes = append(spec.Nodes, lab.Node{Name: fmt.Sprintf("%s-%d", name, i), CPU: "4000", Memory: "8Ti"})
		}
		specs = append(specs, spec)
	}
	var err error
	s.lab, err = lab.Start(context.WithoutCancel(ctx), lab.Options{Dir: filepath.Join(s.dir, "lab"), Clusters: specs})
	if err != nil {
		return err
	}
	if s.git, err = lab.NewGitServer(filepath.Join(s.dir, "repositories")); err != nil {
		return err
	}
	if err := s.connect(); err != nil {
		return err
	}
	s.options.Progress(fmt.Sprintf("a hub and %d members are ready", len(memberNames)))
	return nil
}

func (s *servers) connect() error {
	scheme, err := controllers.NewScheme()
	if err != nil {
		return err
	}
	s.clients, s.bare, s.audit = map[string]client.Client{}, map[string]*kubernetes.Clientset{}, map[string]*lab.AuditReader{}
	for _, c := range s.lab.Clusters() {
		if !c.Owned() {
			return fmt.Errorf("the measurements read audit logs: unset %s", lab.StandInEnv)
		}
		cfg, err := c.RESTConfig()
		if err != nil {
			return err
		}
		if s.clients[c.Name()], err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
			return err
		}
		cfg.ContentType = "application/vnd.kubernetes.protobuf"
		if s.bare[c.Name()], err = kubernetes.NewForConfig(cfg); err != nil {
			return err
		}
		s.audit[c.Name()] = &lab.AuditReader{Path: c.AuditLog()}
	}
	return nil
}

func (s *servers) hub() client.Client { return s.clients[hubName] }

func (s *servers) stop() error {
	var errs []error
	if s.git != nil {
		errs = append(errs, s.git.Stop())
	}
	if s.lab != nil {
		errs = append(errs, s.lab.Kill())
	}
	return errors.Join(errs...)
}

// eventually asks until the answer is yes.
func eventually(ctx context.Context, what string, ask func(context.Context) (bool, error)) error {
	return wait.Until(ctx, patience, what, ask)
}
