package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sentence repeats in the corpus of the tests: a model that looks back a few
// bytes knows what follows.
const sentence = "the quick brown fox jumps over the lazy dog.\n"

// tiny are the flags of a model that trains in milliseconds, on a text and into
// a folder of the test, with more flags behind.
func tiny(t *testing.T, more ...string) (args []string, out string) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(data, []byte(strings.Repeat(sentence, 400)), 0o644))
	out = filepath.Join(dir, "out")
	args = []string{"-data", data, "-out", out, "-width", "16", "-layers", "2", "-heads", "2", "-ffn", "16", "-seq", "16", "-batch", "8",
		"-steps", "3", "-warmup", "2", "-eval", "0", "-sample", "0"}
	return append(args, more...), out
}

// execute runs the command line and returns what it printed.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout bytes.Buffer
	err := program().Run(context.Background(), context.Background(), args, &stdout)
	return stdout.String(), err
}

func TestHelp(t *testing.T) {
	for _, flag := range []string{"-help", "-h"} {
		got, err := execute(t, flag)
		require.NoError(t, err)
		for _, want := range []string{"moe_lm -check", "Ctrl-C", "-mesh axes", "-dtype type", "(default f32)", "-lr rate", "(default 300)"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s does not mention %q:\n%s", flag, want, got)
			}
		}
	}
}

// Every mistake on the command line gets one line that says which flag it is.
func TestMistakes(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "binary")
	require.NoError(t, os.WriteFile(binary, make([]byte, 100), 0o644))
	for _, c := range []struct {
		args string
		want string
	}{
		{"-bogus", "flag provided but not defined: -bogus; see -help"},
		{"-steps many", `invalid value "many" for flag -steps`},
		{"extra", `argument "extra": all settings are flags`},
		{"-check false", `argument "false": all settings are flags, and switches are given as -check or -check=false`},
		{"-steps 0", "-steps 0: want at least 1"},
		{"-warmup -1", "-warmup -1: want at least 0"},
		{"-eval -1", "-eval -1: want at least 0"},
		{"-sample -1", "-sample -1: want at least 0"},
		{"-sample 1 -prompt=", "-prompt is empty: want at least one byte to continue, or -sample 0"},
		{"-lr 0", "-lr 0: want a finite number above 0"},
		{"-lr NaN", "-lr NaN: want a finite number above 0"},
		{"-temperature 0", "-temperature 0: want a finite number above 0"},
		{"-temperature Inf", "-temperature +Inf: want a finite number above 0"},
		{"-out=", "-out is empty"},
		{"-width 0", "-width 0: want at least 1"},
		{"-batch -8", "-batch -8: want at least 1"},
		{"-dtype f64", `invalid value "f64" for flag -dtype: want f32 or bf16`},
		{"-seq 0", "-seq 0: want at least 1"},
		{"-width 15", "-width 15 over -heads 2: want an even number of columns per head, such as -width 16"},
		{"-width 18 -heads 6", "-width 18 over -heads 6: want an even number of columns per head, such as -width 24"},
		{"-top-k 9", "-top-k 9 of -experts 8: want at most as many"},
		{"-capacity -1", "-capacity -1: want a finite number of at least 0"},
		{"-capacity NaN", "-capacity NaN: want a finite number of at least 0"},
		{"-decay Inf", "-decay +Inf: want a finite number of at least 0"},
		{"-keep 3", "-keep 3 is for checkpoints of -save-every, which is not given"},
		{"-clip -1", "-clip -1: want a finite number of at least 0"},
		{"-mesh dp", `mesh "dp": "dp" is no axis, want name=size`},
		{"-order 0,2,1", `order [0 2 1] of the 4 ranks of a mesh, want each of 0 to 3 once`},
		{"-mesh ep=8:3/x", `split "8:3/x": "x" is no share`},
		{"-mesh ep=2,ep=2", `mesh "ep=2,ep=2": axis ep is given twice`},
		{"-mesh pp=2", "-mesh pp=2: axis pp, want dp (splits the batch), ep (the batch and the experts) or tp (heads and expert columns)"},
		{"-mesh dp=3", "-batch 8 does not divide over the 3 ranks along dp and ep in -mesh dp=3: want a multiple of 3, such as -batch 9"},
		{"-mesh dp=2,ep=8", "-batch 8 does not divide over the 16 ranks along dp and ep in -mesh dp=2,ep=8: want a multiple of 16, such as -batch 16"},
		{"-microbatches 0", "-microbatches 0: want at least 1"},
		{"-microbatches 3", "-batch 8 does not divide over the 4 ranks along dp and ep in -mesh dp=2,ep=2 in -microbatches 3: want a multiple of 12, such as -batch 12"},
		{"-mesh tp=4", "-heads 2 does not divide over the 4 ranks of tp in -mesh tp=4: want a multiple of 4, such as -heads 4"},
		{"-mesh tp=2 -ffn 15", "-ffn 15 does not divide over the 2 ranks of tp"},
		{"-data /no/such/file", "/no/such/file: no such file"},
		{"-data " + binary, "contain a NUL byte"},
		{"-limit 10", "-seq 16: text: batch of 8 sequences of 16 bytes: the text has 10 bytes to train on, want at least 17"},
		{"-limit 100 -eval 1", "-seq 16: the loss on held-out text: text: batch of 8 sequences of 16 bytes: the text has 5 bytes to hold out, want at least 17; shorten the sequences or name more text with -data, or turn the loss off, with -eval 0"},
		{"-check -limit 10", "the text has 10 bytes to train on, want at least 17"},
		{"-out /dev/null/x", "-out: mkdir /dev/null"},
		{"-trace /dev/null/x", "-trace: runtime: trace: stat /dev/null/x"},
	} {
		t.Run(strings.ReplaceAll(c.args, "/", "_"), func(t *testing.T) {
			args, _ := tiny(t, strings.Fields(c.args)...)
			_, err := execute(t, args...)
			if err == nil {
				t.Fatalf("moe_lm %s runs, want the error %q", c.args, c.want)
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("moe_lm %s: got\n%v\nwant one line with\n%s", c.args, err, c.want)
			}
		})
	}
}

