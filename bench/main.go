package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/whole"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	rounds  int
	seconds float64
	only    *regexp.Regexp // pattern of the workloads to run
	peers   *regexp.Regexp
	threads []int // nil means each workload's own
	out     string
	list    bool
	verbose bool
	patient time.Duration
	models  string // folder for the files of whole models
	layers  [2]int // of OLMoE and of Qwen3
	train   bool   // measure training instead
	first   string // a model's file: open it, generate a token, report the memory needed
}

func parse(args []string) (settings, error) {
	var s settings
	var only, peers, threads string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&s.rounds, "rounds", 5, "interleaved `rounds`; the result is their median")
	f.Float64Var(&s.seconds, "seconds", 0.3, "`time` of each side in a round")
	f.StringVar(&only, "only", "", "workloads whose names match this `regexp`")
	f.StringVar(&peers, "peers", "", "peers whose names match this `regexp`")
	f.StringVar(&threads, "threads", "", "`numbers` of threads with commas between, instead of each workload's own")
	f.StringVar(&s.out, "out", "out/bench-peers", "`folder` for table.md, table.json and ratios.png")
	f.BoolVar(&s.list, "list", false, "list the workloads and end")
	f.BoolVar(&s.verbose, "v", false, "show what peers complain of")
	f.DurationVar(&s.patient, "patience", 15*time.Minute, "how long a peer may take to prepare a workload")
	f.StringVar(&s.models, "models", "out/bench-models", "`folder` where the files of whole models are written and stay, some GB")
	f.IntVar(&s.layers[0], "olmoe-layers", 4, "`layers` of OLMoE-1B-7B, of the 16 that it has")
	f.IntVar(&s.layers[1], "qwen-layers", 8, "`layers` of Qwen3-30B-A3B, of the 48 that it has")
	f.BoolVar(&s.train, "training", false, "measure training instead: moe_lm, gomoe train and gomoe finetune, each against another way or transformers, in -rounds rounds, and print a table")
	f.StringVar(&s.first, "first", "", "open the model in this `file`, generate a token, print the bytes of memory that took as JSON, and end")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	switch {
	case f.NArg() > 0:
		return s, fmt.Errorf("bench: argument %q: all settings are flags; see -help", f.Arg(0))
	case s.rounds < 1:
		return s, fmt.Errorf("bench: -rounds %d: want at least 1", s.rounds)
	case s.layers[0] < 1 || s.layers[1] < 1:
		return s, fmt.Errorf("bench: -olmoe-layers %d -qwen-layers %d: want at least 1", s.layers[0], s.layers[1])
	case !(s.seconds > 0 && s.seconds <= 60):
		return s, fmt.Errorf("bench: -seconds %g: want more than 0 and at most 60", s.seconds)
	}
	var err error
	if s.only, err = regexp.Compile(only); err != nil {
		return s, fmt.Errorf("bench: -only: %w", err)
	}
	if s.peers, err = regexp.Compile(peers); err != nil {
		return s, fmt.Errorf("bench: -peers: %w", err)
	}
	for _, word := range strings.FieldsFunc(threads, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > runtime.NumCPU() {
			return s, fmt.Errorf("bench: -threads %s: want numbers from 1 to %d, the processors here", threads, runtime.NumCPU())
		}
		s.threads = append(s.threads, n)
	}
	return s, nil
}

// allWorkloads returns all workloads, cheap and informative ones first.
func allWorkloads(s settings) []workload {
	var all []workload
	for _, ws := range [][]workload{matmulWorkloads(), scalarWorkloads(), attentionWorkloads(), mixerWorkloads(), lmWorkloads(), moeWorkloads(), decodeWorkloads(), llmWorkloads(s.models, s.layers[0], s.layers[1])} {
		all = append(all, ws...)
	}
	return all
}

func run(args []string, out io.Writer) (err error) {
	s, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if s.first != "" {
		return first(s.first, out)
	}
	var chosen []workload
	for _, w := range allWorkloads(s) {
		w.peers = slices.DeleteFunc(w.peers, func(name string) bool { return !s.peers.MatchString(name) })
		if s.only.MatchString(w.name) && len(w.peers) > 0 {
			chosen = append(chosen, w)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("bench: -only %q -peers %q: no workload has such a name and peer; see -list", s.only, s.peers)
	}
	if s.list {
		for _, w := range chosen {
			fmt.Fprintf(out, "%-24s %s; against %s\n", w.name, w.title, strings.Join(w.peers, ", "))
		}
		return nil
	}
	kernels, err := kernel.Selected()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gomoe-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := unpack(dir); err != nil {
		return err
	}
	if s.train {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return measureTraining(ctx, dir, s.rounds, out)
	}
	crew := newCrew(dir, s.patient, s.verbose)
	defer func() { err = errors.Join(err, crew.dismiss()) }()

	// The first interrupt ends the run after the current workload, the second one immediately.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	b := &bench{crew: crew, rounds: s.rounds, seconds: s.seconds, dir: dir, log: func(format string, a ...any) { fmt.Fprintf(out, format+"\n", a...) }}
	r := report{Machine: machine(), Kernels: kernels.String(), Rounds: s.rounds, Seconds: s.seconds}
	for _, w := range chosen {
		threads := w.threads
		if s.threads != nil {
			threads = s.threads
		}
		for _, n := range threads {
			if n > runtime.NumCPU() {
				continue
			}
			rows, err := b.run(w, n)
			if err != nil {
				return err
			}
			r.Rows = append(r.Rows, rows...)
			if err := r.write(s.out); err != nil { // after each workload, in case the run is cut short
				return err
			}
			if ctx.Err() != nil {
				return errors.New("bench: interrupted; what was measured is written")
			}
		}
	}
	fmt.Fprintf(out, "wrote %s\n", s.out)
	return nil
}

// write writes the table in both forms, and the plot if any row can be plotted.
func (r report) write(dir string) error {
	files := map[string]func(io.Writer) error{"table.md": r.writeMarkdown, "table.json": r.writeJSON}
	for _, x := range r.Rows {
		if x.Ratio > 0 {
			files["ratios.png"] = r.writePlot
		}
	}
	for name, write := range files {
		if err := whole.Write(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	return nil
}

// machine returns the name of the processor.
func machine() string {
	name := runtime.GOARCH
	if out, err := exec.Command("sh", "-c", "sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1").Output(); err == nil && len(out) > 1 {
		name = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%s, %d processors, %s/%s, %s", name, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
