package lm

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/data/text"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/train/picture"
)

// toy is a model of layers of nn: attention, and experts that may drop tokens.
type toy struct {
	width    int
	capacity bool
}

func (m *toy) Flags(f *flag.FlagSet) []string {
	f.IntVar(&m.width, "width", 16, "columns")
	f.BoolVar(&m.capacity, "tight", false, "experts drop tokens")
	return []string{"width"}
}

func (m *toy) Validate(sharding.Mesh) error { return nil }

func (m *toy) Size() Size {
	d := float64(m.width)
	return Size{Layers: 2, Experts: 4, TopK: 2, Width: d, Weights: 2*Vocab*d + 2*(4*d*d+4*3*d*d)}
}

func (m *toy) Forward(s *nn.Scope, tokens *graph.Value, drop bool) *graph.Value {
	x := nn.Embedding{Vocab: Vocab, Width: m.width}.Apply(s.In("embed", ""), tokens)
	for _, name := range []string{"a", "b"} {
		x = s.Remat(name, x, func(x *graph.Value) *graph.Value {
			in := s.In(name, "")
			x = primitives.Add(x, nn.Attention{Heads: 2, KVHeads: 2, Width: m.width / 2}.Apply(in, nn.RMSNorm{Epsilon: 1e-5}.Apply(in.In("norm1", ""), x), &nn.Step{}))
			moe := nn.MoE{Experts: 4, Width: m.width, Route: primitives.RouteOp{TopK: 2, Renormalize: true}}
			if drop && m.capacity {
				moe.Capacity = x.Dim(0) * x.Dim(1) / 4
			}
			y, _ := moe.Apply(in, nn.RMSNorm{Epsilon: 1e-5}.Apply(in.In("norm2", ""), x))
			return primitives.Add(x, y)
		})
	}
	return nn.Linear{Out: Vocab, DType: graph.F32}.Apply(s.In("head", ""), x)
}

func (m *toy) Config(*Options) map[string]any             { return map[string]any{"model_type": "toy"} }
func (m *toy) Name(param string) (name string, turn bool) { return param, false }

// sentence repeats in the text of the tests.
const sentence = "the quick brown fox jumps over the lazy dog.\n"

// tiny are the flags of a run that takes milliseconds, on a text and into a folder of the test, with more flags behind.
func tiny(t *testing.T, more ...string) (args []string, out string) {
	t.Helper()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat(sentence, 400)), 0o644))
	out = filepath.Join(dir, "out")
	return append([]string{"-data", text, "-out", out, "-seq", "16", "-batch", "8", "-steps", "3", "-warmup", "2", "-eval", "0", "-sample", "0"}, more...), out
}

func command() Command {
	return Command{Name: "toy", Usage: "toy trains.\n", Model: &toy{}, Masters: true, Draw: picture.Draw}
}

// execute runs a command line and returns what it printed.
func execute(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout bytes.Buffer
	err := command().Run(context.Background(), context.Background(), args, &stdout)
	return stdout.String(), err
}

// setup parses a command line and loads its text.
func setup(t *testing.T, args ...string) (Command, *Options, *Bytes) {
	t.Helper()
	c := command()
	o, err := c.Parse(args)
	require.NoError(t, err)
	corpus, err := text.Load(context.Background(), text.Options{Data: o.Data, Seed: o.Seed})
	require.NoError(t, err)
	b, err := NewBytes(corpus, o.Rows, o.Length, false)
	require.NoError(t, err)
	return c, o, b
}
