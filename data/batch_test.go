package data

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/safetensors"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
	"github.com/gomoe/gomoe/sharding"
)

// shuffled is a permutation, another one for every seed and round.
func TestShuffled(t *testing.T) {
	for n := uint64(1); n < 200; n++ {
		for _, seed := range []uint64{0, 1, 1 << 63} {
			seen := make([]bool, n)
			for i := range n {
				j := shuffled(i, n, seed, 3)
				if seen[j] {
					t.Fatalf("two of %d elements come to %d", n, j)
				}
				seen[j] = true
			}
		}
	}
	orders := map[string]bool{}
	fixed := 0
	for seed := range uint64(10) {
		for round := range uint64(10) {
			var order []uint64
			for i := range uint64(64) {
				order = append(order, shuffled(i, 64, seed, round))
				if order[i] == i {
					fixed++
				}
			}
			orders[fmt.Sprint(order)] = true
		}
	}
	require.Len(t, orders, 100)
	require.Less(t, fixed, 200, "of 6400 elements that stay where they are; 100 are expected")
	require.Less(t, shuffled(1<<40, 1<<40+1, 1, 0), uint64(1<<40+1))
}

// documentsOf returns files of tokens with random documents, and these.
func documentsOf(t *testing.T, r *rand.Rand, files int) (paths []string, all [][]int32, learn [][]bool) {
	t.Helper()
	dir := t.TempDir()
	for f := range files {
		b := builder{path: filepath.Join(dir, fmt.Sprint(f)), o: Options{Tokenizer: bytesAndEnd(t, template)}}
		for _, s := range []**spill{&b.tokens, &b.learn} {
			var err error
			*s, err = newSpill(dir)
			require.NoError(t, err)
			defer (*s).Close()
		}
		for range 1 + r.IntN(8) {
			var e encoded
			for range 1 + r.IntN(12) {
				e.ids, e.learn = append(e.ids, int32(r.IntN(257))), append(e.learn, r.IntN(3) > 0)
			}
			all, learn = append(all, e.ids), append(learn, e.learn)
			require.NoError(t, b.put(e))
		}
		require.NoError(t, b.write("", nil))
		paths = append(paths, b.path)
	}
	return paths, all, learn
}

// reference returns the sequences that an Order makes of documents, each as rows of the arrays in
// the order of names, in plain loops.
func reference(all [][]int32, learn [][]bool, o Order) (sequences [][5][]int32) {
	type tok struct {
		document, at int
	}
	var seqs [][]tok
	var now []tok
	flush := func() {
		if len(now) > 0 {
			seqs = append(seqs, now)
		}
		now = nil
	}
	for d := range all {
		if o.Whole && len(now)+len(all[d]) > o.Length {
			flush()
		}
		for i := range all[d] {
			if len(now) == o.Length {
				flush()
			}
			now = append(now, tok{d, i})
		}
	}
	if o.Whole || len(now) == o.Length {
		flush()
	}
	for _, s := range seqs {
		var a [5][]int32
		for i := range o.Length {
			row := [5]int32{}
			if i < len(s) {
				d, at := s[i].document, s[i].at
				row[0] = all[d][at]
				if at+1 < len(all[d]) {
					row[1] = all[d][at+1]
					if learn[d][at+1] {
						row[2] = 1
					}
				}
				row[3] = int32(min(at, i))
				row[4] = int32(d - s[0].document)
			} else {
				row[3], row[4] = int32(i-len(s)), int32(s[len(s)-1].document-s[0].document+1)
			}
			for k := range a {
				a[k] = append(a[k], row[k])
			}
		}
		sequences = append(sequences, a)
	}
	return sequences
}

// asInts returns a row of an array of a batch.
func asInts(a array.Array, row int) (out []int32) {
	n := a.Type.Shape[1]
	if a.Type.DType == graph.F32 {
		for _, x := range array.Data[float32](a)[row*n : (row+1)*n] {
			out = append(out, int32(x))
		}
		return out
	}
	return slices.Clone(array.Data[int32](a)[row*n : (row+1)*n])
}

