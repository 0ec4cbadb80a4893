package toy

import (
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/sharding"
)

// do is elementwise for the engines. The test gives its kernel and its derivative.
type do struct {
	name   string
	kernel exec.Kernel
	vjp    func(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error)
}

// Do returns a value of x's type computed by kernel.
func Do(name string, kernel exec.Kernel, x *graph.Value) *graph.Value {
	return graph.Apply1(do{name: name, kernel: kernel}, x)
}

// DoSum returns a scalar computed by kernel on every rank from the rank's parts of xs. xs
// are scalars and arrays of the same shape. If they are split, the ranks' scalars are
// added.
func DoSum(name string, kernel exec.Kernel, xs ...*graph.Value) *graph.Value {
	return graph.Apply1(doSum{name, kernel}, xs...)
}

type doSum struct {
	name   string
	kernel exec.Kernel
}

func (d doSum) Name() string { return d.name }
func (d doSum) Infer(in []graph.Type) ([]graph.Type, error) {
	return []graph.Type{{DType: in[0].DType}}, nil
}

func (d doSum) Shard(c *sharding.Context) (sharding.Decision, error) {
	f := sharding.Factors{Out: [][]int{nil}}
	for i := range c.In {
		dims := sharding.Elementwise(c.Type(i), 1, 0, 0).In[0]
		f.In = append(f.In, dims)
		if len(dims) > len(f.Sum) {
			f.Sum = dims
		}
	}
	return c.Place(f)
}

func (d doSum) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: Op(d.name), Out: out, In: in, Kernel: d.kernel})
}

// Differentiate is Do with a kernel copying x and this derivative rule.
func Differentiate(name string, vjp func(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error), x *graph.Value) *graph.Value {
	return graph.Apply1(do{name, Copy, vjp}, x)
}

// Copy is a kernel copying its argument.
func Copy(a *exec.Args) error {
	copy(a.Out[0].Bytes(), a.In[0].Bytes())
	return nil
}

func (d do) Name() string                                { return d.name }
func (d do) Infer(in []graph.Type) ([]graph.Type, error) { return in, nil }

func (d do) VJP(e *graph.Eqn, ct []*graph.Value) ([]*graph.Value, error) {
	if d.vjp == nil {
		return nil, nil
	}
	return d.vjp(e, ct)
}

func (d do) Shard(c *sharding.Context) (sharding.Decision, error) {
	return c.Place(sharding.Elementwise(c.Type(0), 1, 1, sharding.NotLinear))
}

func (d do) Lower(e *lowering.Emitter, out, in []lowering.Buf) error {
	return e.Emit(lowering.KernelSpec{Op: Op(d.name), Out: out, In: in, Kernel: d.kernel})
}

// Opaque returns x, using a primitive that has no rules besides Infer.
func Opaque(x *graph.Value) *graph.Value { return graph.Apply1(opaque{}, x) }

type opaque struct{}

func (opaque) Name() string                                { return "opaque" }
func (opaque) Infer(in []graph.Type) ([]graph.Type, error) { return in, nil }
