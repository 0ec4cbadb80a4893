package kernels

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// Probe is a product by tensor operations with a known result: of numbers with sums that are exact in
// any order, or of equal rows and equal columns, giving elements with equal bits wherever they are in a
// tile.
type Probe struct {
	Launch Launch // a function of TensorText("dot_general.metal"), whose arguments are A, B and the result
	A, B   []byte
	C      int // bytes of the result
	// Check returns an error describing a wrong result, nil if it is right.
	Check func(c []byte) error
}

// The sizes of the probes include full and partial tiles, and a sum over several blocks.
const probeRows, probeCols, probeDeep = 70, 68, 100

// TensorProbes returns products of both types, with operands in both layouts.
func TensorProbes() (all []Probe, err error) {
	for _, d := range []graph.DType{graph.F16, graph.BF16} {
		for layout := range 4 {
			for _, exact := range []bool{true, false} {
				p, err := tensorProbe(d, layout&1 != 0, layout&2 != 0, exact)
				if err != nil {
					return nil, err
				}
				all = append(all, p)
			}
		}
	}
	return all, nil
}

func tensorProbe(d graph.DType, aAcross, bAcross, exact bool) (p Probe, err error) {
	element := func(line, k int) float64 { return float64((line*5+k*3)%9 - 4) }
	if !exact {
		element = func(_, k int) float64 { return float64(k*37%101-50) / 51.3 }
	}
	operand := func(lines int, across bool) (side, array.Array, error) {
		a, s := array.New(graph.T(d, lines*probeDeep)), side{d, probeDeep, 1, nil}
		if across {
			s = side{d, 1, lines, nil}
		}
		x := make([]float64, a.Type.Len())
		for line := range lines {
			for k := range probeDeep {
				x[line*s.line+k*s.deep] = element(line, k)
			}
		}
		return s, a, a.SetFloat64s(x)
	}
	left, a, err := operand(probeRows, aAcross)
	if err != nil {
		return p, err
	}
	right, b, err := operand(probeCols, bAcross)
	if err != nil {
		return p, err
	}
	t := tileOfTensors(d)
	if p.Launch, err = tileLaunch("dot_general", t, left, right, graph.F32, [3]int{pieces(probeCols, t.cols), pieces(probeRows, t.rows), 1}); err != nil {
		return p, err
	}
	bs, bstrides := sizes(nil, dotBatch)
	os, ostrides := sizes(nil, dotDeep)
	fields := []any{probeRows, probeCols, probeDeep, left.line, left.deep, right.line, right.deep, probeCols, 1}
	for _, more := range [][]any{bs, bstrides[0], bstrides[1], bstrides[2], os, ostrides[0], ostrides[1]} {
		fields = append(fields, more...)
	}
	p.Launch.Args = []Arg{In(0), In(1), Out(0), Params(fields...)}
	p.A, p.B, p.C = a.Bytes(), b.Bytes(), 4*probeRows*probeCols
	x, y := a.Float64s(), b.Float64s()
	p.Check = func(c []byte) error {
		first := math.Float32frombits(binary.LittleEndian.Uint32(c))
		for i := range probeRows * probeCols {
			r, n, want := i/probeCols, i%probeCols, 0.0
			for k := range probeDeep {
				want += x[r*left.line+k*left.deep] * y[n*right.line+k*right.deep]
			}
			got := math.Float32frombits(binary.LittleEndian.Uint32(c[4*i:]))
			switch {
			case exact && float64(got) != want, !exact && !(math.Abs(float64(got)-want) <= 1e-5*math.Abs(want)):
				return fmt.Errorf("%s: element [%d,%d] of a product is %v, want %v", p.Launch.Function, r, n, got, want)
			case !exact && got != first:
				return fmt.Errorf("%s: element [%d,%d] of a product of equal rows and equal columns is %v, and [0,0] is %v: bits depend on the place in a tile", p.Launch.Function, r, n, got, first)
			}
		}
		return nil
	}
	return p, nil
}
