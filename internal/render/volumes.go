package render

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

// Volumes of every pod, and where they are mounted. Scripts of users know these paths.
const (
	scriptsVolume  = "minifleet-entrypoint"
	scriptsPath    = "/flux_operator"
	homeVolume     = "flux-operator-home"
	homePath       = "/home/flux-operator"
	softwareVolume = "spack-software"
	softwarePath   = "/opt/software"
	mungeVolume    = "minifleet-munge"
	mungePath      = "/etc/munge" // where munge looks for munge.key
	sharedMemory   = "/dev/shm"   // where an emptyDir without a path goes
)

// commonMounts are those of every container: a home directory, the view with the brokers' files, and
// the scripts with the certificate.
func (m *miniCluster) commonMounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{
		{Name: homeVolume, MountPath: homePath},
		{Name: m.spec.Flux.Container.Name, MountPath: m.spec.Flux.Container.MountPath},
		{Name: scriptsVolume, MountPath: scriptsPath, ReadOnly: true},
	}
}

// softwareMounts are for the software of the view, which must lie where it was built for.
func softwareMounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{{Name: softwareVolume, MountPath: softwarePath}}
}

// mungeMounts are for the key of a site's munge, in the container that runs Flux.
func (m *miniCluster) mungeMounts() []corev1.VolumeMount {
	if m.spec.Flux.MungeSecret == "" {
		return nil
	}
	return []corev1.VolumeMount{{Name: mungeVolume, MountPath: mungePath, ReadOnly: true}}
}

// userMounts are the volumes of a pod's container, and those of the containers before it: a sidecar sees
// what the one that runs Flux mounts, unless it mounts the same volume, or another at the same path, itself.
func userMounts(containers []fluxv1alpha2.MiniClusterContainer, index int) []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	volumes, paths := map[string]bool{}, map[string]bool{}
	for i := index; i >= 0; i-- {
		for _, name := range slices.Sorted(maps.Keys(containers[i].Volumes)) {
			volume := containers[i].Volumes[name]
			mount := corev1.VolumeMount{Name: name, MountPath: mountPath(volume), ReadOnly: volume.ReadOnly}
			where := path.Clean(mount.MountPath) // /data/ is /data
			if i == index || (!volumes[name] && !paths[where]) {
				mounts = append(mounts, mount)
			}
			volumes[name], paths[where] = true, true
		}
	}
	return mounts
}

func mountPath(volume fluxv1alpha2.ContainerVolume) string {
	if volume.Path == "" {
		return sharedMemory
	}
	return volume.Path
}

// volumes of the brokers' pods: our own, then the users' by name.
func (m *miniCluster) volumes() []corev1.Volume {
	empty := func() corev1.VolumeSource {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
	volumes := []corev1.Volume{
		{Name: softwareVolume, VolumeSource: empty()},
		{Name: homeVolume, VolumeSource: empty()},
		{Name: m.spec.Flux.Container.Name, VolumeSource: empty()},
		{Name: scriptsVolume, VolumeSource: m.scriptsSource()},
	}
	if secret := m.spec.Flux.MungeSecret; secret != "" {
		volumes = append(volumes, corev1.Volume{Name: mungeVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To(m.keyMode())},
		}})
	}
	return append(volumes, userVolumes(m.spec.Containers)...)
}

// userVolumes are the volumes of a pod's containers, each once, by name.
func userVolumes(containers []fluxv1alpha2.MiniClusterContainer) []corev1.Volume {
	users := map[string]fluxv1alpha2.ContainerVolume{}
	for i := range containers {
		maps.Copy(users, containers[i].Volumes)
	}
	var volumes []corev1.Volume
	for _, name := range slices.Sorted(maps.Keys(users)) {
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: volumeSource(users[name])})
	}
	return volumes
}

// scriptsSource puts the certificate beside the scripts, each from where it belongs.
func (m *miniCluster) scriptsSource() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To(int32(0o555)),
		Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: m.configMapName()},
			}},
			{Secret: &corev1.SecretProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: m.secretName()},
				Items: []corev1.KeyToPath{
					{Key: curveKey, Path: curveKey, Mode: ptr.To(m.keyMode())},
				},
			}},
		},
	}}
}

// keyMode is the mode of the files with keys, which root owns. Group-readable is enough for root and, with
// an fsGroup, for everybody else. A user that the spec names without an fsGroup could read neither, so the
// files are then open to all that runs in the pod; the broker's own copy of the certificate never is.
func (m *miniCluster) keyMode() int32 {
	pod, own := &m.spec.Pod.SecurityContext, &m.spec.Containers[m.runner].SecurityContext
	user := pod.RunAsUser
	if own.RunAsUser != nil {
		user = own.RunAsUser
	}
	if pod.FSGroup == nil && user != nil && *user != 0 {
		return 0o444
	}
	return 0o440
}

func volumeSource(v fluxv1alpha2.ContainerVolume) corev1.VolumeSource {
	switch {
	case v.CSIDriver != "":
		return corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
			Driver:           v.CSIDriver,
			VolumeAttributes: copyOf(v.CSIDriverAttributes),
		}}
	case v.SecretName != "":
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: v.SecretName}}
	case v.EmptyDir:
		return corev1.VolumeSource{EmptyDir: emptyDir(v)}
	case v.HostPath != "":
		return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
			Path: v.HostPath,
			Type: ptr.To(corev1.HostPathDirectory),
		}}
	case v.ConfigMapName != "":
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: v.ConfigMapName},
			Items:                items(v.Items),
		}}
	case v.ClaimName != "":
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
			ClaimName: v.ClaimName,
		}}
	default:
		// Only a path: no API server would take a claim without a name, so a place to write is meant.
		return corev1.VolumeSource{EmptyDir: emptyDir(v)}
	}
}

func emptyDir(v fluxv1alpha2.ContainerVolume) *corev1.EmptyDirVolumeSource {
	source := &corev1.EmptyDirVolumeSource{}
	if strings.EqualFold(v.EmptyDirMedium, "memory") {
		source.Medium = corev1.StorageMediumMemory
	}
	if v.EmptyDirSizeLimit != "" {
		source.SizeLimit = ptr.To(resource.MustParse(v.EmptyDirSizeLimit))
	}
	return source
}

func items(paths map[string]string) []corev1.KeyToPath {
	var items []corev1.KeyToPath
	for _, key := range slices.Sorted(maps.Keys(paths)) {
		items = append(items, corev1.KeyToPath{Key: key, Path: paths[key]})
	}
	return items
}
