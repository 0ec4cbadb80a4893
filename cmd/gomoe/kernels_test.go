package main

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/metal/kernels"
)

// What the list of kernels says nothing is computed for makes no instructions.
func TestNothing(t *testing.T) {
	p, err := gomoe.Parse("p", "program p(x f32[4,2]) {\na = exp(x)\nb = reshape(a) shape=[8]\nc = stop_gradient(b)\nd = sharding_constraint(c)\ne = reduce_sum(d) axes=[0]\nreturn e\n}")
	require.NoError(t, err)
	var used []string
	for _, e := range p.Eqns {
		used = append(used, e.Prim.Name())
	}
	plan, err := gomoe.Compile(t.Context(), p, gomoe.Config{Target: kernels.Metal{}, Optimize: gomoe.Off})
	require.NoError(t, err)
	var names []string
	for _, in := range plan.Instrs {
		names = append(names, in.Name())
	}
	require.Equal(t, []string{"exp", "reduce_sum"}, names)
	for _, n := range nothing() {
		if !slices.Contains(used, n) {
			t.Errorf("%s is not tested", n)
		}
	}
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"ab cd", "efghij", "k"}, wrap([]string{"ab", "cd", "efghij", "k"}, 5))
	require.Equal(t, []string{""}, wrap(nil, 5))
}
