package kernels_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/metal/internal/emu"
	"github.com/gomoe/gomoe/metal/kernels"
	"github.com/gomoe/gomoe/metal/metaltest"
	"github.com/gomoe/gomoe/runtime"
)

// device runs the first instruction of a name on the emulated GPU.
type device struct {
	t        *testing.T
	name     string
	function string // that it launched last
	out      []byte // result 0, or nil
}

func (d *device) Before(runtime.Observed) {}

func (d *device) After(o runtime.Observed) {
	in := kernels.Of(o.Plan, o.Index, o.Rank)
	if in.Name() != d.name || d.out != nil {
		return
	}
	p, _, err := kernels.Build(in)
	require.NoError(d.t, err)
	result := d.buffer(make([]byte, len(o.Out[0].Bytes())))
	var scratch []*emu.Buffer
	for _, n := range p.Scratch {
		scratch = append(scratch, d.buffer(make([]byte, n)))
	}
	for _, l := range p.Launches {
		var args []emu.Binding
		for _, a := range l.Args {
			switch a.Kind {
			case kernels.OfIn:
				args = append(args, emu.Binding{Buffer: d.buffer(o.In[a.Index].Bytes())})
			case kernels.OfOut:
				args = append(args, emu.Binding{Buffer: result})
			case kernels.OfZones:
				args = append(args, emu.Binding{Buffer: d.buffer(o.Zones.Bytes())})
			case kernels.OfScratch:
				args = append(args, emu.Binding{Buffer: scratch[a.Index]})
			case kernels.OfBytes:
				args = append(args, emu.Binding{Bytes: a.Bytes})
			default:
				d.t.Fatalf("an argument of kind %d", a.Kind)
			}
		}
		d.function = l.Function
		require.NoError(d.t, d.library(l.Source.File).Run(d.t.Context(), emu.Launch{Function: l.Function, Groups: l.Groups, Threads: l.Threads, Buffers: args, Constants: l.Constants}))
	}
	d.out = result.Bytes()
}

func (d *device) buffer(b []byte) *emu.Buffer {
	x, err := emu.NewBufferOf(b)
	require.NoError(d.t, err)
	d.t.Cleanup(func() { require.NoError(d.t, x.Close()) })
	return x
}

func (d *device) library(file string) *emu.Library {
	text, err := kernels.Text(file)
	require.NoError(d.t, err)
	l, err := metaltest.Library(d.t.Context(), text, emu.BuildOptions{Leader: true})
	metaltest.Compiled(d.t, err)
	return l
}

// onDevice returns the bytes of result 0 of the program's first instruction of a name,
// and the function that made it.
func onDevice(t *testing.T, src, name string, in map[string]array.Array) ([]byte, string) {
	t.Helper()
	p, err := gomoe.Parse("t", src)
	require.NoError(t, err)
	d := &device{t: t, name: name}
	_, err = gomoe.Run(t.Context(), p, gomoe.Config{Target: kernels.Metal{}, Options: runtime.Options{Observe: d}}, in)
	require.NoError(t, err)
	require.NotNil(t, d.out, "%s did not run", name)
	return d.out, d.function
}

// A row of a product has the same bits among few rows and alone, and the same among many, whichever
// tile they get, and whichever of the operands are the tile's rows.
func TestBitsOfRows(t *testing.T) {
	const most, k = 100, 300
	r := source()
	for _, d := range []graph.DType{graph.F32, graph.F16} {
		for _, n := range []int{8, 70} {
			x, y := r.random(t, graph.T(d, most, k)), r.random(t, graph.T(d, k, n))
			row := n * d.Size()
			var all []byte
			functions := map[string]bool{}
			for _, m := range []int{most, 33, 20, 4, 3, 1} {
				if m == 4 {
					all = nil // what few rows are summed by
				}
				out, f := onDevice(t, dotText(fmt.Sprintf("%s[%d,%d]", d, m, k), fmt.Sprintf("%s[%d,%d]", d, k, n), "lhs_contract=[1] rhs_contract=[0]"), "dot_general",
					map[string]array.Array{"x": x.Rows(0, m), "y": y})
				functions[f] = true
				if all == nil {
					all = out
				}
				if !bytes.Equal(out, all[:m*row]) {
					t.Errorf("%s: %d rows of %d columns have other bits than among more", f, m, n)
				}
			}
			if want := 3 + n/70; len(functions) != want {
				t.Errorf("products with %d columns took %v, want %d functions", n, functions, want)
			}
		}
	}
}

// Experts' rows have the same bits however many there are, and the sum of an expert's rows
// wherever they lie.
func TestBitsOfExperts(t *testing.T) {
	e := experts{d: graph.F32, tokens: 100, experts: 2, hidden: 50, width: 40, all: 3}
	r := source()
	r.set["idx"] = e.route(func(i int) int { return 1 - i%2*2 }) // the second expert, and none
	p, err := gomoe.Parse("t", e.text())
	require.NoError(t, err)
	many := r.of(t, p)
	rows, f := onDevice(t, e.text(), "grouped_matmul", many)
	require.Equal(t, "grouped_matmul_many_f32", f)
	sums, _ := onDevice(t, e.text(), "grouped_outer", many)

	few := e
	few.tokens = 10
	in := map[string]array.Array{"idx": many["idx"].Rows(0, 10), "x": many["x"].Rows(0, 10), "k": many["k"], "v": many["v"]}
	out, f := onDevice(t, few.text(), "grouped_matmul", in)
	require.Equal(t, "grouped_matmul_few_f32", f)
	if n := 10 * e.width * 4; !bytes.Equal(out[:n], rows[:n]) {
		t.Error("10 rows of an expert have other bits than among 100")
	}

	// The same rows behind those that the other expert now has.
	many["idx"] = e.route(func(i int) int { return 1 - i%2 })
	again, _ := onDevice(t, e.text(), "grouped_outer", many)
	if n := e.hidden * e.width * 4; !bytes.Equal(again[n:], sums[n:]) {
		t.Error("the sum of an expert's rows has other bits where they lie elsewhere")
	}
}
