package render

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// viewContainer is the init container that prepares what the brokers need, and copies Flux itself
// unless the container that runs it has its own.
func (m *miniCluster) viewContainer() corev1.Container {
	flux := &m.spec.Flux.Container
	return corev1.Container{
		Name:            flux.Name,
		Image:           flux.Image,
		Command:         []string{"/bin/bash", scriptsPath + "/" + initScript},
		ImagePullPolicy: pullPolicy("", flux.PullAlways),
		WorkingDir:      flux.WorkingDir,

		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		VolumeMounts:             m.commonMounts(),
		Resources:                *flux.Resources.DeepCopy(),
		SecurityContext:          securityContext(&flux.SecurityContext),
		Stdin:                    true,
		TTY:                      true,
	}
}

// containers are the one that runs Flux, called as the MiniCluster is, and its sidecars.
func (m *miniCluster) containers() []corev1.Container {
	var containers []corev1.Container
	for i := range m.spec.Containers {
		c := &m.spec.Containers[i]
		container := userContainer(c)
		container.VolumeMounts = append(m.commonMounts(), softwareMounts()...)
		switch {
		case i == m.runner:
			container.Name = m.name
			container.Command = []string{"/bin/bash", fmt.Sprintf("%s/wait-%d.sh", scriptsPath, i)}
			container.VolumeMounts = append(container.VolumeMounts, m.mungeMounts()...)
		case !c.NoWrapEntrypoint:
			container.Command = []string{"/bin/bash", fmt.Sprintf("%s/start-%d.sh", scriptsPath, i)}
		}
		container.VolumeMounts = append(container.VolumeMounts, userMounts(m.spec.Containers, i)...)
		containers = append(containers, container)
	}
	return containers
}

// userContainer is a container of the spec without its command and mounts.
func userContainer(c *fluxv1alpha2.MiniClusterContainer) corev1.Container {
	return corev1.Container{
		Name:            c.Name,
		Image:           c.Image,
		ImagePullPolicy: pullPolicy(c.ImagePullPolicy, c.PullAlways),
		WorkingDir:      c.WorkingDir,
		Ports:           ports(c.Ports),
		Env:             environment(c),
		Lifecycle:       lifecycle(&c.LifeCycle),
		Resources:       *c.Resources.DeepCopy(),
		SecurityContext: securityContext(&c.SecurityContext),
		Stdin:           true,
		TTY:             true,

		// What it wrote last says why it failed, also when its log is deleted.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
}

func pullPolicy(policy string, always bool) corev1.PullPolicy {
	switch {
	case always:
		return corev1.PullAlways
	case policy != "":
		return corev1.PullPolicy(policy)
	default:
		return corev1.PullIfNotPresent
	}
}

func ports(numbers []int32) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for _, number := range numbers {
		ports = append(ports, corev1.ContainerPort{ContainerPort: number, Protocol: corev1.ProtocolTCP})
	}
	return ports
}

// environment is sorted by name: the variables with values first, since those from Secrets may refer
// to none.
func environment(c *fluxv1alpha2.MiniClusterContainer) []corev1.EnvVar {
	var variables []corev1.EnvVar
	for _, name := range slices.Sorted(maps.Keys(c.Environment)) {
		variables = append(variables, corev1.EnvVar{Name: name, Value: c.Environment[name]})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		secret := c.Secrets[name]
		variables = append(variables, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: secret.Name},
				Key:                  secret.Key,
			},
		}})
	}
	return variables
}

func lifecycle(hooks *fluxv1alpha2.LifeCycle) *corev1.Lifecycle {
	if *hooks == (fluxv1alpha2.LifeCycle{}) {
		return nil
	}
	return &corev1.Lifecycle{PostStart: hook(hooks.PostStartExec), PreStop: hook(hooks.PreStopExec)}
}

// hook runs a command: one word as it is, for images without a shell, and anything else in a shell.
func hook(command string) *corev1.LifecycleHandler {
	if command == "" {
		return nil
	}
	argv := []string{"/bin/sh", "-c", command}
	if isPlainWord(command) {
		argv = []string{command}
	}
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: argv}}
}

func securityContext(context *corev1.SecurityContext) *corev1.SecurityContext {
	if equality.Semantic.DeepEqual(*context, corev1.SecurityContext{}) {
		return nil
	}
	return context.DeepCopy()
}
