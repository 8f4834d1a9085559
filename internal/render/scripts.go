package render

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	fluxv1alpha2 "github.com/minifleet/minifleet/api/flux/v1alpha2"
)

//go:embed scripts/*.sh.tmpl
var scriptFiles embed.FS

// scriptTemplates are what the pods run. Text of the spec that is not meant as shell goes through quote;
// text that is, such as the commands, becomes files of its own beside them (pieces).
var scriptTemplates = template.Must(template.New("scripts").
	Funcs(template.FuncMap{"quote": quote, "quoteValue": quoteValue}).
	ParseFS(scriptFiles, "scripts/*.sh.tmpl"))

// viewData is what the scripts about the view, which are the same for all containers, are made of.
type viewData struct {
	MountPath   string
	Scripts     string // where the scripts are mounted
	HasView     bool
	Simple      bool // sched-simple, even if the image has Fluxion
	Fluxion     bool // load the view's Fluxion
	Socket      string
	PythonPath  string
	Environment []variable
}

type variable struct{ Name, Value string }

// entrypointData is what an entrypoint is made of.
type entrypointData struct {
	viewData
	Index                int
	Pieces               map[string]string
	LeadHost             string
	Leads                bool // pod 0 leads; else all follow a broker of another cluster
	Strict, Quiet, Timed bool
	WaitForSocket        bool
	CompleteWorkers      bool
	Options              []string
	Wrap                 string
	Logs                 string
	ArchivePath          string
	Mode                 string
	// EndSeconds is how long a pod that is asked to end may take, FollowerSeconds how long a follower waits for the
	// lead to end it.
	EndSeconds, FollowerSeconds int
}

// A kubelet gives a pod that it asks to end 30 seconds, where its spec says nothing else. Followers wait for half of them:
// the lead stops jobs, which Flux kills after 5 seconds, and has a time limit for that (broker.cleanup-timeout).
const (
	endSeconds      = 25
	followerSeconds = 15
	cleanupSeconds  = 10
)

// Modes of the lead broker.
const (
	modeInteractive = "interactive" // no command
	modeLauncher    = "launcher"    // the command submits jobs itself
	modeBatch       = "batch"       // the command is a batch script
	modeSubmit      = "submit"      // the command is one job
)

func (m *miniCluster) viewData() viewData {
	flux := &m.spec.Flux
	data := viewData{
		MountPath:  flux.Container.MountPath,
		Scripts:    scriptsPath,
		HasView:    !flux.Container.Disable,
		Simple:     flux.Scheduler.Simple,
		Fluxion:    !flux.Scheduler.Simple && flux.Scheduler.QueuePolicy != fluxv1alpha2.DefaultQueuePolicy,
		Socket:     m.socket(),
		PythonPath: flux.Container.PythonPath,
	}
	for _, name := range slices.Sorted(maps.Keys(flux.Environment)) {
		data.Environment = append(data.Environment, variable{name, flux.Environment[name]})
	}
	return data
}

func (m *miniCluster) entrypointData(index int, pieces map[string]string) entrypointData {
	c, flux, logging := &m.spec.Containers[index], &m.spec.Flux, &m.spec.Logging
	data := entrypointData{
		viewData:        m.viewData(),
		Index:           index,
		Pieces:          pieces,
		LeadHost:        m.leadHost(),
		Leads:           m.leads(),
		Strict:          logging.Strict,
		Quiet:           logging.Quiet,
		Timed:           logging.Timed,
		WaitForSocket:   !flux.NoWaitSocket,
		CompleteWorkers: flux.CompleteWorkers,
		Options:         m.brokerOptions(),
		Wrap:            flux.Wrap,
		Logs:            c.Logs,
		ArchivePath:     m.spec.Archive.Path,
		Mode:            mode(c),
		EndSeconds:      endSeconds,
		FollowerSeconds: followerSeconds,
	}
	if data.Logs == "" {
		data.Logs = "/tmp/fluxout"
	}
	return data
}

func mode(c *fluxv1alpha2.MiniClusterContainer) string {
	switch {
	case c.Command == "" && c.Commands.Script == "":
		return modeInteractive
	case c.Batch && c.Command != "":
		return modeBatch
	case c.Launcher:
		return modeLauncher
	default:
		return modeSubmit
	}
}

func (m *miniCluster) script(name string, data any) (string, error) {
	var text strings.Builder
	if err := scriptTemplates.ExecuteTemplate(&text, name+".tmpl", data); err != nil {
		return "", fmt.Errorf("script %s: %w", name, err)
	}
	return text.String(), nil
}

// pieces are the files of shell that a container's entrypoint sources, by name: the commands of the
// spec as they are, and what is made of its command.
func (m *miniCluster) pieces(index int) (map[string]string, error) {
	c := &m.spec.Containers[index]
	pieces := map[string]string{
		"init": c.Commands.Init,
		"pre":  c.Commands.Pre,
		"post": c.Commands.Post,
	}
	if c.Commands.Script != "" {
		pieces["script"] = scriptPiece(c.Commands.Script)
	}
	if index == m.runner {
		if err := m.addRunnerPieces(pieces, c); err != nil {
			return nil, err
		}
	} else {
		pieces["service-pre"] = c.Commands.ServicePre
		pieces["command"] = sidecarCommand(c)
	}
	pieces = nonEmpty(pieces)
	for name, text := range pieces {
		pieces[name] = strings.TrimSuffix(text, "\n") + "\n"
	}
	return pieces, nil
}

