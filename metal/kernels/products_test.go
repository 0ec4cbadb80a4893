package kernels_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/metaltest"
)

var every = flag.Bool("every", false, "run all rows of the largest tables, not a sample")

// sampled reports whether a run includes column j of row i of one of the largest tables. make programs
// and make arithmetic run all of them. Without -every it is every third one: 3 is coprime with the
// numbers of most options that i+j selects.
func sampled(i, j int) bool { return *every || (i+j)%3 == 0 }

// check compares the device with the host: instructions of these names, of which there
// has to be one each.
func check(t *testing.T, src string, cfg gomoe.Config, in *inputs, names ...string) {
	t.Helper()
	p, err := gomoe.Parse("t", src)
	require.NoError(t, err)
	metaltest.Check(t, p, cfg, in.of(t, p), metaltest.Options{Instructions: names})
}

// inputs makes a program's inputs: those that are set, and random numbers.
type inputs struct {
	r   *rand.Rand
	set map[string]array.Array
}

func source() *inputs { return &inputs{rand.New(rand.NewPCG(1, 2)), map[string]array.Array{}} }

// of returns the inputs of p.
func (s *inputs) of(t *testing.T, p *graph.Program) map[string]array.Array {
	t.Helper()
	in := map[string]array.Array{}
	for _, v := range p.In {
		a, ok := s.set[v.Name]
		if !ok {
			a = s.random(t, v.Type)
		}
		in[v.Name] = a
	}
	return in
}

// random returns normally distributed floats, or integers of any bits.
func (s *inputs) random(t *testing.T, ty graph.Type) array.Array {
	t.Helper()
	a := array.New(ty)
	if !ty.DType.IsFloat() {
		for i := range a.Bytes() {
			a.Bytes()[i] = byte(s.r.Uint32())
		}
		return a
	}
	x := array.New(ty.With(graph.F32))
	for i := range array.Data[float32](x) {
		array.Data[float32](x)[i] = float32(s.r.NormFloat64())
	}
	require.NoError(t, array.Convert(a, x))
	return a
}
