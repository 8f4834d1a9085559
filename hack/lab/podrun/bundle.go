package podrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The parts of an OCI runtime configuration that are used here.
type (
	config struct {
		OCIVersion string  `json:"ociVersion"`
		Process    process `json:"process"`
		Root       root    `json:"root"`
		Hostname   string  `json:"hostname"`
		Mounts     []mount `json:"mounts"`
		Linux      linux   `json:"linux"`
	}
	process struct {
		User            user                `json:"user"`
		Args            []string            `json:"args"`
		Env             []string            `json:"env"`
		Cwd             string              `json:"cwd"`
		Capabilities    map[string][]string `json:"capabilities"`
		NoNewPrivileges bool                `json:"noNewPrivileges"`
	}
	user struct {
		UID            int64   `json:"uid"`
		GID            int64   `json:"gid"`
		AdditionalGids []int64 `json:"additionalGids,omitempty"`
	}
	root struct {
		Path     string `json:"path"`
		Readonly bool   `json:"readonly"`
	}
	mount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	linux struct {
		Namespaces    []namespace `json:"namespaces"`
		MaskedPaths   []string    `json:"maskedPaths"`
		ReadonlyPaths []string    `json:"readonlyPaths"`
	}
	namespace struct {
		Type string `json:"type"`
	}
)

// writeBundle writes what runc runs: the files, the volumes and the configuration.
func (p *Pod) writeBundle(ctx context.Context, from source, options Options) error {
	runAs, err := userOf(p.spec.SecurityContext, p.container.SecurityContext, options.Image.User)
	if err != nil {
		return err
	}
	env, err := from.environment(ctx, p.container, options.Image.Env)
	if err != nil {
		return err
	}
	if p.Args, err = commandLine(p.container, options.Image, env); err != nil {
		return err
	}
	volumes, err := from.volumes(ctx, p.spec, p.container, filepath.Join(p.dir, "volumes"), runAs)
	if err != nil {
		return err
	}
	readonly := isTrue(securityOf(p.container).ReadOnlyRootFilesystem)
	if err := copyTree(options.Rootfs, filepath.Join(p.bundle(), "rootfs"), readonly); err != nil {
		return err
	}
	c := config{
		OCIVersion: "1.0.2", Hostname: p.id,
		Process: process{
			User: runAs, Args: p.Args, Env: list(env), Cwd: first(p.container.WorkingDir, options.Image.WorkingDir, "/"),
			Capabilities:    capabilities(securityOf(p.container).Capabilities),
			NoNewPrivileges: securityOf(p.container).AllowPrivilegeEscalation != nil && !*securityOf(p.container).AllowPrivilegeEscalation,
		},
		Root:   root{Path: "rootfs", Readonly: readonly},
		Mounts: append(systemMounts(), volumes...),
		Linux: linux{
			// The network is the machine's.
			Namespaces:    []namespace{{"pid"}, {"ipc"}, {"uts"}, {"mount"}},
			MaskedPaths:   []string{"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
		},
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.bundle(), "config.json"), data, 0o600)
}

// systemMounts are what every container has.
func systemMounts() []mount {
	mounts := []mount{
		{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{"/dev/shm", "tmpfs", "shm", []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", "ro"}},
	}
	for _, file := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		if _, err := os.Stat(file); err == nil {
			mounts = append(mounts, mount{file, "bind", file, []string{"bind", "ro"}})
		}
	}
	return mounts
}

// userOf says who the process is: the container's settings, then the pod's, then the image's.
func userOf(pod *corev1.PodSecurityContext, container *corev1.SecurityContext, image string) (user, error) {
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if container == nil {
		container = &corev1.SecurityContext{}
	}
	var out user
	name, group, _ := strings.Cut(image, ":")
	if uid := either(container.RunAsUser, pod.RunAsUser); uid != nil {
		out.UID = *uid
	} else if err := scanID(name, &out.UID); err != nil {
		return out, fmt.Errorf("the image's user: %w", err)
	}
	if gid := either(container.RunAsGroup, pod.RunAsGroup); gid != nil {
		out.GID = *gid
	} else if err := scanID(group, &out.GID); err != nil {
		return out, fmt.Errorf("the image's group: %w", err)
	}
	out.AdditionalGids = pod.SupplementalGroups
	if pod.FSGroup != nil {
		out.AdditionalGids = append(out.AdditionalGids, *pod.FSGroup)
	}
	if isTrue(either(container.RunAsNonRoot, pod.RunAsNonRoot)) && out.UID == 0 {
		return out, errors.New("runAsNonRoot is set, and the user would be root")
	}
	return out, nil
}

// scanID reads a numeric id; empty is 0. Names would take the image's /etc/passwd, and runAsNonRoot cannot be checked by them.
func scanID(text string, id *int64) error {
	if text == "" {
		return nil
	}
	if _, err := fmt.Sscanf(text, "%d", id); err != nil || fmt.Sprint(*id) != text {
		return fmt.Errorf("%q is no number", text)
	}
	return nil
}

// defaultCapabilities are those that container runtimes give when nothing is said.
var defaultCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
	"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

func capabilities(changes *corev1.Capabilities) map[string][]string {
	has := map[string]bool{}
	for _, name := range defaultCapabilities {
		has[name] = true
	}
	if changes != nil {
		for _, name := range changes.Drop {
			if name == "ALL" {
				clear(has)
			}
			delete(has, string(name))
		}
		for _, name := range changes.Add {
			has[string(name)] = true
		}
	}
	names := []string{}
	for _, name := range sortedKeys(has) {
		names = append(names, "CAP_"+name)
	}
	return map[string][]string{"bounding": names, "effective": names, "permitted": names}
}

func securityOf(container corev1.Container) corev1.SecurityContext {
	if container.SecurityContext == nil {
		return corev1.SecurityContext{}
	}
	return *container.SecurityContext
}

// copyTree copies a directory. Files of a root that is mounted read-only are linked where they can be.
func copyTree(from, to string, link bool) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case entry.Type()&fs.ModeSymlink != 0:
			destination, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(destination, target) //nolint:gosec // nobody else writes these directories
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is no regular file", path)
		case link && os.Link(path, target) == nil: //nolint:gosec // nobody else writes these directories
			return nil
		}
		return copyFile(path, target)
	})
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

func isTrue(value *bool) bool { return value != nil && *value }

// either is the first that is set.
func either[T any](values ...*T) *T {
	for _, value := range values {
		if value != nil {
			return value
		}
	}
	return nil
}

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
