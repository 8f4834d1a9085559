package podrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// source is where values that a pod refers to come from.
type source struct {
	client kubernetes.Interface
	hub    *rest.Config
	pod    *corev1.Pod
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment returns the container's variables: those of the image, where the hub is, then the container's own, which may
// refer to earlier ones.
func (s source) environment(ctx context.Context, container corev1.Container, image []string) (map[string]string, error) {
	env := map[string]string{"PATH": defaultPath, "HOSTNAME": s.pod.Name}
	for _, pair := range image {
		key, value, _ := strings.Cut(pair, "=")
		env[key] = value
	}
	hub, err := url.Parse(s.hub.Host)
	if err != nil {
		return nil, fmt.Errorf("the address of the hub: %w", err)
	}
	host, port, err := net.SplitHostPort(hub.Host)
	if err != nil {
		return nil, fmt.Errorf("the address of the hub: %w", err)
	}
	env["KUBERNETES_SERVICE_HOST"], env["KUBERNETES_SERVICE_PORT"] = host, port
	if len(container.EnvFrom) > 0 {
		return nil, errors.New("envFrom is not supported here")
	}
	for _, variable := range container.Env {
		value, found, err := s.variable(ctx, variable)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", variable.Name, err)
		}
		if found {
			env[variable.Name] = expand(value, env)
		}
	}
	return env, nil
}

func (s source) variable(ctx context.Context, variable corev1.EnvVar) (value string, found bool, err error) {
	from := variable.ValueFrom
	switch {
	case from == nil:
		return variable.Value, true, nil
	case from.FieldRef != nil:
		value, err := field(s.pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.SecretKeyRef != nil:
		secret, err := s.secret(ctx, from.SecretKeyRef.Name)
		return one(secret, from.SecretKeyRef.Key, isTrue(from.SecretKeyRef.Optional), err)
	case from.ConfigMapKeyRef != nil:
		configMap, err := s.configMap(ctx, from.ConfigMapKeyRef.Name)
		return one(configMap, from.ConfigMapKeyRef.Key, isTrue(from.ConfigMapKeyRef.Optional), err)
	}
	return "", false, errors.New("where its value comes from is not supported here")
}

func one(data map[string][]byte, key string, optional bool, err error) (string, bool, error) {
	value, found := data[key]
	if !found && err == nil {
		err = fmt.Errorf("there is no key %q", key)
	}
	if err != nil && optional {
		return "", false, nil
	}
	return string(value), found, err
}

func (s source) secret(ctx context.Context, name string) (map[string][]byte, error) {
	secret, err := s.client.CoreV1().Secrets(s.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return secret.Data, nil
}

func (s source) configMap(ctx context.Context, name string) (map[string][]byte, error) {
	configMap, err := s.client.CoreV1().ConfigMaps(s.pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data := maps.Clone(configMap.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range configMap.Data {
		data[key] = []byte(value)
	}
	return data, nil
}

// field returns a field of the pod by its path, as the downward API names it.
func field(pod *corev1.Pod, path string) (string, error) {
	fields := map[string]string{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace, "metadata.uid": string(pod.UID),
		"spec.nodeName": pod.Spec.NodeName, "spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.podIP": pod.Status.PodIP, "status.podIPs": pod.Status.PodIP, "status.hostIP": pod.Status.HostIP,
	}
	if value, found := fields[path]; found {
		return value, nil
	}
	for prefix, values := range map[string]map[string]string{"metadata.labels": pod.Labels, "metadata.annotations": pod.Annotations} {
		if key, found := strings.CutPrefix(path, prefix+"['"); found {
			return values[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("field %s is not supported here", path)
}

// expand replaces $(NAME) by the variable of that name where there is one; $$ stands for a dollar sign.
func expand(text string, env map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := env[name]
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteString("$")
			text = after[1:]
		case strings.HasPrefix(after, "(") && closed && known:
			out.WriteString(value)
			text = rest
		default:
			out.WriteString("$")
			text = after
		}
	}
}

// commandLine is the container's command or the image's entrypoint, and the container's arguments or, where it names neither,
// the image's.
func commandLine(container corev1.Container, image Image, env map[string]string) ([]string, error) {
	args := slices.Concat(container.Command, container.Args)
	if len(container.Command) == 0 {
		tail := container.Args
		if len(tail) == 0 {
			tail = image.Cmd
		}
		args = slices.Concat(image.Entrypoint, tail)
	}
	if len(args) == 0 {
		return nil, errors.New("neither the container nor the image says what to run")
	}
	for i := range args {
		args[i] = expand(args[i], env)
	}
	return args, nil
}

func list(env map[string]string) []string {
	var out []string
	for _, key := range sortedKeys(env) {
		out = append(out, key+"="+env[key])
	}
	return out
}

func sortedKeys[V any](values map[string]V) []string { return slices.Sorted(maps.Keys(values)) }