func nonEmpty(pieces map[string]string) map[string]string {
	maps.DeleteFunc(pieces, func(_, text string) bool { return strings.TrimSpace(text) == "" })
	return pieces
}

func (m *miniCluster) addRunnerPieces(pieces map[string]string, c *fluxv1alpha2.MiniClusterContainer) error {
	pieces["broker-pre"] = c.Commands.BrokerPre
	pieces["worker-pre"] = c.Commands.WorkerPre
	program, err := m.programPiece(c)
	if err != nil {
		return err
	}
	pieces["command"] = program
	if mode(c) == modeBatch {
		pieces["batch"] = batchPiece(c)
	}
	return nil
}

// customScript is where the spec's script is written, in every pod.
const customScript = "/tmp/custom-entrypoint.sh"

// scriptPiece writes the spec's script. Variables in it are those of the entrypoint, as with the Flux
// Operator; those of a job's tasks are written \$NAME.
func scriptPiece(script string) string {
	script = strings.TrimSuffix(script, "\n")
	end := delimiter(script)
	return fmt.Sprintf("cat > %s <<%s\n%s\n%s\nchmod +x %s\n", customScript, end, script, end, customScript)
}

func sidecarCommand(c *fluxv1alpha2.MiniClusterContainer) string {
	if c.Commands.Script != "" {
		return "/bin/bash " + customScript
	}
	return c.Command
}

// batchPiece writes the batch script: each line of the command as a job, or the lines as they are. It
// ends with the exit code of the jobs. Variables are those of the entrypoint, as in scriptPiece, but for
// the directory of the output, whose name the script must not run.
func batchPiece(c *fluxv1alpha2.MiniClusterContainer) string {
	var script strings.Builder
	script.WriteString("#!/bin/bash\n")
	if c.BatchRaw {
		script.WriteString(strings.TrimSuffix(c.Command, "\n") + "\n")
	} else {
		for i, line := range batchLines(c.Command) {
			if line == "" {
				continue
			}
			fmt.Fprintf(&script, "flux submit --flags=waitable --error=\"\\${FLUX_OUTPUT_DIR}\"/job-%d.err --output=\"\\${FLUX_OUTPUT_DIR}\"/job-%d.out %s\n", i, i, line)
		}
		script.WriteString("flux queue idle\nflux jobs -a\nflux job wait --all\n")
	}
	end := delimiter(script.String())
	return fmt.Sprintf("cat > flux-job.batch <<%s\n%s%s\nchmod +x flux-job.batch\n", end, script.String(), end)
}

// batchLines are the jobs of a batch command by their place: its lines, continued where they end with a
// backslash. Those that are empty or a comment are empty here, so that jobs keep the number of their line.
func batchLines(command string) []string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(command, "\\\n", " ")) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			line = ""
		}
		lines = append(lines, line)
	}
	return lines
}

// programPiece sets the array program: the words that the lead gives to flux start. It is sourced by the
// lead only, once the commands before it have run, so that what is expanded in it sees what they did.
func (m *miniCluster) programPiece(c *fluxv1alpha2.MiniClusterContainer) (string, error) {
	var words []string
	if m.spec.Logging.Timed {
		words = append(words, `/usr/bin/time -f 'FLUXTIME fluxsubmit wall time %E'`)
	}
	words = append(words, strings.TrimSpace(c.Commands.Prefix))
	flags, err := m.submitFlags()
	if err != nil {
		return "", err
	}
	switch mode(c) {
	case modeInteractive:
		return "", nil
	case modeLauncher:
		words = append(words, commandWords(c))
	case modeBatch:
		words = append(words, "sh -c "+quote("flux batch "+flags+" --flags=waitable ./flux-job.batch && flux job wait --all"))
	case modeSubmit:
		submit := strings.TrimSpace(m.spec.Flux.SubmitCommand)
		if submit == "" {
			submit = "flux submit"
		}
		words = append(words, submit+" "+flags+" --quiet --watch", commandWords(c))
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	return "program=(\n  " + strings.Join(words, "\n  ") + "\n)\n", nil
}

// commandWords are the words of the command: its own, or a shell's that runs it.
func commandWords(c *fluxv1alpha2.MiniClusterContainer) string {
	command := strings.TrimSpace(c.Command)
	switch {
	case c.Commands.Script != "":
		return "/bin/bash " + customScript
	case isSimpleCommand(command):
		return command
	default:
		return "/bin/bash -c " + quote(command)
	}
}

// submitFlags are the flags of a submission: nodes where that many tasks are asked for, or none.
func (m *miniCluster) submitFlags() (string, error) {
	var flags []string
	tasks := *m.spec.Tasks
	if tasks == 0 || tasks >= m.spec.Size {
		flags = append(flags, "-N", fmt.Sprint(m.spec.Size))
	}
	if tasks > 0 {
		flags = append(flags, "-n", fmt.Sprint(tasks))
	}
	more, err := splitWords(m.spec.Flux.OptionFlags)
	if err != nil {
		return "", fmt.Errorf("spec.flux.optionFlags: %w", err)
	}
	flags = append(flags, more...)
	if m.spec.Logging.Debug {
		flags = append(flags, "-vvv")
	}
	return quoteAll(flags), nil
}
