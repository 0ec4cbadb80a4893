package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// training runs the measurements of -training: moe_lm, gomoe train and gomoe finetune against each other and against
// transformers, alternating between the two sides.
type training struct {
	ctx    context.Context
	dir    string // of the programs, and of the runs' outputs
	rounds int
	more   []string // flags of all runs of moe_lm
	out    io.Writer
	runs   int
}

// side is one side of a comparison: a command with timed steps after some untimed ones. Peers print a time in ms per step;
// other commands write metrics to a folder.
type side struct {
	name    string
	command []string
	env     []string
	warm    int
	folder  bool // the command takes -out
}

// olmoeSettings are the settings of torch_olmoe.py's model.
const olmoeSettings = `{"model": {"model_type": "olmoe", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 512,
  "num_experts": 16, "num_experts_per_tok": 4}, "length": 128, "batch": 8, "eval_every": 0, "dtype": %q}`

// measureTraining prints the table. If Python lacks transformers or peft, it leaves out their rows and says so.
func measureTraining(ctx context.Context, dir string, rounds int, out io.Writer) error {
	t := &training{ctx: ctx, dir: dir, rounds: rounds, out: out}
	build := exec.CommandContext(ctx, "go", "build", "-o", dir, "github.com/gomoe/gomoe/examples/moe_lm", "github.com/gomoe/gomoe/cmd/gomoe")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("bench: -training wants Go and a folder in the checkout: %w: %s", err, said)
	}
	fmt.Fprint(out, "| | ms | ms | ratio of each round |\n|---|--:|--:|--:|\n")
	lm := func(name string, warm int, flags ...string) side {
		all := slices.Concat([]string{filepath.Join(dir, "moe_lm"), "-eval", "0", "-sample", "0"}, flags, t.more)
		return side{name: name, command: all, warm: warm, folder: true}
	}
	four := lm("four processes", 5, "-steps", "25", "-mesh", "dp=2,ep=2")
	four.command = append([]string{filepath.Join(dir, "gomoe"), "launch", "-n", "4", "--"}, four.command...)
	pairs := [][2]side{
		{lm("moe_lm, a checkpoint every 10 steps", 10, "-steps", "31", "-save-every", "10"), lm("none", 10, "-steps", "31")},
		{four, lm("one rank", 5, "-steps", "25", "-mesh=")},
	}
	for _, mesh := range []string{"dp=2,ep=2", "dp=3,ep=2", "ep=3"} {
		flags := []string{"-steps", "13", "-batch", "24", "-mesh", mesh}
		pairs = append(pairs, [2]side{lm("moe_lm -exact -mesh "+mesh, 3, append(flags, "-exact")...), lm("without -exact", 3, flags...)})
	}
	for _, p := range pairs {
		if err := t.compare(p[0], p[1]); err != nil {
			return err
		}
	}
	if err := t.transformers(); err != nil {
		return err
	}
	for _, flags := range []string{"", "-batch 64", "-mesh= -save-every 10", "-mesh= -batch 64 -microbatches 4", "-mesh= -batch 64 -remat all"} {
		if err := t.memory(flags); err != nil {
			return err
		}
	}
	return nil
}

// transformers compares a small OLMoE with transformers.
func (t *training) transformers() error {
	python := func(what, dtype string) (side, error) {
		for _, module := range []string{"transformers", "peft"} {
			if _, err := python(t.dir, "torch_olmoe.py", module, 2); err != nil {
				return side{}, err
			}
		}
		cmd, err := python(t.dir, "torch_olmoe.py", "torch", 2)
		if err != nil {
			return side{}, err
		}
		return side{name: "transformers", command: append(slices.Clip(cmd.Args[:2]), what, dtype, "grouped_mm"), env: cmd.Env, warm: 2}, nil
	}
	settings := func(dtype string) (string, error) {
		path := filepath.Join(t.dir, dtype+".json")
		return path, os.WriteFile(path, fmt.Appendf(nil, olmoeSettings, dtype), 0o644)
	}
	theirs, err := python("all", "float32")
	if err != nil {
		fmt.Fprintf(t.out, "| an OLMoE beside transformers and peft | left out: %v | | |\n", err)
		return nil
	}
	whole, err := settings("f32")
	if err != nil {
		return err
	}
	gomoe := filepath.Join(t.dir, "gomoe")
	if err := t.compare(side{name: "gomoe train, an OLMoE of 55 million weights, f32", command: []string{gomoe, "train", whole, "-steps", "7"}, warm: 2, folder: true}, theirs); err != nil {
		return err
	}
	half, err := settings("bf16")
	if err != nil {
		return err
	}
	base, text := filepath.Join(t.dir, "base"), filepath.Join(t.dir, "text.jsonl")
	if said, err := exec.CommandContext(t.ctx, gomoe, "train", half, "-steps", "1", "-out", base).CombinedOutput(); err != nil {
		return fmt.Errorf("bench: gomoe train: %w: %s", err, said)
	}
	line := fmt.Sprintf("{\"text\": %q}\n", strings.Repeat("every token goes to two experts. ", 60))
	if err := os.WriteFile(text, []byte(strings.Repeat(line, 50)), 0o644); err != nil {
		return err
	}
	if theirs, err = python("lora", "bfloat16"); err != nil {
		return err
	}
	ours := []string{gomoe, "finetune", base, "-data", text, "-steps", "7", "-batch", "8", "-length", "128", "-rank", "16", "-targets", "q_proj,k_proj,v_proj,o_proj"}
	return t.compare(side{name: "gomoe finetune, the same, LoRA of rank 16, bf16", command: ours, warm: 2, folder: true}, theirs)
}

