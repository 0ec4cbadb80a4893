package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
)

// tinyShapes returns both architectures in sizes that take no time.
func tinyShapes() []modelShape {
	return []modelShape{
		{"Tiny-OLMoE", "olmoe", 256, 2, 2, 2, 128, 8, 2, 256, 22000, 1024, 1e4, 1e-5, false},
		{"Tiny-Qwen3", "qwen3moe", 256, 1, 4, 2, 64, 8, 2, 256, 22000, 1024, 1e6, 1e-6, true},
	}
}

// The files are read by this project, have the bytes of weights that a step is said to read, and all workloads run with
// them.
func TestModels(t *testing.T) {
	folder := t.TempDir()
	for _, m := range tinyShapes() {
		for _, f := range []blockFormat{q4K(), q80(), brain()} {
			l := llm{m, f, folder}
			for name, open := range map[string]func(int) (*subject, error){
				"decode":  func(n int) (*subject, error) { return l.decode(n, 1) },
				"decode4": func(n int) (*subject, error) { return l.decode(n, fewClients) },
				"decode8": func(n int) (*subject, error) { return l.decode(n, clients) },
				"prompt":  l.prompt,
				"serve":   l.serve,
			} {
				s, err := open(2)
				require.NoError(t, err, "%s %s %s", m.Name, f.name, name)
				require.NoError(t, s.step(), name)
				require.NoError(t, s.close(), name)
				logs := array.Data[float32](s.want["logs"])
				require.Len(t, logs, checkTop)
				for i, x := range logs {
					require.True(t, x < 0 && !math.IsInf(float64(x), 0) && (i == 0 || x <= logs[i-1]), "%v", logs)
				}
			}
		}
	}
}

// A step of one token reads all weights once, but for the other rows of the table of tokens and the other experts.
func TestReads(t *testing.T) {
	m, f := tinyShapes()[0], q80()
	path, err := m.write(t.TempDir(), f)
	require.NoError(t, err)
	c, err := checkpoint.Open(path)
	require.NoError(t, err)
	defer c.Close()
	all, experts, table := 0.0, 0.0, 0.0
	for _, x := range c.Tensors {
		n := float64(len(x.Mem))
		all += n
		switch ok, _ := filepath.Match("blk.*_exps.weight", x.Name); {
		case ok:
			experts += n
		case x.Name == "token_embd.weight":
			table += n
		}
	}
	require.Greater(t, experts, 0.0)
	for tokens, part := range map[int]float64{1: 0.25, 2: 1 - 0.75*0.75} {
		want := all - table*(1-float64(tokens)/float64(m.Vocab)) - experts*(1-part)
		require.InEpsilon(t, want, m.reads(f, tokens), 1e-9)
	}
	again, err := m.write(filepath.Dir(path), f)
	require.NoError(t, err)
	require.Equal(t, path, again)
}

// A prompt multiplies each token with the projections, the router and its experts, and the last one with the head; in the
// last layer each with the matrices of keys and values, and the last one with the others.
func TestProducts(t *testing.T) {
	for _, m := range tinyShapes() {
		q, kv := m.Heads*m.HeadWidth, m.KVHeads*m.HeadWidth
		token := m.Hidden*(2*q+2*kv) + m.Hidden*m.Experts + 3*m.TopK*m.Hidden*m.FFN
		last := token + 6*2*m.Hidden*kv
		require.Equal(t, float64(7*(m.Layers-1)*token+last+m.Hidden*m.Vocab), m.products(7), m.Name)
	}
}

// A process that opens a file says how much memory of its own that took.
func TestFirst(t *testing.T) {
	path, err := tinyShapes()[0].write(t.TempDir(), q4K())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run([]string{"-first", path}, &out))
	var f firstToken
	require.NoError(t, json.Unmarshal(out.Bytes(), &f))
	if _, err := os.Stat("/proc/self/status"); err == nil {
		require.Greater(t, f.Resident, int64(1<<20))
	}
	require.Error(t, run([]string{"-first", path + ".no"}, &out))
}
