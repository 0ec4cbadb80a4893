package quant

import (
	"fmt"

	"github.com/gomoe/gomoe/graph"
)

// Types returns the element types in blocks.
func Types() []graph.DType {
	return []graph.DType{graph.Q8_0, graph.Q4_K, graph.Q6_K, graph.Q2_K, graph.IQ2_XXS, graph.MXFP4}
}

// Dequantize sets dst to the elements that the blocks of type d stand for. It is
// an error if d is not a type in blocks, or if there are more or fewer blocks
// than dst needs.
//
// Products of factors are rounded to f32 from left to right, in the order of the
// table in the package comment.
func Dequantize(dst []float32, d graph.DType, blocks []byte) error {
	f, err := formatOf(d, len(dst), len(blocks))
	if err != nil {
		return err
	}
	n, size := d.Block()
	for i := 0; i < len(dst); i += n {
		f.decode(dst[i:i+n], blocks[i/n*size:][:size])
	}
	return nil
}

// Quantize sets blocks to blocks of type d that come close to src. For q8_0 and
// mxfp4 these are the nearest blocks. For the other types a search over a few
// scales picks those with the least sum of squared errors. A block with a NaN or
// an infinity in src is set to one whose elements are all NaN; in mxfp4 its
// elements are infinite.
//
// The errors are those of Dequantize.
func Quantize(blocks []byte, d graph.DType, src []float32) error {
	f, err := formatOf(d, len(src), len(blocks))
	if err != nil {
		return err
	}
	n, size := d.Block()
	for i := 0; i < len(src); i += n {
		b := blocks[i/n*size:][:size]
		clear(b)
		if x := src[i : i+n]; notFinite(x) {
			f.poison(b)
		} else {
			f.encode(b, x)
		}
	}
	return nil
}

// format describes one type, for single blocks.
type format struct {
	decode func(y []float32, b []byte)
	encode func(b []byte, x []float32) // b is zeros before the call, x is finite
	poison func(b []byte)              // b is zeros before the call
}

func formatOf(d graph.DType, elements, bytes int) (format, error) {
	var f format
	nanAt := func(at int) func([]byte) { return func(b []byte) { b[at+1] = 0x7e } }
	switch d {
	case graph.Q8_0:
		f = format{decodeQ8, encodeQ8, nanAt(0)}
	case graph.Q4_K:
		f = format{decodeQ4K, encodeQ4K, nanAt(0)}
	case graph.Q6_K:
		f = format{decodeQ6K, encodeQ6K, nanAt(q6D)}
	case graph.Q2_K:
		f = format{decodeQ2K, encodeQ2K, nanAt(q2D)}
	case graph.IQ2_XXS:
		f = format{decodeIQ2, encodeIQ2, nanAt(0)}
	case graph.MXFP4:
		f = format{decodeMX, encodeMX, poisonMX}
	default:
		return f, fmt.Errorf("quant: element type %s, want one of %v", d, Types())
	}
	n, size := d.Block()
	if elements%n != 0 {
		return f, fmt.Errorf("quant: %d elements of %s, want a multiple of %d", elements, d, n)
	}
	if bytes != elements/n*size {
		return f, fmt.Errorf("quant: %d bytes for %d elements of %s, want %d", bytes, elements, d, elements/n*size)
	}
	return f, nil
}