// compare alternates between two sides, and prints the median times of their steps and their ratios.
func (t *training) compare(a, b side) error {
	var all [2][]float64
	var ratios []string
	for range t.rounds {
		var medians [2]float64
		for i, s := range []side{a, b} {
			times, err := t.steps(s)
			if err != nil {
				return fmt.Errorf("bench: %s: %w", s.name, err)
			}
			all[i], medians[i] = append(all[i], times...), median(times)
		}
		ratios = append(ratios, fmt.Sprintf("%.2f", medians[0]/medians[1]))
	}
	x, y := median(all[0]), median(all[1])
	_, err := fmt.Fprintf(t.out, "| %s / %s | %.0f | %.0f | **%.2f** (%s) |\n", a.name, b.name, x, y, x/y, strings.Join(ratios, ", "))
	return err
}

// steps runs a side and returns the times of its steps in ms.
func (t *training) steps(s side) ([]float64, error) {
	said, folder, _, err := t.run(s)
	if err != nil {
		return nil, err
	}
	var words []string
	if !s.folder {
		words = strings.Fields(said)
	} else if words, err = column(filepath.Join(folder, "metrics.csv"), "seconds"); err != nil {
		return nil, err
	}
	if len(words) <= s.warm {
		return nil, fmt.Errorf("%d steps, want more than %d", len(words), s.warm)
	}
	var times []float64
	for _, w := range words[s.warm:] {
		x, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return nil, err
		}
		if s.folder {
			x *= 1e3
		}
		times = append(times, x)
	}
	return times, nil
}

// run runs a side once, and returns its output, its folder and its peak memory in bytes.
func (t *training) run(s side) (said, folder string, peak int64, err error) {
	t.runs++
	folder = filepath.Join(t.dir, fmt.Sprint("run", t.runs))
	args := slices.Clone(s.command[1:])
	if s.folder {
		args = append(args, "-out", folder)
	}
	cmd := exec.CommandContext(t.ctx, s.command[0], args...)
	cmd.Env = s.env
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err == nil {
		peak = peakOf(cmd.ProcessState)
	}
	return string(out), folder, peak, err
}

// memory prints the peak memory of a run of moe_lm, and the run's own estimate.
func (t *training) memory(flags string) error {
	command := slices.Concat([]string{filepath.Join(t.dir, "moe_lm"), "-eval", "0", "-sample", "0", "-steps", "11"}, strings.Fields(flags), t.more)
	said, _, peak, err := t.run(side{command: command, folder: true})
	if err != nil {
		return fmt.Errorf("bench: moe_lm %s: %w", flags, err)
	}
	printed, err := printedMemory(said)
	if err != nil || peak == 0 { // unknown on this system
		return err
	}
	_, err = fmt.Fprintf(t.out, "| peak memory of moe_lm %s / what it prints, MiB | %d | %d | %.2f |\n", flags, peak>>20, printed>>20, float64(peak)/float64(printed))
	return err
}

// printedMemory returns the bytes in the line starting with memory.
func printedMemory(said string) (int64, error) {
	m := regexp.MustCompile(`(?m)^memory: ([0-9.e+]+) (KiB|MiB|GiB) `).FindStringSubmatch(said)
	if m == nil {
		return 0, errors.New("no line says the memory")
	}
	x, err := strconv.ParseFloat(m[1], 64)
	return int64(x * map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]), err
}

// column returns a column of a CSV file without its header.
func column(path, name string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	i := slices.Index(rows[0], name)
	if i < 0 {
		return nil, fmt.Errorf("%s has no column %s", path, name)
	}
	var words []string
	for _, row := range rows[1:] {
		words = append(words, row[i])
	}
	return words, nil
}
