package kernels

import "github.com/gomoe/gomoe/graph"

// The engine of matrix products is in tile.metal: C[i,j] = Σ A[i,k]·B[k,j], a tile of C
// for each threadgroup. The tile for many rows does the most products for what it reads;
// with few rows, as when one token is decoded, most of it would be idle. Each element is
// summed in one order in both, so the choice, which goes by shapes, changes no bits.

// tiling is a kind of tile: rows by cols, summed in blocks that are deep.
type tiling struct {
	name             string
	rows, cols, deep int
}

func tileForMany() tiling { return tiling{"many", 64, 64, 16} }
func tileForFew() tiling  { return tiling{"few", 16, 64, 32} }

// Up to this many rows are few: two tiles of them have half the elements of one for many.
const fewRows = 32

const tileThreads = 128

func tilingOf(rows int) tiling {
	if rows <= fewRows {
		return tileForFew()
	}
	return tileForMany()
}

// memory returns the bytes of threadgroup memory with blocks whose elements have so many:
// what tile_floats says, for the four simdgroups' strips take less.
func (t tiling) memory(size int) int {
	const pad = 4
	block := func(lines int) int { return lines*t.deep + pad*max(lines, t.deep) }
	return (block(t.rows) + block(t.cols)) * size
}

// tileFunctions are the functions of a source that has a kernel on the engine.
func tileFunctions(kernel string) []Function {
	var fs []Function
	for _, t := range []tiling{tileForMany(), tileForFew()} {
		fs = append(fs, Function{kernel + "_" + t.name + "_f32", tileThreads, t.memory(4)},
			Function{kernel + "_" + t.name + "_f16", tileThreads, t.memory(2)})
	}
	return fs
}

// tileTolerance is that of sums of products in another order. Of normally distributed
// numbers, sums of 256, 4096 and 16384 products are 4e-7, 1.6e-6 and 2.6e-6 of the largest
// off the exact ones.
func tileTolerance() Tolerance {
	return Tolerance{OfMax: 1e-5, Why: "f32 sums of products, 8 at a time, where the host has blocks of 256"}
}

// side is an operand of the engine: the strides in elements of its lines, A's rows or B's
// columns, and along the sum. others are what else is added to offsets, in multiples.
type side struct {
	elem       graph.DType
	line, deep int
	others     []int
}

// across reports whether lines lie side by side in memory.
func (s side) across() bool { return s.line == 1 && s.deep != 1 }

// fours reports whether elements can be read 4 at a time: those that lie side by side
// from a multiple of 4 on, wherever a block begins.
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

// tileLaunch is a launch of one of tileFunctions but for its arguments, for a result of
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
	blocks := "f32"
	if a.elem == graph.F16 && b.elem == graph.F16 {
		blocks = "f16"
	}
	return Launch{
		Source:   Source{File: kernel + ".metal"},
		Function: kernel + "_" + t.name + "_" + blocks,
		Constants: map[int]any{0: codes[0], 1: codes[1], 2: codes[2],
			3: a.across(), 4: b.across(), 5: a.fours(), 6: b.fours()},
		Groups: groups, Threads: [3]int{tileThreads, 1, 1},
	}, nil
}

// floatCode returns the function constant that numbers.metal has for an element type.
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

// operandCode is floatCode for what is only read: weights in blocks, too.
func operandCode(d graph.DType) (int32, error) {
	switch d {
	case graph.Q8_0:
		return 16, nil
	case graph.Q4_K:
		return 17, nil
	case graph.Q6_K:
		return 18, nil
	case graph.Q2_K:
		return 19, nil
	case graph.IQ2_XXS:
		return 20, nil
	case graph.MXFP4:
		return 21, nil
	}
	return floatCode(d)
}

// pieces returns how many pieces cover n.
func pieces(n, piece int) int { return (n + piece - 1) / piece }