// stopper is a standard output that calls stop when it is told of a step.
type stopper struct {
	out  bytes.Buffer
	at   string
	stop func()
}

func (s *stopper) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(s.at)) {
		s.stop()
	}
	return s.out.Write(b)
}

func (s *stopper) String() string { return s.out.String() }

// The first interrupt ends the run after the step, with everything it has.
func TestInterrupt(t *testing.T) {
	args, out := tiny(t, "-steps", "50", "-eval", "1", "-sample", "4")
	stop, cancel := context.WithCancel(context.Background())
	defer cancel()
	stdout := &stopper{at: "step  3/50", stop: cancel}
	err := program().Run(context.Background(), stop, args, stdout)
	require.EqualError(t, err, "interrupted after 3 of 50 steps, of which there is no checkpoint")
	require.ErrorIs(t, err, context.Canceled)
	for _, want := range []string{"3 steps, 384 tokens", "sample:\n// Package ", "written: metrics.csv, training.png, model.safetensors, config.json, tokenizer.json, sample.txt"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, stdout)
		}
	}
	if n := len(readMetrics(t, out)); n != 3 {
		t.Errorf("metrics.csv has %d steps, want 3", n)
	}
	decodePNG(t, out)
	sample, err := os.ReadFile(filepath.Join(out, "sample.txt"))
	require.NoError(t, err)
	if want := len("// Package ") + 4; len(sample) != want {
		t.Errorf("sample.txt has %d bytes, want %d: %q", len(sample), want, sample)
	}
}

// The second interrupt ends the run at once, with the reason, the plot of the
// steps done, and no goroutine left.
func TestInterruptTwice(t *testing.T) {
	args, out := tiny(t, "-steps", "50", "-eval", "1", "-sample", "4")
	before := goroutines()
	ctx, abort := context.WithCancelCause(context.Background())
	stdout := &stopper{at: "step  3/50", stop: func() { abort(errors.New("interrupted again")) }}
	err := program().Run(ctx, context.Background(), args, stdout)
	if err == nil || !strings.Contains(err.Error(), "step 4: ") || !strings.Contains(err.Error(), "interrupted again") {
		t.Errorf("got %v, want that step 4 was interrupted", err)
	}
	if n := len(readMetrics(t, out)); n != 3 {
		t.Errorf("metrics.csv has %d steps, want 3", n)
	}
	decodePNG(t, out)
	if after := settled(before); after > before {
		t.Errorf("%d goroutines before the run and %d after", before, after)
	}
}
