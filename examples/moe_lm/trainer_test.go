package main

import (
	"bytes"
	"context"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/runtime"
)

// Where several ranks hold the same part of a weight or a moment, they hold the
// same bytes after every step: nothing ever brings them together again.
func TestReplicas(t *testing.T) {
	for _, mesh := range []string{"dp=2,ep=2", "ep=2,dp=2", "dp=4", "dp=1,ep=4", "dp=2,ep=1,tp=2", "dp=2,ep=2,tp=2"} {
		args, _ := tiny(t, "-mesh", mesh, "-capacity", "0.9")
		c, o, corpus := setup(t, args...)
		tr, err := newTrainer(c, o.mesh, o.seed, runtime.Options{}, false)
		require.NoError(t, err)
		defer tr.Close()
		for n := 1; n <= 4; n++ {
			inputs, targets, err := corpus.Batch(n, c.Batch, c.Seq)
			require.NoError(t, err)
			_, err = tr.train(context.Background(), n, 1e-2, inputs, targets)
			require.NoError(t, err)
			compared := 0
			for name, a := range tr.state {
				holder := map[int]int{} // of each part, a rank
				for rank := range o.mesh.Ranks() {
					part := o.mesh.Index(rank, a.Spec.Axes())
					other, ok := holder[part]
					if !ok {
						holder[part] = rank
						continue
					}
					compared++
					if !bytes.Equal(a.Part(rank).Bytes(), a.Part(other).Bytes()) {
						t.Errorf("mesh %s, step %d: ranks %d and %d hold other values of %s", mesh, n, rank, other, name)
					}
				}
			}
			if compared < len(tr.state) {
				t.Errorf("mesh %s: only %d parts compared", mesh, compared)
			}
		}
	}
}

// New weights and moments take the memory of the old ones: a step allocates less
// than them, and no more after many steps than after few.
func TestDonation(t *testing.T) {
	args, _ := tiny(t, "-width", "64", "-ffn", "64", "-layers", "1", "-seq", "8")
	c, o, corpus := setup(t, args...)
	tr, err := newTrainer(c, o.mesh, o.seed, runtime.Options{}, false)
	require.NoError(t, err)
	defer tr.Close()
	n := 0
	perStep := func(steps int) uint64 {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		for range steps {
			n++
			inputs, targets, err := corpus.Batch(n, c.Batch, c.Seq)
			require.NoError(t, err)
			_, err = tr.train(context.Background(), n, 1e-3, inputs, targets)
			require.NoError(t, err)
		}
		goruntime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(steps)
	}
	perStep(3)
	early := perStep(5)
	perStep(20)
	late := perStep(5)
	state := uint64(0)
	for _, a := range tr.state {
		for rank := range o.mesh.Ranks() {
			state += uint64(len(a.Part(rank).Bytes()))
		}
	}
	t.Logf("%d bytes per step early, %d late; weights and moments have %d", early, late, state)
	if late > early+early/4 {
		t.Errorf("a step allocates %d bytes, 20 steps earlier it was %d", late, early)
	}
	if late > state/4 {
		t.Errorf("a step allocates %d bytes; weights and moments have %d and are donated", late, state)
	}

	old := tr.state["w_head"]
	inputs, targets, err := corpus.Batch(1, c.Batch, c.Seq)
	require.NoError(t, err)
	was := &old.Part(0).Bytes()[0]
	_, err = tr.train(context.Background(), n+1, 1e-3, inputs, targets)
	require.NoError(t, err)
	if now := &tr.state["w_head"].Part(0).Bytes()[0]; now != was {
		t.Error("a new weight does not lie where the old one did")
	}
	if _, err := old.Get(); err == nil {
		t.Error("the old weight can still be read")
	}
}
