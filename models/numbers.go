package models

import (
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/runtime"
)

// Numbers returns the parameter dequantised to f32 [..,out,in] if it is stored in MLX's affine quantisation or as
// 8-bit floats with scales; otherwise it returns w.
func (w *Weight) Numbers() *Weight {
	if w.numbers != nil {
		return w.numbers
	}
	return w
}

// f8Numbers returns the dequantised parameter of 8-bit floats; nil if scales are missing or do not fit.
func f8Numbers(c *checkpoint.Checkpoint, w *Weight) *Weight {
	last := w.Type.Rank() - 1
	if last < 1 {
		return nil
	}
	var scales []tensor.Tensor
	for _, t := range w.tensors {
		s, err := c.Tensor(t.Name + "_scale_inv")
		if err != nil || !s.Type.Equal(primitives.ScaledBlocks(t.Type).With(s.Type.DType)) || fits(s, s.Type.Shape) != nil {
			return nil
		}
		scales = append(scales, s)
	}
	const block = 128
	rows, in := w.Type.Shape[last-1], w.Type.Shape[last]
	blocks := primitives.ScaledBlocks(w.Type).Shape
	fill := func(p runtime.Part) error {
		start, box := inStack(p)
		to := array.Data[float32](p.Array)
		for e := range box[0] {
			at := 0 // the tensor, and the matrix within it
			matrix := start[0] + e
			if len(w.tensors) > 1 {
				at, matrix = matrix, 0
			}
			t, s := w.tensors[at], scales[at]
			for o := range box[1] {
				row := start[1] + o
				x := array.Data[float32](array.Over(graph.T(t.Type.DType, box[2]), t.Mem[(matrix*rows+row)*in+start[2]:][:box[2]]).As(graph.F32))
				size := blocks[last] * int(s.Type.DType.Size())
				from := (matrix*blocks[last-1] + row/block) * size
				each := array.Data[float32](array.Over(graph.T(s.Type.DType, blocks[last]), s.Mem[from:][:size]).As(graph.F32))
				for i, v := range x {
					to[i] = v * each[(start[2]+i)/block]
				}
				to = to[box[2]:]
			}
		}
		return nil
	}
	return &Weight{Type: w.Type.With(graph.F32), Scales: graph.BF16, tensors: w.tensors, fill: fill}
}