// Batches have what a reference in plain loops makes of the same documents, and every sequence
// once in a round, in turn or shuffled.
func TestBatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for trial := range 60 {
		paths, all, learn := documentsOf(t, r, 1+r.IntN(3))
		set, err := Open(paths...)
		require.NoError(t, err)
		defer set.Close()
		o := Order{Rows: 1 + r.IntN(4), Length: 1 + r.IntN(9), Seed: r.Uint64(), Whole: r.IntN(2) > 0, InTurn: r.IntN(2) > 0}
		want := reference(all, learn, o)
		b, err := set.Batches(o)
		if len(want) == 0 {
			require.ErrorContains(t, err, "are no sequence of")
			continue
		}
		require.NoError(t, err)
		require.EqualValues(t, len(want), b.Sequences())
		seen := map[int]int{}
		for row := range 2 * len(want) {
			var got [5][]int32
			for k, name := range names() {
				a, err := b.Step(int64(row / o.Rows)).Array(name)
				require.NoError(t, err)
				got[k] = asInts(a, row%o.Rows)
			}
			i := row % len(want)
			if !o.InTurn {
				i = int(shuffled(uint64(i), uint64(len(want)), o.Seed, uint64(row/len(want))))
			}
			require.Equal(t, want[i], got, "trial %d, %+v, row %d", trial, o, row)
			seen[i]++
		}
		for i := range want {
			require.Equal(t, 2, seen[i], "rounds with sequence %d", i)
		}
		if o.Whole {
			require.Equal(t, set.Tokens(), b.Used())
		} else {
			require.Equal(t, int64(len(want)*o.Length), b.Used())
		}
	}
}

// The parts of any box are those of the whole array, also on the ranks of a session.
func TestFill(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	paths, _, _ := documentsOf(t, r, 3)
	set, err := Open(paths...)
	require.NoError(t, err)
	defer set.Close()
	b, err := set.Batches(Order{Rows: 6, Length: 5, Seed: 9})
	require.NoError(t, err)
	p, err := graph.Trace("same", func(tr *graph.Tracer) []*graph.Value {
		a := tr.Input("a", graph.I32, 6, 5)
		return []*graph.Value{primitives.Max(a, a)}
	})
	require.NoError(t, err)
	mesh, err := sharding.ParseMesh("dp=2,sp=3")
	require.NoError(t, err)
	job, err := gomoe.Open(t.Context(), p, gomoe.Config{Mesh: mesh, Place: map[string]sharding.Spec{"a": sharding.Split("dp", "sp")}})
	require.NoError(t, err)
	defer job.Close()
	for _, name := range []string{Tokens, Targets, Positions, Documents} {
		want, err := b.Step(4).Array(name)
		require.NoError(t, err)
		in, err := job.PutParts("a", b.Step(4).Fill(name))
		require.NoError(t, err)
		out, err := job.Run(context.Background(), map[string]*runtime.Array{"a": in})
		require.NoError(t, err)
		got, err := out[0].Get()
		require.NoError(t, err)
		require.Equal(t, array.Data[int32](want), array.Data[int32](got), name)
	}
	_, err = job.PutParts("a", b.Step(4).Fill(Weights))
	require.ErrorContains(t, err, "data: weights is f32[6,5], and the input i32[6,5]")
	_, err = job.PutParts("a", b.Step(4).Fill("token"))
	require.ErrorContains(t, err, `data: a batch has no array "token", it has tokens, targets, weights, positions, documents`)
	_, err = job.PutParts("a", b.Step(-1).Fill(Tokens))
	require.ErrorContains(t, err, "data: step -1, want 0 or more")
}

