package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// logs is where the log of all containers is.
func (c *Cluster) logs() string { return filepath.Join(c.dir, "pods.log") }

// WriteLog appends lines to the log of all containers (ClusterSpec.Logs), as a container runtime does.
func (c *Cluster) WriteLog(lines ...string) error { return writeLog(c.logs(), lines) }

// WritePreviousLog does so for containers as they were before their last restart.
func (c *Cluster) WritePreviousLog(lines ...string) error {
	return writeLog(c.logs()+".previous", lines)
}

func writeLog(path string, lines []string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "%s stdout F %s\n", time.Now().UTC().Format(time.RFC3339Nano), line)
	}
	if _, err := file.WriteString(text.String()); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
