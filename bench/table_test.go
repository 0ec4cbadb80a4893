package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

func sample() report {
	layer := row{Workload: "moe/f32", Title: "MoE layer, f32", Threads: 2, Peer: "PyTorch", Version: "2.9", Formulation: "sorted | fused", Target: 1,
		Gomoe: times{12.34e6, 11e6}, Other: times{10e6, 9.99e6}, Ratio: 1.234, Error: 5e-7, Flop: 6.4e9,
		Formulations: []formulation{{Name: "sorted | fused", Error: 5e-7, NS: 9990000}, {Name: "grouped_mm", Failure: "disagrees: 0.5"}}}
	other := layer
	other.Peer, other.Version, other.Ratio, other.Other, other.Formulations = "JAX", "0.10", 0.2, times{61e6, 60e6}, nil
	missing := row{Workload: "scalar", Title: "20 equations", Threads: 1, Peer: "JAX", Target: 1.5, Gomoe: times{900, 850}, Note: "not installed: pip install jax"}
	alone := row{Workload: "decode", Title: "decoding", Threads: 1, Peer: "ggml", Target: 1, Other: times{2.5e9, 2e9}, Note: "gomoe: q4_k is unknown"}
	return report{Machine: "a machine", Kernels: "avx2", Rounds: 5, Seconds: 0.3, Rows: []row{layer, other, missing, alone}}
}

func TestMarkdown(t *testing.T) {
	var got bytes.Buffer
	require.NoError(t, sample().writeMarkdown(&got))
	golden := filepath.Join("testdata", "table.md")
	if *update {
		require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	if got.String() != string(want) {
		t.Errorf("the table is not %s; with -update it is written:\n%s", golden, got.String())
	}
}

func TestJSON(t *testing.T) {
	var text bytes.Buffer
	require.NoError(t, sample().writeJSON(&text))
	var back report
	require.NoError(t, json.Unmarshal(text.Bytes(), &back))
	require.Equal(t, sample(), back)
}

func TestDuration(t *testing.T) {
	for ns, want := range map[float64]string{12: "12 ns", 1234: "1.23 µs", 45.67e3: "45.7 µs", 345e6: "345 ms", 2.5e9: "2.50 s"} {
		if got := duration(ns); got != want {
			t.Errorf("%g ns is written %q, want %q", ns, got, want)
		}
	}
}

// The plot has a bar for each row with a ratio: it grows with them, the bar that
// reaches its target is green, the other red, and both meet at 1.
func TestPlot(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, sample().writePlot(&b))
	img, err := png.Decode(&b)
	require.NoError(t, err)
	count := map[[3]uint32]int{}
	edge := map[[3]uint32][2]int{} // leftmost and rightmost column of each color
	r := img.Bounds()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			red, green, blue, _ := img.At(x, y).RGBA()
			c := [3]uint32{red >> 8, green >> 8, blue >> 8}
			e, ok := edge[c]
			if !ok {
				e = [2]int{x, x}
			}
			edge[c] = [2]int{min(e[0], x), max(e[1], x)}
			count[c]++
		}
	}
	red, green := [3]uint32{0xd9, 0x5f, 0x5f}, [3]uint32{0x4c, 0xa3, 0x66}
	// log(1/0.2) to log(1.234) is 7.65; the heights are equal.
	if ratio := float64(count[green]) / float64(count[red]); ratio < 6 || ratio > 10 {
		t.Errorf("%d green pixels and %d red ones, want about 7.7 times as many", count[green], count[red])
	}
	if gap := edge[red][0] - edge[green][1]; gap < 0 || gap > 6 {
		t.Errorf("green ends at %d, red begins at %d, want both at 1", edge[green][1], edge[red][0])
	}

	short := sample()
	short.Rows = short.Rows[:1]
	b.Reset()
	require.NoError(t, short.writePlot(&b))
	img, err = png.Decode(&b)
	require.NoError(t, err)
	if img.Bounds().Dy() >= r.Dy() {
		t.Errorf("one bar takes %d pixels, two take %d", img.Bounds().Dy(), r.Dy())
	}
	short.Rows = nil
	require.ErrorContains(t, short.writePlot(&b), "no row has a ratio")
}
