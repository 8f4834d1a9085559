package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/minifleet/minifleet/api/v1alpha1"
	"github.com/minifleet/minifleet/hack/bench/wait"
	"github.com/minifleet/minifleet/hack/lab"
)

const (
	// shownTimes is how often the page is opened, markers how many writes are followed to the page.
	shownTimes = 5
	markers    = 30
	// frameSeconds is how long frames are counted, churnRate how many statuses are sent in a second meanwhile.
	frameSeconds = 10
	churnRate    = 200
)

// browser is Chromium, by way of dashboard/web/scripts/bench.mjs.
type browser struct {
	input   io.WriteCloser
	answers *bufio.Reader
	process *exec.Cmd
}

func startBrowser(ctx context.Context) (*browser, error) {
	root, err := lab.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	b := &browser{process: exec.CommandContext(ctx, "node", "scripts/bench.mjs")}
	b.process.Dir, b.process.Stderr = filepath.Join(root, "dashboard", "web"), os.Stderr
	output, err := b.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.answers = bufio.NewReader(output)
	if b.input, err = b.process.StdinPipe(); err != nil {
		return nil, err
	}
	return b, b.process.Start()
}

func (b *browser) stop() {
	_ = b.input.Close()
	_ = b.process.Wait()
}

// send sends a command with its arguments: a name, a value, and so on.
func (b *browser) send(do string, arguments ...any) error {
	command := map[string]any{"do": do}
	for i := 0; i+1 < len(arguments); i += 2 {
		command[fmt.Sprint(arguments[i])] = arguments[i+1]
	}
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	_, err = b.input.Write(append(line, '\n'))
	return err
}

// receive reads the answer to the command that was sent.
func (b *browser) receive(into any) error {
	line, err := b.answers.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("scripts/bench.mjs has ended: %w", err)
	}
	answer := struct {
		Error string          `json:"error"`
		Value json.RawMessage `json:"value"`
	}{}
	if err := json.Unmarshal(line, &answer); err != nil {
		return err
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer.Value, into)
}

func (b *browser) do(into any, do string, arguments ...any) error {
	if err := b.send(do, arguments...); err != nil {
		return err
	}
	return b.receive(into)
}

// browse has the browser open the page that is served now.
func (d *dashboards) browse(ctx context.Context) error {
	if d.browser == nil {
		var err error
		if d.browser, err = startBrowser(ctx); err != nil {
			return err
		}
	}
	return d.browser.do(nil, "login", "url", d.served.url, "token", d.tokens[0])
}

func durations(ms []float64) []time.Duration {
	out := make([]time.Duration, len(ms))
	for i, m := range ms {
		out[i] = time.Duration(m * float64(time.Millisecond))
	}
	return out
}

// shown measures the time from the navigation until rows are shown.
func (d *dashboards) shown(_ context.Context, isFloor bool) error {
	for _, uncached := range []bool{true, false} {
		var ms []float64
		if err := d.browser.do(&ms, "shown", "times", shownTimes, "uncached", uncached); err != nil {
			return err
		}
		shown := durations(ms)
		d.say("%d MiniClusters: rows are shown after %s", d.n, milliseconds(quantile(0.5)(shown)))
		if isFloor {
			d.floors[uncached] = shown
			continue
		}
		how := "files in the browser's cache"
		if uncached {
			how = "nothing cached"
		}
		d.report.row(fmt.Sprintf("navigation to rows of %d MiniClusters, %s", d.n, how), "p50", shown, fmt.Sprintf("page of %d", few), d.floors[uncached], quantile(0.5))
	}
	return nil
}

// assets reports the files of the page, as they are sent.
func (d *dashboards) assets(context.Context) error {
	sizes := map[string]float64{}
	if err := d.browser.do(&sizes, "assets"); err != nil {
		return err
	}
	for _, view := range slices.Sorted(maps.Keys(sizes)) {
		what := "further files of the view /" + view
		if view == "" {
			what = "files of the first view"
		}
		d.report.figure(what+", compressed", "KB", sizes[view]/1000, "", 0)
	}
	return nil
}

// frames measures the time between frames while statuses are sent to the hub, beside the same without.
func (d *dashboards) frames(ctx context.Context) error {
	most := []float64{}
	for _, scroll := range []bool{false, true} {
		var quiet, busy struct {
			Lengths []float64 `json:"lengths"`
			Rows    float64   `json:"rows"`
		}
		if err := d.browser.do(&quiet, "frames", "seconds", frameSeconds, "scroll", scroll); err != nil {
			return err
		}
		churn := d.churn(ctx)
		err := d.browser.do(&busy, "frames", "seconds", frameSeconds, "scroll", scroll)
		rate, failed := churn()
		if err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		how := "standing"
		if scroll {
			how = "scrolling"
		}
		for _, q := range quantiles {
			d.report.row(fmt.Sprintf("frame with %d MiniClusters and %.0f updates a second, %s", d.n, rate, how), q.name, durations(busy.Lengths), "without updates", durations(quiet.Lengths), quantile(q.share))
		}
		most = append(most, quiet.Rows, busy.Rows)
	}
	d.report.count(fmt.Sprintf("rows of %d in the document", d.n), most)
	return nil
}

