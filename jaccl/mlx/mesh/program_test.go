package mesh

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"math/bits"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/collective"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/jaccl"
)

// program is what every rank of a job runs, in this language and in testdata/rank.cpp:
// JACCL's operations on many types and lengths, with a line for each that has a hash of
// the result.
type program struct {
	n int
	k int
	w []io.Writer // of one rank, or of all
}

var programTypes = []graph.DType{graph.Bool, graph.U8, graph.U32, graph.I32, graph.I64, graph.F16, graph.BF16, graph.F32, graph.F64}

// The lengths in bytes; what is longer than fewTypes is for f32 and bf16 only.
var programBytes = []int{8, 4096, 5000, 32768, 32776, 100008, 600008}

const fewTypes = 40000

// steps calls f for every operation, of number p.k, and writes a line about each of its
// results.
func (p *program) steps(f func(op string, d graph.DType, count int, exact bool, from int) ([][]byte, error)) error {
	for _, d := range programTypes {
		for _, size := range programBytes {
			if size > fewTypes && d != graph.F32 && d != graph.BF16 {
				continue
			}
			count := size / d.Size()
			exact := size > 32768 && p.n > 2
			ops := []string{"all_sum", "all_sum_in_place", "all_max", "all_min", "reduce_scatter", "all_gather"}
			if size == 5000 || size == 600008 {
				for range p.n {
					ops = append(ops, "pass")
				}
			}
			for i, op := range ops {
				results, err := f(op, d, count, exact || op == "reduce_scatter", i-6)
				if err != nil {
					return err
				}
				for i, b := range results {
					h := fnv.New64a()
					h.Write(b)
					fmt.Fprintf(p.w[i], "%d %s %s %d %016x\n", p.k, op, d, count, h.Sum64())
				}
				p.k++
			}
			if _, err := f("barrier", d, count, exact, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// run runs the program on a rank.
func (p *program) run(ctx context.Context, g jaccl.Group) error {
	return p.steps(func(op string, d graph.DType, count int, exact bool, from int) ([][]byte, error) {
		b, err := p.call(ctx, g, op, d, count, exact, from)
		return [][]byte{b}, err
	})
}

func (p *program) call(ctx context.Context, g jaccl.Group, op string, d graph.DType, count int, exact bool, from int) ([]byte, error) {
	r := g.Rank()
	in := func(r, count int) []byte { return programInput(d, p.k, r, count, exact) }
	c := collective.Call{Op: op, Seq: p.k, DType: d}
	out := make([]byte, count*d.Size())
	switch op {
	case "all_sum":
		return out, g.AllSum(ctx, c, out, in(r, count))
	case "all_sum_in_place":
		c.Op, out = "all_sum", in(r, count)
		return out, g.AllSum(ctx, c, out, out)
	case "all_max":
		return out, g.AllMax(ctx, c, out, in(r, count))
	case "all_min":
		return out, g.AllMin(ctx, c, out, in(r, count))
	case "reduce_scatter":
		return out, g.ReduceScatter(ctx, c, out, in(r, count*p.n))
	case "all_gather":
		out = make([]byte, p.n*len(out))
		return out, g.AllGather(ctx, c, out, in(r, count))
	case "pass":
		to := (from + 1) % p.n
		switch r {
		case from:
			c.Op = "send"
			return nil, g.Send(ctx, c, to, in(from, count))
		case to:
			c.Op = "recv"
			return out, g.Recv(ctx, c, from, out)
		}
		return nil, nil
	}
	return nil, g.Barrier(ctx, c)
}

// expect writes what the ranks are to print.
func (p *program) expect() error {
	return p.steps(func(op string, d graph.DType, count int, exact bool, from int) ([][]byte, error) {
		results := make([][]byte, p.n)
		whole := count
		if op == "reduce_scatter" {
			whole *= p.n
		}
		var ins [][]byte
		for r := range p.n {
			ins = append(ins, programInput(d, p.k, r, whole, exact))
		}
		switch op {
		case "pass":
			results[(from+1)%p.n] = ins[from]
			return results, nil
		case "all_gather":
			for r := range results {
				results[r] = bytes.Join(ins, nil)
			}
			return results, nil
		case "barrier":
			return results, nil
		}
		total, size := ins[0], d.Size()
		for _, in := range ins[1:] {
			for at := 0; at < len(total); at += size {
				put(total[at:], d, reduceTwo(op, d, get(total[at:], d), get(in[at:], d)))
			}
		}
		for r := range results {
			results[r] = total
			if op == "reduce_scatter" {
				results[r] = total[r*count*size:][:count*size]
			}
		}
		return results, nil
	})
}

func get(b []byte, d graph.DType) uint64 {
	switch d.Size() {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

func put(b []byte, d graph.DType, x uint64) {
	switch d.Size() {
	case 1:
		b[0] = byte(x)
	case 2:
		binary.LittleEndian.PutUint16(b, uint16(x))
	case 4:
		binary.LittleEndian.PutUint32(b, uint32(x))
	default:
		binary.LittleEndian.PutUint64(b, x)
	}
}

// reduceTwo reduces the bits of two elements, by way of f64 and int64.
func reduceTwo(op string, d graph.DType, a, b uint64) uint64 {
	float := func(x uint64) float64 {
		switch d {
		case graph.F16:
			return float64(array.Half(x).Float32())
		case graph.BF16:
			return float64(array.Brain(x).Float32())
		case graph.F32:
			return float64(math.Float32frombits(uint32(x)))
		}
		return math.Float64frombits(x)
	}
	signed := func(x uint64) int64 {
		if d == graph.I32 {
			return int64(int32(x))
		}
		return int64(x)
	}
	var greater, less bool
	switch {
	case d.IsFloat():
		greater, less = float(a) > float(b), float(a) < float(b)
	case d == graph.I32 || d == graph.I64:
		greater, less = signed(a) > signed(b), signed(a) < signed(b)
	default:
		greater, less = a > b, a < b
	}
	switch {
	case op == "all_max" && greater, op == "all_min" && less:
		return a
	case op == "all_max", op == "all_min":
		return b
	case d == graph.Bool:
		return a | b
	case !d.IsFloat():
		return a + b
	}
	s := float(a) + float(b)
	switch d {
	case graph.F16:
		return uint64(array.HalfOf(float32(s)))
	case graph.BF16:
		return uint64(array.BrainOf(float32(s)))
	case graph.F32:
		return uint64(math.Float32bits(float32(s)))
	}
	return math.Float64bits(s)
}

func mix(x uint32) uint32 {
	x = (x ^ x>>16) * 0x7feb352d
	x = (x ^ x>>15) * 0x846ca68b
	return x ^ x>>16
}

// programInput is what rank r contributes to operation k: small integers, whose sums
// are exact in any order, or numbers of many magnitudes.
func programInput(d graph.DType, k, r, count int, exact bool) []byte {
	out := make([]byte, count*d.Size())
	for i := range count {
		h := mix(uint32(i)*2654435761 + uint32(r)*40503 + uint32(k)*97 + 1)
		small := int(h%41) - 20
		sign := h >> 31
		x := uint64(h) | uint64(mix(h))<<32
		switch d {
		case graph.Bool:
			x = uint64(h & 1)
		case graph.F32, graph.BF16:
			b := sign<<31 | (120+(h>>8)%12)<<23 | mix(h)&0x7fffff
			if exact {
				b = math.Float32bits(float32(small))
			}
			x = uint64(b)
			if d == graph.BF16 {
				x >>= 16
			}
		case graph.F64:
			x = math.Float64bits(math.Ldexp(float64(h>>4), int(h%13)-30))
			if exact {
				x = math.Float64bits(float64(small))
			}
		case graph.F16:
			x = uint64(sign<<15 | (10+(h>>16)%10)<<10 | h&0x3ff)
			if exact {
				x = 0
				if a := max(small, -small); a > 0 {
					e := bits.Len(uint(a)) - 1
					x = uint64(15+e)<<10 | uint64(a<<(10-e))&0x3ff
					if small < 0 {
						x |= 0x8000
					}
				}
			}
		}
		put(out[i*d.Size():], d, x)
	}
	return out
}