// With Apart, the attention of several documents in a sequence is that of each by itself.
func TestApart(t *testing.T) {
	const n, d = 7, 4
	documents := []int32{0, 0, 0, 1, 1, 1, 2}
	r := rand.New(rand.NewPCG(5, 6))
	x := array.New(graph.T(graph.F32, 1, n, 1, d))
	for i := range array.Data[float32](x) {
		array.Data[float32](x)[i] = r.Float32() - 0.5
	}
	attend := func(x array.Array, documents []int32) []float32 {
		s := x.Type.Shape[1]
		p, err := graph.Trace("attend", func(tr *graph.Tracer) []*graph.Value {
			v := tr.Input("x", graph.F32, 1, s, 1, d)
			y, _ := primitives.Attention(v, v, v, primitives.AttentionParams{Bias: Apart(tr.Input("documents", graph.I32, 1, s), graph.F32)})
			return []*graph.Value{y}
		})
		require.NoError(t, err)
		ids, err := array.Of(documents, 1, s)
		require.NoError(t, err)
		out, err := gomoe.Run(context.Background(), p, gomoe.Config{}, map[string]array.Array{"x": x, "documents": ids})
		require.NoError(t, err)
		return array.Data[float32](out[0])
	}
	together := attend(x, documents)
	for _, c := range [][2]int{{0, 3}, {3, 6}, {6, 7}} {
		alone, err := array.Of(array.Data[float32](x)[c[0]*d:c[1]*d], 1, c[1]-c[0], 1, d)
		require.NoError(t, err)
		require.InDeltaSlice(t, attend(alone, make([]int32, c[1]-c[0])), together[c[0]*d:c[1]*d], 1e-6)
	}
	_, err := graph.Trace("wrong", func(tr *graph.Tracer) []*graph.Value {
		return []*graph.Value{Apart(tr.Input("documents", graph.I32, 3), graph.F32)}
	})
	require.ErrorContains(t, err, "apart: documents are i32[3], want i32[B,S]")
}

// Files that do not hold together are refused, and a token beyond the vocabulary when it is read.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(meta map[string]string, tokens, ends, learn int, last int64, id int32) string {
		path := filepath.Join(dir, "tokens")
		e := array.New(graph.T(graph.I64, ends))
		for i := range array.Data[int64](e) {
			array.Data[int64](e)[i] = last
		}
		x := array.New(graph.T(graph.I32, tokens))
		for i := range array.Data[int32](x) {
			array.Data[int32](x)[i] = id
		}
		sources := []tensor.Source{tensor.Of("ends", e), tensor.Of("tokens", x), tensor.Of("learn", array.New(graph.T(graph.U8, learn)))}
		require.NoError(t, safetensors.Write(path, meta, sources))
		return path
	}
	good := map[string]string{"format": format, "vocab": "10"}
	for _, c := range []struct {
		meta                map[string]string
		tokens, ends, learn int
		last                int64
		want                string
	}{
		{map[string]string{}, 2, 1, 2, 2, `format "", want "gomoe tokens 1", as Build writes it`},
		{map[string]string{"format": format}, 2, 1, 2, 2, `a vocabulary of "" tokens`},
		{good, 2, 1, 1, 2, "do not belong together"},
		{good, 2, 0, 2, 2, "do not belong together"},
		{good, 2, 1, 2, 3, "do not belong together"},
		{good, 2, 1, 2, -2, "do not belong together"},
		{good, 0, 1, 0, 0, "do not belong together"},
		{good, 2, 2, 2, 2, "document 1 ends at token 2, and the one before it at token 2"},
	} {
		_, err := Open(file(c.meta, c.tokens, c.ends, c.learn, c.last, 0))
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, "data: ")
	}
	path := filepath.Join(dir, "tokens")
	require.NoError(t, safetensors.Write(path, good, []tensor.Source{tensor.Of("tokens", array.New(graph.T(graph.F32, 2)))}))
	_, err := Open(path)
	require.ErrorContains(t, err, "no tensor tokens of element type i32 and one dimension")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", 100)), 0o644))
	_, err = Open(path)
	require.ErrorContains(t, err, "data: ")
	_, err = Open()
	require.ErrorContains(t, err, "no files of tokens")

	set, err := Open(file(good, 4, 1, 4, 4, 10))
	require.NoError(t, err)
	defer set.Close()
	b, err := set.Batches(Order{Rows: 1, Length: 2, InTurn: true})
	require.NoError(t, err)
	_, err = b.Step(0).Array(Tokens)
	require.ErrorContains(t, err, "token 0 is 10, want one of 0 to 9")
	_, err = set.Batches(Order{Rows: 1, Length: 5})
	require.ErrorContains(t, err, "data: 4 tokens are no sequence of 5")
	_, err = set.Batches(Order{Length: 5})
	require.ErrorContains(t, err, "batches of 0 sequences of 5 tokens")
}
