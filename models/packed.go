package models

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/primitives"
	"github.com/gomoe/gomoe/quant"
	"github.com/gomoe/gomoe/runtime"
)

// packed locates a matrix quantised by MLX: words u32 [..,out,in·bits/32], with tensors of scales and, in affine
// mode, biases. In mode mxfp4 a byte of the words holds two adjacent MXFP4 elements, and scales are bytes.
func packed(c *checkpoint.Checkpoint, p nn.Param, t tensor.Tensor, q checkpoint.Quantization) (*Weight, error) {
	if t.Type.DType != graph.U32 {
		return nil, fmt.Errorf("%s: tensor %s has elements %s, want U32 as MLX quantises matrices, since there are scales beside it", t.File, quoted.Name(t.Name), t.Stored)
	}
	switch q.Mode {
	case checkpoint.AffineMode:
		return packedAffine(c, p, t, nn.Affine{Bits: q.Bits, GroupSize: q.GroupSize})
	case checkpoint.MXFP4Mode:
		return packedMX(c, p, t, q)
	}
	return nil, fmt.Errorf("%s: tensor %s is quantised in mode %s, want %s or %s; convert the model with mlx-lm", t.File, quoted.Name(t.Name), quoted.Name(q.Mode), checkpoint.AffineMode, checkpoint.MXFP4Mode)
}

func packedAffine(c *checkpoint.Checkpoint, p nn.Param, t tensor.Tensor, q nn.Affine) (*Weight, error) {
	dense := p.Type
	if p.Affine != (nn.Affine{}) { // the parameter is the words, not yet the matrix
		dense.Shape = slices.Clone(dense.Shape)
		dense.Shape[dense.Rank()-1] *= 32 / q.Bits
	}
	if dense.Rank() < 2 {
		return nil, fmt.Errorf("%s: tensor %s is quantised, and the parameter is %v, want a matrix", t.File, quoted.Name(t.Name), dense.Shape)
	}
	base := strings.TrimSuffix(t.Name, "weight")
	tensors := []tensor.Tensor{t}
	for _, name := range []string{base + "scales", base + "biases"} {
		x, err := c.Tensor(name)
		if err != nil {
			return nil, err
		}
		tensors = append(tensors, x)
	}
	words, scales, err := primitives.AffineWeights(dense.With(tensors[1].Type.DType), q.Bits, q.GroupSize)
	if err != nil {
		return nil, fmt.Errorf("%s: tensor %s: %w", t.File, quoted.Name(t.Name), err)
	}
	for i, x := range tensors {
		want := scales
		if i == 0 {
			want = words
		}
		if err := shaped(x, want.Shape); err != nil {
			return nil, err
		}
		if i > 0 && (!scales.DType.IsFloat() || scales.DType.IsF8() || x.Type.DType != scales.DType) {
			return nil, fmt.Errorf("%s: tensor %s has elements %s, want numbers of f32, f16 or bf16, of one type for scales and biases", x.File, quoted.Name(x.Name), x.Stored)
		}
	}
	numbers := &Weight{Type: dense.With(graph.F32), Scales: scales.DType, tensors: tensors, fill: affineNumbers(tensors, dense.Shape, q)}
	return &Weight{Type: words, Affine: q, tensors: tensors[:1], numbers: numbers, Scales: scales.DType}, nil
}

// affineNumbers returns a function that dequantises parts of a matrix with the given shape from words, scales and
// biases.
func affineNumbers(tensors []tensor.Tensor, shape []int, q nn.Affine) func(runtime.Part) error {
	in, rows := shape[len(shape)-1], shape[len(shape)-2]
	words, groups := in*q.Bits/32, in/q.GroupSize
	return func(p runtime.Part) error {
		start, box := inStack(p)
		x, to := make([]float32, in), array.Data[float32](p.Array)
		ws, side := make([]uint32, words), [2]array.Array{}
		for e := range box[0] {
			for o := range box[1] {
				row := (start[0]+e)*rows + start[1] + o
				for i := range ws {
					ws[i] = binary.LittleEndian.Uint32(tensors[0].Mem[(row*words+i)*4:])
				}
				for i, t := range tensors[1:] {
					size := groups * int(t.Type.DType.Size())
					side[i] = array.Over(graph.T(t.Type.DType, groups), t.Mem[row*size:][:size]).As(graph.F32)
				}
				quant.DequantizeAffine(x, ws, array.Data[float32](side[0]), array.Data[float32](side[1]), q.Bits, q.GroupSize)
				to = to[copy(to, x[start[2]:][:box[2]]):]
			}
		}
		return nil
	}
}

// inStack returns the start and the shape of a part of a matrix, or of a stack of matrices, within a stack.
func inStack(p runtime.Part) (start, shape []int) {
	if len(p.Start) == 2 {
		return slices.Concat([]int{0}, p.Start), slices.Concat([]int{1}, p.Type.Shape)
	}
	return p.Start, p.Type.Shape
}

func packedMX(c *checkpoint.Checkpoint, p nn.Param, t tensor.Tensor, q checkpoint.Quantization) (*Weight, error) {
	const block, half = 32, 16
	if q.Bits != 4 || q.GroupSize != block {
		return nil, fmt.Errorf("%s: tensor %s is quantised in mode %s with bits %d and group_size %d, want 4 and %d", t.File, quoted.Name(t.Name), q.Mode, q.Bits, q.GroupSize, block)
	}
	scales, err := c.Tensor(strings.TrimSuffix(t.Name, "weight") + "scales")
	if err != nil {
		return nil, err
	}
	shape, last := p.Type.Shape, p.Type.Rank()-1
	if last < 1 || shape[last]%block != 0 {
		return nil, fmt.Errorf("%s: tensor %s has blocks of %d numbers, and the parameter is %v; want a matrix with rows of a multiple", t.File, quoted.Name(t.Name), block, shape)
	}
	blocks := shape[last] / block
	if err := shaped(t, slices.Concat(shape[:last], []int{blocks * half / 4})); err != nil {
		return nil, err
	}
	if err := shaped(scales, slices.Concat(shape[:last], []int{blocks})); err != nil {
		return nil, err
	}
	if scales.Type.DType != graph.U8 {
		return nil, fmt.Errorf("%s: tensor %s has elements %s, want U8", scales.File, quoted.Name(scales.Name), scales.Stored)
	}
	fill := func(p runtime.Part) error {
		start, box := inStack(p)
		to := p.Bytes()
		for e := range box[0] {
			for o := range box[1] {
				at := ((start[0]+e)*shape[last-1]+start[1]+o)*blocks + start[2]/block
				to = mxRow(to, scales.Mem[at:], t.Mem[at*half:], box[2]/block)
			}
		}
		return nil
	}
	return &Weight{Type: graph.Type{DType: graph.MXFP4, Shape: shape}, tensors: []tensor.Tensor{t, scales}, fill: fill}, nil
}

// shaped returns an error if a tensor's shape is not want.
func shaped(t tensor.Tensor, want []int) error {
	if !slices.Equal(t.Type.Shape, want) {
		return fmt.Errorf("%s: tensor %s has shape %v, want %v", t.File, quoted.Name(t.Name), t.Type.Shape, want)
	}
	return nil
}
