package podrun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rootCA is the ConfigMap with the CA of the hub's API server that each namespace has.
const rootCA = "kube-root-ca.crt"

// file is a file of a volume.
type file struct {
	data []byte
	mode os.FileMode
	// private files are the container user's own.
	private bool
}

// volumes writes the volumes that the container mounts below dir, and returns the mounts.
func (s source) volumes(ctx context.Context, spec corev1.PodSpec, container corev1.Container, dir string, runAs user) ([]mount, error) {
	byName := map[string]corev1.Volume{}
	for _, volume := range spec.Volumes {
		byName[volume.Name] = volume
	}
	var mounts []mount
	for _, m := range container.VolumeMounts {
		path := filepath.Join(dir, m.Name)
		if err := s.volume(ctx, byName[m.Name].VolumeSource, path, runAs, spec.SecurityContext); err != nil {
			return nil, fmt.Errorf("volume %s: %w", m.Name, err)
		}
		options := []string{"rbind", "rw"}
		if m.ReadOnly {
			options = []string{"rbind", "ro"}
		}
		mounts = append(mounts, mount{m.MountPath, "bind", filepath.Join(path, m.SubPath), options})
	}
	return mounts, nil
}

func (s source) volume(ctx context.Context, volume corev1.VolumeSource, path string, runAs user, pod *corev1.PodSecurityContext) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	files, err := s.files(ctx, volume)
	if err != nil {
		return err
	}
	if volume.EmptyDir != nil {
		if err := os.Chmod(path, 0o777); err != nil {
			return err
		}
	}
	for name, f := range files {
		if err := writeVolumeFile(filepath.Join(path, name), f, runAs, pod); err != nil {
			return err
		}
	}
	return nil
}

// writeVolumeFile gives a file to whom a kubelet gives it: the group of the volumes may read it, and tokens are of the user
// where there is one that is not of the image.
func writeVolumeFile(path string, f file, runAs user, pod *corev1.PodSecurityContext) error {
	uid, gid := 0, 0
	switch {
	case pod != nil && pod.FSGroup != nil:
		gid = int(*pod.FSGroup)
		f.mode |= 0o440
	case f.private && runAs.UID != 0:
		uid = int(runAs.UID)
		f.mode = 0o600
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, f.data, f.mode), os.Chmod(path, f.mode), os.Chown(path, uid, gid))
}

// files returns what a volume holds at first.
func (s source) files(ctx context.Context, volume corev1.VolumeSource) (map[string]file, error) {
	switch {
	case volume.EmptyDir != nil:
		return nil, nil
	case volume.Secret != nil:
		data, err := s.secret(ctx, volume.Secret.SecretName)
		return chosen(data, volume.Secret.Items, volume.Secret.DefaultMode, isTrue(volume.Secret.Optional), err)
	case volume.ConfigMap != nil:
		data, err := s.configMap(ctx, volume.ConfigMap.Name)
		return chosen(data, volume.ConfigMap.Items, volume.ConfigMap.DefaultMode, isTrue(volume.ConfigMap.Optional), err)
	case volume.DownwardAPI != nil:
		return s.fields(volume.DownwardAPI.Items, volume.DownwardAPI.DefaultMode)
	case volume.Projected != nil:
		return s.projected(ctx, volume.Projected)
	}
	return nil, errors.New("this kind of volume is not supported here")
}

func (s source) projected(ctx context.Context, volume *corev1.ProjectedVolumeSource) (map[string]file, error) {
	all := map[string]file{}
	for _, part := range volume.Sources {
		files, err := s.part(ctx, part, volume.DefaultMode)
		if err != nil {
			return nil, err
		}
		for name, f := range files {
			all[name] = f
		}
	}
	return all, nil
}

func (s source) part(ctx context.Context, part corev1.VolumeProjection, mode *int32) (map[string]file, error) {
	switch {
	case part.ServiceAccountToken != nil:
		token, err := s.token(ctx, part.ServiceAccountToken)
		return map[string]file{part.ServiceAccountToken.Path: {data: token, mode: modeOf(nil, mode), private: true}}, err
	case part.Secret != nil:
		data, err := s.secret(ctx, part.Secret.Name)
		return chosen(data, part.Secret.Items, mode, isTrue(part.Secret.Optional), err)
	case part.ConfigMap != nil:
		data, err := s.configMap(ctx, part.ConfigMap.Name)
		// A hub without a controller manager has none.
		if part.ConfigMap.Name == rootCA && apierrors.IsNotFound(err) {
			data, err = map[string][]byte{"ca.crt": s.hub.CAData}, nil
		}
		return chosen(data, part.ConfigMap.Items, mode, isTrue(part.ConfigMap.Optional), err)
	case part.DownwardAPI != nil:
		return s.fields(part.DownwardAPI.Items, mode)
	}
	return nil, errors.New("this kind of projection is not supported here")
}

// token asks the hub for a token of the pod's service account. No pod exists that it could be bound to.
func (s source) token(ctx context.Context, projection *corev1.ServiceAccountTokenProjection) ([]byte, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: projection.ExpirationSeconds}}
	if projection.Audience != "" {
		request.Spec.Audiences = []string{projection.Audience}
	}
	answer, err := s.client.CoreV1().ServiceAccounts(s.pod.Namespace).CreateToken(ctx, s.pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	return []byte(answer.Status.Token), nil
}

func (s source) fields(items []corev1.DownwardAPIVolumeFile, mode *int32) (map[string]file, error) {
	files := map[string]file{}
	for _, item := range items {
		if item.FieldRef == nil {
			return nil, fmt.Errorf("file %s: only fields of the pod are supported here", item.Path)
		}
		value, err := field(s.pod, item.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		files[item.Path] = file{data: []byte(value), mode: modeOf(item.Mode, mode)}
	}
	return files, nil
}

// chosen are the files of a Secret or ConfigMap: all keys, or those that are named.
func chosen(data map[string][]byte, items []corev1.KeyToPath, mode *int32, optional bool, err error) (map[string]file, error) {
	if err != nil {
		if optional && apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	}
	files := map[string]file{}
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{data: value, mode: modeOf(nil, mode)}
		}
	}
	for _, item := range items {
		value, found := data[item.Key]
		if !found && !optional {
			return nil, fmt.Errorf("there is no key %q", item.Key)
		}
		files[item.Path] = file{data: value, mode: modeOf(item.Mode, mode)}
	}
	return files, nil
}

func modeOf(item, volume *int32) os.FileMode {
	if mode := either(item, volume); mode != nil {
		return os.FileMode(*mode) & os.ModePerm //nolint:gosec // permission bits, which the API server has validated
	}
	return 0o644
}
