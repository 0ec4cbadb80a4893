package primitives

import (
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
	"github.com/gomoe/gomoe/lowering/ops"
)

// DeviceJoins returns the rules joining instructions of plans for devices. They save reading
// weights, writing the products with gate and up, and copying rows into expert order for products.
func DeviceJoins() [][]lowering.Join {
	return [][]lowering.Join{{joinRowWeights, joinDeviceSwiGLU}, {joinDeviceIndexed}, {joinOnlyWeights}}
}

// joinDeviceSwiGLU is joinSwiGLU, joinSwiGLUBlocks and joinNarrowBlocks for gate and up of the same
// type, if the products have no other readers.
func joinDeviceSwiGLU(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	for _, rule := range []lowering.Join{joinSwiGLU, joinSwiGLUBlocks, joinNarrowBlocks} {
		others, joined, ok := rule(p, i)
		if ok && len(joined.Out) == 1 && p.Bufs[joined.In[1]].Type.Equal(p.Bufs[joined.In[2]].Type) {
			return others, joined, true
		}
	}
	return noJoin()
}

// joinNarrowBlocks is joinSwiGLUBlocks for rows of 16 bits, rounding the products to the type of the
// rows before swiglu. On the host the three kernels run one after another, because fusing them gains
// nothing.
func joinNarrowBlocks(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	j, ok := gatedProducts(p, i, func(p *lowering.Peephole, b int) (rowProduct, bool) {
		m, ok := productOf(p, b, ops.GroupedMatMul|ops.Blocks)
		return m, ok && m.op.Transpose && isNarrow(p.Bufs[b].Type.DType)
	})
	if !ok {
		return noJoin()
	}
	gated := p.Instrs[i].Kernel
	return j.others(), j.joined(ops.GroupedSwiGLU|ops.Blocks, lowering.Host{Slabs: []int{1, 2},
		Dry: gateAfterUp(j.gate.Dry, j.up.Dry, gated), Kernel: gateAfterUp(j.gate.Kernel, j.up.Kernel, gated)}), true
}

// gateAfterUp returns a kernel computing the products with gate and up, followed by swiglu. Padding rows between experts are
// undefined in the products; the engine zeroes them in the result.
func gateAfterUp(gate, up, swiglu exec.Kernel) exec.Kernel {
	return func(a *exec.Args) error {
		x, w, v, counts, y := a.In[0], a.In[1], a.In[2], a.In[3], a.Out[0]
		g, u := scratchArray(a, y.Type), scratchArray(a, y.Type)
		for _, product := range []struct {
			kernel exec.Kernel
			w, to  array.Array
		}{{gate, w, g}, {up, v, u}} {
			a.In, a.Out = []array.Array{x, product.w, counts}, []array.Array{product.to}
			if err := product.kernel(a); err != nil {
				return err
			}
		}
		if a.In, a.Out = []array.Array{g, u}, []array.Array{y}; a.Dry() != nil {
			return nil
		}
		return swiglu(a)
	}
}

// joinRowWeights joins the product of experts' rows with weights in blocks and the
// multiplication by the rows' own weights, of f32. Rows with weight 0 are then not computed.
// They are zeros, even if the product would be infinite or NaN.
func joinRowWeights(p *lowering.Peephole, i int) ([]int, lowering.Instr, bool) {
	in := &p.Instrs[i]
	if in.Op != ops.Mul || len(in.In) != 2 {
		return noJoin()
	}
	for at, rows := range in.In {
		product, ok := productOf(p, rows, ops.GroupedMatMul|ops.Blocks)
		wi := p.Maker(in.In[1-at])
		if !ok || wi < 0 || !p.Last(rows, i) || !p.Last(in.In[1-at], i) || p.Bufs[rows].Type.DType != graph.F32 {
			continue
		}
		spread := &p.Instrs[wi]
		b, ok := spread.Prim.(broadcastInDimOp)
		if !ok || spread.Op != ops.BroadcastInDim || !slices.Equal(b.Dims, []int{0}) || len(b.Shape) != 2 || spread.Zones != product.Zones {
			continue
		}
		return []int{product.at, wi}, product.joined(ops.GroupedMatMul|ops.Blocks|ops.Weighted, in.Pos, in.Out,
			[]int{product.rows, product.weights, product.counts, spread.In[0]},
			lowering.Host{Dry: weighRows(product.Dry), Kernel: weighRows(product.Kernel)}), true
	}
	return noJoin()
}

// weighRows returns a kernel computing product and multiplying each row by its weight, from the
// last argument.
func weighRows(product exec.Kernel) exec.Kernel {
	return func(a *exec.Args) error {
		last := len(a.In) - 1
		weights, y := data[float32](a.In[last]), data[float32](a.Out[0])
		a.In = a.In[:last]
		if err := product(a); err != nil {
			return err
		}
		n := a.Out[0].Type.Shape[1]
		for r := range a.Dry().Times(a.Out[0].Type.Shape[0]) {
			row := y[r*n:][:n]
			if weights[r] == 0 {
				clear(row)
				continue
			}
			for i := range row {
				row[i] *= weights[r]
			}
		}
		return nil
	}
}