// churn sends statuses to the hub until the function is called that it returns, which tells how many it were in a second.
func (d *dashboards) churn(ctx context.Context) (stop func() (float64, error)) {
	ctx, cancel := context.WithCancel(ctx)
	due := make(chan int, writers)
	var sent atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, writers)
	start := time.Now()
	group.Go(func() {
		defer close(due)
		for k := 0; ; k++ {
			if wait.Pause(ctx, time.Until(start.Add(time.Duration(k)*time.Second/churnRate))) != nil {
				return
			}
			select {
			case due <- k:
			case <-ctx.Done():
				return
			}
		}
	})
	for w := range writers {
		group.Go(func() {
			for k := range due {
				i := draw(k, fmt.Sprint("churn", d.number), d.n)
				// What has failed stays as it is: those are the rows that are seen first, and marked by push.
				if stateOf(i, version{}) == v1alpha1.StateFailed {
					i = (i + len(teams)) % d.n
				}
				if err := d.send(context.WithoutCancel(ctx), i, version{note: fmt.Sprint("step ", k), flipped: k%4 == 0, missing: int32(k % 3)}); err != nil {
					errs[w] = err
				}
				sent.Add(1)
			}
		})
	}
	d.number++
	return func() (float64, error) {
		cancel()
		group.Wait()
		return float64(sent.Load()) / time.Since(start).Seconds(), errors.Join(errs...)
	}
}

// send sends the status of a FleetMiniCluster.
func (d *dashboards) send(ctx context.Context, i int, v version) error {
	f := d.sample.miniCluster(i)
	patch, err := json.Marshal(map[string]any{"status": d.sample.status(i, v)})
	if err != nil {
		return err
	}
	return d.hub.Status().Patch(ctx, f, client.RawPatch(types.MergePatchType, patch))
}

// push measures the time from a write on the hub until it is on the page, beside the time until the cache is told.
func (d *dashboards) push(ctx context.Context) error {
	for _, busy := range []bool{false, true} {
		stop := func() (float64, error) { return 0, nil }
		how := "nothing else happens"
		if busy {
			stop = d.churn(ctx)
		}
		pushed, told, err := d.marks(ctx)
		rate, failed := stop()
		if err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		if busy {
			how = fmt.Sprintf("%.0f updates a second", rate)
		}
		for _, q := range quantiles {
			d.report.row(fmt.Sprintf("write on the hub to the page of %d MiniClusters, %s", d.n, how), q.name, pushed, "to the cache", told, quantile(q.share))
		}
		d.say("%d MiniClusters, %s: a write is on the page after %s", d.n, how, milliseconds(quantile(0.5)(pushed)))
	}
	return nil
}

// marks marks rows that are seen, one after the other.
func (d *dashboards) marks(ctx context.Context) (pushed, told []time.Duration, err error) {
	var names []string
	if err := d.browser.do(&names, "visible"); err != nil {
		return nil, nil, err
	}
	index := map[string]int{}
	for i := range d.n {
		if stateOf(i, version{}) == v1alpha1.StateFailed {
			index[client.ObjectKeyFromObject(d.sample.miniCluster(i)).String()] = i
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := index[name]; return !ok })
	if len(names) == 0 {
		return nil, nil, errors.New("no row is seen that has failed")
	}
	for k := range markers {
		if err := wait.Pause(ctx, time.Duration(300+draw(k, "pause", 400))*time.Millisecond); err != nil {
			return nil, nil, err
		}
		d.number++
		if err := d.browser.send("marker", "number", d.number); err != nil {
			return nil, nil, err
		}
		start := time.Now()
		sent := d.send(ctx, index[names[k%len(names)]], version{note: fmt.Sprint(marker, d.number)})
		var at float64
		if err := errors.Join(sent, d.browser.receive(&at)); err != nil {
			return nil, nil, err
		}
		pushed = append(pushed, time.UnixMilli(int64(at)).Sub(start))
		if seen, ok := d.marked.Load(fmt.Sprint(d.number)); ok {
			told = append(told, seen.(time.Time).Sub(start)) //nolint:forcetypeassert // only times are stored
		}
	}
	return pushed, told, nil
}
