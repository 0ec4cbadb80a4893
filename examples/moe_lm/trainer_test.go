package main

import (
	"bytes"
	"context"
	"maps"
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/internal/testing/toy"
	"github.com/gomoe/gomoe/runtime"
)

// Where several ranks hold the same part of a weight or a moment, they hold the
// same bytes after every step: nothing ever brings them together again.
func TestReplicas(t *testing.T) {
	for _, mesh := range []string{"dp=2,ep=2", "ep=2,dp=2", "dp=4", "dp=1,ep=4", "dp=2,ep=1,tp=2", "dp=2,ep=2,tp=2"} {
		args, _ := tiny(t, "-mesh", mesh, "-capacity", "0.9")
		c, o, corpus := setup(t, args...)
		tr := started(t, c, o, o.Mesh, o.Seed, runtime.Options{}, false)
		defer tr.Close()
		for n := 1; n <= 4; n++ {
			inputs, targets, err := corpus.Batch(n, o.Rows, o.Length)
			require.NoError(t, err)
			_, err = tr.train(context.Background(), n, 1e-2, inputs, targets)
			require.NoError(t, err)
			compared := 0
			for name, a := range tr.State() {
				holder := map[int]int{} // of each part, a rank
				for rank := range o.Mesh.Ranks() {
					part := o.Mesh.Index(rank, a.Spec.Axes())
					other, ok := holder[part]
					if !ok {
						holder[part] = rank
						continue
					}
					compared++
					if !bytes.Equal(toy.Part(t, a, rank).Bytes(), toy.Part(t, a, other).Bytes()) {
						t.Errorf("mesh %s, step %d: ranks %d and %d hold other values of %s", mesh, n, rank, other, name)
					}
				}
			}
			if compared < len(tr.State()) {
				t.Errorf("mesh %s: only %d parts compared", mesh, compared)
			}
		}
	}
}

// New weights and moments lie where the old ones did, which are spent, and a step
// allocates no more after many steps than after few.
func TestDonation(t *testing.T) {
	args, _ := tiny(t)
	c, o, corpus := setup(t, args...)
	tr := started(t, c, o, o.Mesh, o.Seed, runtime.Options{}, false)
	defer tr.Close()
	n := 0
	// perStep runs steps and returns the mean of the bytes that one allocates.
	perStep := func(steps int) uint64 {
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		for range steps {
			n++
			inputs, targets, err := corpus.Batch(n, o.Rows, o.Length)
			require.NoError(t, err)
			_, err = tr.train(context.Background(), n, 1e-3, inputs, targets)
			require.NoError(t, err)
		}
		goruntime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(steps)
	}
	perStep(3)
	first := maps.Clone(tr.State())
	lay := map[string][]*byte{} // where the parts of the first did
	for name, a := range first {
		for rank := range o.Mesh.Ranks() {
			lay[name] = append(lay[name], &toy.Part(t, a, rank).Bytes()[0])
		}
	}
	early := perStep(10)
	perStep(30)
	late := perStep(10)
	if late > early+early/2 {
		t.Errorf("a step allocates %d bytes, 40 steps earlier it was %d", late, early)
	}
	for name, old := range first {
		for rank := range o.Mesh.Ranks() {
			if lay[name][rank] != &toy.Part(t, tr.State()[name], rank).Bytes()[0] {
				t.Errorf("%s does not lie where it did 50 steps ago on rank %d", name, rank)
			}
		}
		if _, err := old.Get(); err == nil {
			t.Errorf("%s of 50 steps ago can still be read", name)
		}
	}
}

// Kernels find their memory in their ranks' scratch: what a step allocates is
// its results, and a function where a kernel may fork.
func TestStepAllocations(t *testing.T) {
	args, _ := tiny(t)
	c, o, corpus := setup(t, args...)
	tr := started(t, c, o, o.Mesh, o.Seed, runtime.Options{Threads: 1}, false)
	defer tr.Close()
	inputs, targets, err := corpus.Batch(1, o.Rows, o.Length)
	require.NoError(t, err)
	n, kernels := 0, len(tr.Job.Plan().Instrs)*o.Mesh.Ranks()
	perStep := testing.AllocsPerRun(5, func() {
		n++
		_, err := tr.train(context.Background(), n, 1e-3, inputs, targets)
		require.NoError(t, err)
	})
	if most := 1.5 * float64(kernels); perStep > most {
		t.Errorf("a step allocates %v times, want at most %v for %d runs of kernels", perStep, most, kernels)
	}
}
