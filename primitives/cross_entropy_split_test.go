package primitives_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/sharding"
	"github.com/gomoe/gomoe/vjp"
)

// A table and a head that are split over the vocabulary give the loss and the gradients of whole ones, and the losses have the
// same bits on every mesh. No rank has the logits of the whole vocabulary.
func TestVocabularySplit(t *testing.T) {
	const batch, tokens, width, vocab, blocks = 2, 6, 8, 24, 4
	trace := func(split bool) *graph.Program {
		p, err := graph.Trace("loss", func(tr *graph.Tracer) []*graph.Value {
			table := tr.Input("table", graph.F32, vocab, width)
			ids, labels := tr.Input("ids", graph.I32, batch, tokens), tr.Input("labels", graph.I32, batch, tokens)
			x := primitives.Embedding(table, ids)
			logits := primitives.MatMulTransposed(primitives.Tanh(x), table)
			loss := primitives.CrossEntropy
			if split {
				loss = func(logits, labels *graph.Value) *graph.Value {
					return primitives.CrossEntropyInBlocks(logits, labels, blocks)
				}
			}
			each := loss(logits, labels)
			return []*graph.Value{primitives.ReduceSum(each, 0, 1), primitives.ShardingConstraint(each), primitives.ShardingConstraint(x)}
		})
		require.NoError(t, err)
		p, err = vjp.Grad(p, "table")
		require.NoError(t, err)
		return p
	}
	r := rand.New(rand.NewPCG(1, 2))
	table, ids, labels := array.New(graph.T(graph.F32, vocab, width)), array.New(graph.T(graph.I32, batch, tokens)), array.New(graph.T(graph.I32, batch, tokens))
	for i := range vocab * width {
		array.Data[float32](table)[i] = float32(r.NormFloat64()) * 3
	}
	for i := range batch * tokens {
		array.Data[int32](ids)[i], array.Data[int32](labels)[i] = int32(r.IntN(vocab)), int32(r.IntN(vocab+1))-1
	}
	run := func(p *graph.Program, mesh string) ([]array.Array, error) {
		m, err := sharding.ParseMesh(mesh)
		require.NoError(t, err)
		cfg := gomoe.Config{Mesh: m}
		if mesh != "" {
			cfg.Place = map[string]sharding.Spec{"table": sharding.Split("tp")}
		}
		job, err := gomoe.Open(t.Context(), p, cfg)
		require.NoError(t, err)
		defer job.Close()
		if mesh != "" {
			whole := graph.T(graph.F32, batch, tokens, vocab)
			for _, b := range job.Plan().Bufs {
				require.Less(t, b.Type.Len(), whole.Len(), "a rank has %s", b.Type)
			}
		}
		return job.Step(context.Background(), map[string]array.Array{"table": table, "ids": ids, "labels": labels})
	}
	want, err := run(trace(false), "")
	require.NoError(t, err)
	first, err := run(trace(true), "")
	require.NoError(t, err)
	for i := range want {
		off, _ := array.MaxDiff(want[i], first[i])
		require.Less(t, off, 1e-4, "result %d", i)
	}
	for _, mesh := range []string{"tp=2", "tp=4", "dp=2,tp=2"} {
		got, err := run(trace(true), mesh)
		require.NoError(t, err, mesh)
		for i := range want {
			off, _ := array.MaxDiff(want[i], got[i])
			require.Less(t, off, 1e-4, "%s: result %d", mesh, i)
		}
		require.True(t, array.Equal(first[1], got[1]) && array.Equal(first[2], got[2]), "%s: other bits", mesh)
	}
	array.Data[int32](labels)[3] = vocab
	_, err = run(trace(true), "tp=2")
	require.ErrorContains(t, err, "24")
}
