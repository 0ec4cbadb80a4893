package kernels

import (
	"slices"

	"github.com/gomoe/gomoe/graph"
)

// The engine of matrix products is in tile.metal: C[i,j] = Σ A[i,k]·B[k,j]. Each threadgroup computes
// a tile of C. The tile for many rows does the most products per byte read. With few rows, as when
// decoding one token, most of it would be idle, so there is a second tile. Both add up each element in
// the same order, so the choice, which depends on shapes, changes no bits.

// tiling is a kind of tile: its rows and columns, and the depth of the blocks summed at a time.
type tiling struct {
	name             string // suffix of functions' names
	rows, cols, deep int
	a, b             int  // bytes of an element of A's and of B's blocks
	tensors          bool // for tensor operations: the sums reuse the memory of the blocks
}

// A product with up to fewRows rows uses the tile for few rows: two such tiles have half
// the elements of one tile for many.
const fewRows = 32

const tileThreads = 128

// narrow reports whether elements have 16 bits, and are kept in 16 bits in blocks.
func narrow(d graph.DType) bool { return d == graph.F16 || d == graph.BF16 }

// tiling returns the tile for the given number of rows of A, with operands of these types.
func (in *Instr) tiling(rows int, a, b graph.DType) tiling {
	if in.Tensors && narrow(a) && a == b {
		return tileOfTensors(a)
	}
	return tilingOf(rows, a, b)
}

// tensorTile is in the names of functions using tensor operations, and of no others.
const tensorTile = "tensor_"

// tileOfTensors returns the tile of tensor operations, for many rows and for few.
func tileOfTensors(d graph.DType) tiling {
	return tiling{name: tensorTile + d.String(), rows: 64, cols: 64, deep: 32, a: 2, b: 2, tensors: true}
}

// tilingOf is tiling without tensor operations.
func tilingOf(rows int, a, b graph.DType) tiling {
	t := tiling{name: "few_", rows: 16, cols: 64, deep: 32, a: 4, b: 4}
	if rows > fewRows {
		t.name, t.rows, t.deep = "many_", 64, 16
	}
	switch {
	case !narrow(a) && (b == graph.F32 || rows <= fewRows):
		t.name += "f32"
	case !narrow(a):
		t.name, t.cols = t.name+"f32_f32", 128
	case a == b:
		t.name, t.a, t.b = t.name+a.String(), 2, 2
	default:
		if t.name, t.a = t.name+a.String()+"_f32", 2; rows > fewRows {
			t.cols = 128
		}
	}
	return t
}

// memory returns the threadgroup memory in bytes, as computed by tile_fours.
func (t tiling) memory() int {
	const pad = 4
	block := func(lines int) int { return lines*t.deep + pad*max(lines, t.deep) }
	n := block(t.rows)*t.a + block(t.cols)*t.b
	if t.tensors {
		n = max(n, 4*t.rows*t.cols)
	}
	return n
}

// anyBlocks stands for matrices whose elements are decoded, or widened to f32.
const anyBlocks = graph.Q8_0

// tileFunctions returns the functions of a source with a kernel using the engine, for matrices of
// these types with rows of each float type, or of the rows' own type for NoDType.
func tileFunctions(kernel string, matrices ...graph.DType) []Function {
	var fs []Function
	for _, rows := range []int{1, fewRows + 1} {
		for _, a := range []graph.DType{graph.F32, graph.F16, graph.BF16} {
			for _, b := range matrices {
				if b == graph.NoDType {
					b = a
				}
				t := tilingOf(rows, a, b)
				f := Function{kernel + "_" + t.name, tileThreads, t.memory()}
				if !slices.Contains(fs, f) {
					fs = append(fs, f)
				}
			}
		}
	}
	for _, d := range []graph.DType{graph.F16, graph.BF16} {
		if t := tileOfTensors(d); slices.Contains(matrices, graph.NoDType) {
			for layout := range 4 {
				fs = append(fs, Function{t.function(kernel, layout&2 != 0, layout&1 == 0), tileThreads, t.memory()})
			}
		}
	}
	return fs
}

// function returns the name of a kernel's function. Functions using tensor operations are specific to
// one layout of A and B each: in the words of BLAS, n for contiguous rows, and t for contiguous
// columns.
func (t tiling) function(kernel string, aAcross, bAcross bool) string {
	name := kernel + "_" + t.name
	if !t.tensors {
		return name
	}
	letter := map[bool]string{false: "n", true: "t"}
	return name + "_" + letter[aAcross] + letter[!bAcross]
}

// tileTolerance is the tolerance of sums of products in another order. For normally
// distributed numbers, sums of 256, 4096 and 16384 products differ from the exact ones by
// 4e-7, 1.6e-6 and 2.6e-6 of the largest.
func tileTolerance() Tolerance {
	return Tolerance{OfMax: 1e-5, Why: "f32 sums of products, 8 at a time, where the host has blocks of 256"}
}

// side is an operand of the engine. It has the strides, in elements, of the operand's lines (A's rows
// or B's columns) and along the sum. others are further strides: multiples of them are added to
// offsets too.
type side struct {
	elem       graph.DType
	line, deep int
	others     []int
}

// across reports whether neighbouring lines are adjacent in memory.
func (s side) across() bool { return s.line == 1 && s.deep != 1 }

// fours reports whether elements can be read 4 at a time: wherever a block starts, the elements must
// be contiguous and aligned to a multiple of 4.
func (s side) fours() bool {
	step := s.line
	if s.across() {
		step = s.deep
	} else if s.deep != 1 {
		return false
	}
	for _, o := range s.others {
		if o%4 != 0 {
			return false
		}
	}
	return step%4 == 0
}

// tileLaunch returns a launch, without arguments, of one of tileFunctions, for a result of
// type c.
func tileLaunch(kernel string, t tiling, a, b side, c graph.DType, groups [3]int) (Launch, error) {
	codes := [3]int32{}
	for i, d := range [3]graph.DType{a.elem, b.elem, c} {
		code, err := floatCode(d)
		if i < 2 {
			code, err = operandCode(d)
		}
		if err != nil {
			return Launch{}, err
		}
		codes[i] = code
	}
	return Launch{
		Source:   Source{File: kernel + ".metal"},
		Function: t.function(kernel, a.across(), b.across()),
		Constants: map[int]any{0: codes[0], 1: codes[1], 2: codes[2],
			3: a.across(), 4: b.across(), 5: a.fours(), 6: b.fours()},
		Groups: groups, Threads: [3]int{tileThreads, 1, 1},
	}, nil
}

// floatCode returns the value of the function constant standing for a float type in numbers.metal.
func floatCode(d graph.DType) (int32, error) {
	switch d {
	case graph.F32:
		return 0, nil
	case graph.F16:
		return 1, nil
	case graph.BF16:
		return 2, nil
	}
	_, err := float(d)
	return 0, err
}

// operandCode is floatCode for operands that are only read, which may also be weights in blocks.
func operandCode(d graph.DType) (int32, error) {
	if d.IsBlock() {
		return 16 + int32(d-graph.Q8_0), nil // AS_Q8_0 and the following ones, in blocks.metal
	}
	return floatCode(d)
}

// pieces returns how many pieces of size piece cover n.
func pieces(n, piece int) int { return (n + piece - 1) / piece }
