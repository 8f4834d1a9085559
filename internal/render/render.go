// Package render turns a MiniCluster into the objects that run it on one member.
//
// It is pure: the same Input gives the same bytes, nothing given to it is changed, and it knows no
// client, clock or randomness. Each object has a file here, and each part of the spec has one:
//
//	job.go           size, backoffLimit, deadlineSeconds, jobLabels
//	pod.go           pod, shareProcessNamespace, network.disableAffinity, flux.arch, pull secrets
//	containers.go    containers and flux.container: images, environment, ports, hooks, resources
//	volumes.go       volumes of containers and services, flux.mungeSecret, and mounts of our own
//	services.go      network.headlessName, flux.minimalService, ports of sidecars
//	servicespod.go   services
//	secret.go        flux.curveCert
//	configmap.go     the files that the pods run, which are made in:
//	scripts.go       commands, command, batch, launcher, script, tasks, flux.container, flux.environment
//	broker.go        maxSize, minSize, flux.bursting, brokerConfig, the options of the brokers
//	metadata.go      labels and annotations of all objects
//
// What is shell in the scripts themselves is in the templates under scripts; docs/fields.md has every field.
package render

import (
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
	"github.com/minifleet/minifleet/internal/fleet"
)

// Input is all that the objects of one MiniCluster on one member follow from.
type Input struct {
	// Name and Namespace of the MiniCluster on the member. The Job bears the name, since its pods'
	// hostnames, NAME-INDEX, are the brokers' names.
	Name, Namespace string
	// Spec of the MiniCluster. Defaults are applied to a copy.
	Spec fluxv1alpha2.MiniClusterSpec
	// Valid says that Spec, with its defaults, was found to be valid for Name: it is not validated again.
	Valid bool
	// CurveCert is the brokers' certificate, a zcert file. spec.flux.curveCert wins over it.
	CurveCert []byte
	// Keyless has Support do without a certificate: its Secret has no key, and is only to be compared with.
	Keyless bool
	// RunID is the label of the Job and its pods that tells this run from others. Empty: no label.
	RunID string
	// Suspend creates the Job without pods.
	Suspend bool
	// Origin is what deletes are checked against. The zero Origin gives no annotations.
	Origin fleet.Origin
}

// Bundle is the objects of one MiniCluster on one member.
type Bundle struct {
	Secret    *corev1.Secret
	ConfigMap *corev1.ConfigMap
	Services  []*corev1.Service // the headless one first
	// ServicesPod runs what is beside the brokers, for as long as they run; nil without spec.services.
	ServicesPod *corev1.Pod
	// Job is nil where only what is beside it was asked for.
	Job *batchv1.Job
}

// Object is what all rendered objects are.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects returns the objects in the order to apply them in: what pods need comes before the Job.
func (b *Bundle) Objects() []Object {
	objects := []Object{b.Secret, b.ConfigMap}
	for _, service := range b.Services {
		objects = append(objects, service)
	}
	if b.ServicesPod != nil {
		objects = append(objects, b.ServicesPod)
	}
	if b.Job != nil {
		objects = append(objects, b.Job)
	}
	return objects
}

// Render returns the objects of a MiniCluster, each with its kind set. The error of a MiniCluster that
// cannot run is the aggregate of a field.ErrorList with every problem of it.
func Render(in Input) (*Bundle, error) {
	m, err := prepare(in)
	if err != nil {
		return nil, err
	}
	bundle, err := m.support()
	if err != nil {
		return nil, err
	}
	bundle.ServicesPod, bundle.Job = m.servicesPod(), m.job()
	if bundle.ServicesPod != nil {
		if err := stampDigest(bundle.ServicesPod); err != nil {
			return nil, err
		}
	}
	return bundle, stampDigest(bundle.Job)
}

// Support returns what Render would of what pods need beside themselves, Secret, ConfigMap and Services, without Job and
// ServicesPod: for those who compare it with what is on a member, which they do much more often than a run begins.
func Support(in Input) (*Bundle, error) {
	m, err := prepare(in)
	if err != nil {
		return nil, err
	}
	m.keyless = in.Keyless && m.spec.Flux.CurveCert == ""
	return m.support()
}

func (m *miniCluster) support() (*Bundle, error) {
	secret, err := m.secret()
	if err != nil {
		return nil, err
	}
	configMap, err := m.configMap()
	if err != nil {
		return nil, err
	}
	bundle := &Bundle{Secret: secret, ConfigMap: configMap, Services: m.services()}
	for _, object := range bundle.Objects() {
		if err := stampDigest(object); err != nil {
			return nil, err
		}
	}
	return bundle, nil
}

// miniCluster is a MiniCluster with its defaults, known to be valid: what the builders of objects read.
type miniCluster struct {
	name, namespace string
	spec            fluxv1alpha2.MiniClusterSpec
	runner          int // the index of the container that runs Flux
	in              Input
	keyless         bool // its Secret has no key
}

func prepare(in Input) (*miniCluster, error) {
	if in.Namespace == "" {
		return nil, errors.New("render: a MiniCluster needs a namespace")
	}
	spec := in.Spec.DeepCopy()
	spec.Default()
	if !in.Valid {
		if problems := fluxv1alpha2.Validate(in.Name, spec, field.NewPath("spec")); len(problems) > 0 {
			return nil, fmt.Errorf("MiniCluster %s/%s: %w", in.Namespace, in.Name, problems.ToAggregate())
		}
	}
	if spec.Network.HeadlessName == "" {
		spec.Network.HeadlessName = in.Name
	}
	return &miniCluster{name: in.Name, namespace: in.Namespace, spec: *spec, runner: spec.FluxRunner(), in: in}, nil
}

// leads says whether pod 0 leads the brokers, as it does unless they join those of another cluster.
func (m *miniCluster) leads() bool {
	return m.spec.Flux.Bursting.LeadBroker == (fluxv1alpha2.FluxBroker{})
}
