package peers

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/prometheus/procfs"

	"github.com/minifleet/minifleet/hack/lab"
)

// usage is what processes have used so far: CPU seconds of the peer's own and of the servers, by process, and the
// resident memory of the peer's, in MiB.
type usage struct {
	peer, servers map[string]float64
	memory        float64
}

// usage reads it from the system, children of the processes included once they have ended.
func (t *turn) usage() (usage, error) {
	u := usage{peer: map[string]float64{}, servers: map[string]float64{}}
	pids, err := lab.Running(filepath.Join(t.dir, "lab", "pids"))
	if err != nil {
		return u, err
	}
	for name, pid := range pids {
		stat, err := processStat(pid)
		if err != nil {
			return u, err
		}
		u.servers[name] = stat.CPUTime()
	}
	for _, p := range t.processes {
		stat, err := processStat(p.Pid())
		if err != nil {
			return u, fmt.Errorf("%s: %w", p.Name, err)
		}
		u.peer[p.Name] = stat.CPUTime() + float64(stat.CUTime+stat.CSTime)/clockTicks
		u.memory += float64(stat.ResidentMemory()) / (1 << 20)
	}
	if len(t.processes) == 0 { // the bare loop is this process
		stat, err := processStat(os.Getpid())
		u.peer["bench"] = stat.CPUTime()
		return u, err
	}
	return u, nil
}

// clockTicks are those in a second; they are the same on every Linux that Go runs on.
const clockTicks = 100

func processStat(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

// since is the CPU time that was used between two readings, in seconds.
func since(before, after map[string]float64) (total float64, byProcess map[string]float64) {
	byProcess = map[string]float64{}
	for name, seconds := range after {
		byProcess[name] = seconds - before[name]
		total += byProcess[name]
	}
	return total, byProcess
}
