package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/minifleet/minifleet/hack/bench/record"
)

// placementBenchmark is the benchmark of a placement over 1,000 members of 100 nodes, and placementPackage where it is.
const (
	placementBenchmark = "BenchmarkPlacement"
	placementPackage   = "internal/plan"
)

// goRun is one line of the output of go test -bench.
type goRun struct {
	pkg, name string
	// nanoseconds are those of one operation.
	nanoseconds float64
}

// parseGoBench reads the output of go test -bench.
func parseGoBench(output []byte) []goRun {
	var out []goRun
	pkg := ""
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 2 && fields[0] == "pkg:" {
			pkg = path.Base(fields[1])
		}
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		at := slices.Index(fields, "ns/op")
		if at < 1 {
			continue
		}
		value, err := strconv.ParseFloat(fields[at-1], 64)
		if err != nil {
			continue
		}
		out = append(out, goRun{pkg: pkg, name: withoutProcs(fields[0]), nanoseconds: value})
	}
	return out
}

// withoutProcs is the name of a benchmark without the number of processors at its end.
func withoutProcs(name string) string {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return name
	}
	if _, err := strconv.Atoi(name[at+1:]); err != nil {
		return name
	}
	return name[:at]
}

// goFigures are the medians of benchmarks, in milliseconds. A benchmark that is called floor is the floor of those beside it.
func goFigures(runs []goRun) []record.Figure {
	samples, order := map[string][]float64{}, []string{}
	for _, run := range runs {
		name := run.pkg + "." + strings.TrimPrefix(run.name, "Benchmark")
		if samples[name] == nil {
			order = append(order, name)
		}
		samples[name] = append(samples[name], run.nanoseconds/1e6)
	}
	var out []record.Figure
	for _, name := range order {
		if path.Base(name) == "floor" {
			continue
		}
		f := record.Figure{What: strings.ReplaceAll(name, "_", " "), Unit: "ms", Value: median(samples[name]), Values: samples[name]}
		if floors := samples[path.Join(path.Dir(name), "floor")]; floors != nil {
			f.Floor, f.FloorAt, f.Floors = "its floor", median(floors), floors
			f.Ratio = ratio(f.Value, f.FloorAt)
		}
		out = append(out, f)
	}
	return out
}

// goBench runs benchmarks of packages of this repository.
func (s *session) goBench(ctx context.Context, pattern string, count int, packages ...string) error {
	args := []string{"test", "-run", "^$", "-bench", pattern, "-benchmem", "-timeout", "60m", "-count", strconv.Itoa(count)}
	if s.short {
		args = append(args, "-benchtime", "1x")
	}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	s.progress.say("go %s", strings.Join(args, " "))
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = s.root
	output, err := command.CombinedOutput()
	s.report.Output = append(s.report.Output, strings.Split(string(output), "\n")...)
	s.report.Rows = append(s.report.Rows, goFigures(parseGoBench(output))...)
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, output[max(0, len(output)-2000):])
	}
	return nil
}

// placements measures decisions over many members, where the benchmark of them is.
func placements(ctx context.Context, s *session, o options) error {
	found, err := packagesWith(s.root, "func "+placementBenchmark+"(")
	if err != nil {
		return err
	}
	if !slices.Contains(found, placementPackage) {
		s.skip("there is no %s in %s", placementBenchmark, placementPackage)
		return nil
	}
	return s.goBench(ctx, "^"+placementBenchmark+"$", o.runs, placementPackage)
}

// packageBenchmarks runs those of all packages but what another row has.
func packageBenchmarks(ctx context.Context, s *session, o options) error {
	if s.short {
		s.skip("all but one package: their tests are built by others")
		return s.goBench(ctx, ".", o.runs, "internal/fit")
	}
	packages, err := packagesWith(s.root, "func Benchmark")
	if err != nil {
		return err
	}
	packages = slices.DeleteFunc(packages, func(p string) bool { return p == placementPackage })
	// One after the other, so that one package that fails leaves the others their figures.
	var errs []error
	for _, p := range packages {
		errs = append(errs, s.goBench(ctx, ".", o.runs, p))
	}
	return errors.Join(errs...)
}

// packagesWith are the packages of the main module, as paths below its root, with tests that hold a text.
func packagesWith(root, text string) ([]string, error) {
	found := map[string]bool{}
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); at != "." && (name == "hack" || name == "node_modules" || strings.HasPrefix(name, ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(at, "_test.go") {
			return nil
		}
		body, err := fs.ReadFile(tree, at)
		if err == nil && bytes.Contains(body, []byte(text)) {
			found[path.Dir(at)] = true
		}
		return err
	})
	var out []string
	for p := range found {
		out = append(out, p)
	}
	slices.Sort(out)
	return out, err
}
