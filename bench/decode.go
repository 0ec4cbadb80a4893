package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/primitives"
	gomoeruntime "github.com/gomoe/gomoe/runtime"
)

// decodeLayer is an MoE layer of few tokens with block-quantized weights. The blocks are random
// bytes with suitable scales, which are as good as any others.
type decodeLayer struct {
	Tokens, Hidden, Experts, TopK, FFN int
	Format                             blockFormat
}

// decodeSets is the number of batches of tokens used in turn. Each batch uses other experts, so
// that weights are read from memory and not from a cache.
const decodeSets = 16

func decodeWorkloads() []workload {
	var ws []workload
	for _, f := range []blockFormat{q4K(), q80()} {
		for _, tokens := range []int{1, 8} {
			l := decodeLayer{Tokens: tokens, Hidden: 2048, Experts: 64, TopK: 6, FFN: 1024, Format: f}
			ws = append(ws, workload{
				name:   fmt.Sprintf("decode/%s/T=%d", f.name, tokens),
				title:  fmt.Sprintf("MoE layer decoding, %s weights, T=%d D=%d E=%d k=%d F=%d", f.name, tokens, l.Hidden, l.Experts, l.TopK, l.FFN),
				peer:   "decode_" + f.name,
				params: map[string]any{"tokens": tokens, "hidden": l.Hidden, "experts": l.Experts, "top_k": l.TopK, "ffn": l.FFN, "sets": decodeSets},
				// Peers round the tokens to 8 bits.
				tolerance: 3e-2, target: 1, threads: []int{1, 2}, peers: []string{ggmlName, ikName}, open: l.open,
			})
		}
	}
	return ws
}

// program traces the layer with f32 weights in the order [E, out, in].
func (l decodeLayer) program() (*graph.Program, error) {
	return graph.Trace("decode", func(t *graph.Tracer) []*graph.Value {
		x := t.Input("x", graph.F32, l.Tokens, l.Hidden)
		router := t.Input("router", graph.F32, l.Experts, l.Hidden)
		gate, up := t.Input("gate", graph.F32, l.Experts, l.FFN, l.Hidden), t.Input("up", graph.F32, l.Experts, l.FFN, l.Hidden)
		down := t.Input("down", graph.F32, l.Experts, l.Hidden, l.FFN)
		logits := primitives.DotGeneral(x, router, []int{1}, []int{1}, nil, nil)
		weights, experts, _ := primitives.Route(primitives.RouteOp{TopK: l.TopK, Renormalize: true}, logits, nil)
		r := primitives.Prepare(primitives.PrepareOp{Experts: l.Experts}, experts)
		rows, rowWeights := primitives.DispatchWeighted(r, x, weights)
		product := func(x, w *graph.Value) *graph.Value {
			return primitives.GroupedMatMulTransposed(r, x, w)
		}
		y := product(primitives.SwiGLU(product(rows, gate), product(rows, up)), down)
		return []*graph.Value{primitives.Combine(r, primitives.Mul(y, primitives.BroadcastInDim(rowWeights, y.Type.Shape, 0)))}
	})
}

// inBlocks returns program with block-quantized weights. It edits the program's text, replacing
// names of element types.
func (l decodeLayer) inBlocks() (*graph.Program, error) {
	p, err := l.program()
	if err != nil {
		return nil, err
	}
	head, body, _ := strings.Cut(p.String(), "\n")
	for _, name := range []string{"gate", "up", "down"} {
		head = strings.Replace(head, name+" f32[", name+" "+l.Format.name+"[", 1)
	}
	return gomoe.Parse("decode", head+"\n"+body)
}

// open makes blocks and tokens. The results for the first tokens are computed here in f64; peers
// and gomoe are both compared with them. If gomoe does not support the blocks, its side is absent
// and only peers are measured.
func (l decodeLayer) open(threads int) (*subject, error) {
	d, f, e := l.Hidden, l.FFN, l.Experts
	blocks := map[string][]byte{
		"gate": l.Format.random(3, e*f*d, fanIn(d)), "up": l.Format.random(4, e*f*d, fanIn(d)), "down": l.Format.random(5, e*d*f, fanIn(f)),
	}
	x, router := normal(1, 1, graph.F32, decodeSets, l.Tokens, d), normal(2, 4*fanIn(d), graph.F32, e, d)
	s := &subject{in: map[string]array.Array{"x": x, "router": router}, close: func() error { return nil }}
	for name, b := range blocks {
		s.in[name] = array.Over(graph.Type{DType: graph.U8, Shape: []int{len(b)}}, b)
	}
	want, err := array.Of(l.reference(array.Data[float32](x), array.Data[float32](router), blocks), l.Tokens, d)
	if err != nil {
		return nil, err
	}
	s.want = map[string]array.Array{"out": want}
	p, err := l.inBlocks()
	if err != nil {
		s.absent = err
		return s, nil
	}
	runtime.GOMAXPROCS(threads)
	job, err := gomoe.Open(context.Background(), p, gomoe.Config{})
	if err != nil {
		s.absent = err
		return s, nil
	}
	s.close = job.Close
	fixed := map[string]*gomoeruntime.Array{}
	for _, v := range p.In {
		a := router
		switch v.Name {
		case "x":
			continue
		case "gate", "up", "down":
			a = array.Over(v.Type, blocks[v.Name])
		}
		if fixed[v.Name], err = job.Put(v.Name, a); err != nil {
			return nil, err
		}
	}
	var tokens []*gomoeruntime.Array
	for i := range decodeSets {
		a, err := job.Put("x", x.Rows(i, i+1).Reshape(l.Tokens, d))
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, a)
	}
	next := 0
	step := func() ([]*gomoeruntime.Array, error) {
		fixed["x"] = tokens[next%decodeSets]
		next++
		return job.Run(context.Background(), fixed)
	}
	out, err := step()
	if err != nil {
		return nil, err
	}
	got, err := out[0].Get()
	if err != nil {
		return nil, err
	}
	if off := relative(got, want); !(off <= 3e-2) {
		return nil, fmt.Errorf("bench: decode %s: gomoe's result differs from the reference by %.3g of its largest element", l.Format.name, off)
	}
	s.step = func() error { _, err := step(); return err }
	return s, nil
}

// relative returns the largest difference divided by the largest element of want.
func relative(got, want array.Array) float64 {
	largest := 0.0
	for _, x := range want.Float64s() {
		largest = max(largest, math.Abs(x))
	}
	off, _ := array.MaxDiff(got, want)
	return off / largest
}

// reference returns the layer's result for the first tokens, in f64.
func (l decodeLayer) reference(x, router []float32, blocks map[string][]byte) []float32 {
	d, f := l.Hidden, l.FFN
	out := make([]float32, l.Tokens*d)
	for t := range l.Tokens {
		x := widen(x[t*d:][:d])
		scores := make([]float64, l.Experts)
		best := make([]int, l.Experts)
		for e := range scores {
			scores[e], best[e] = math.Exp(dot(x, widen(router[e*d:][:d]))), e
		}
		slices.SortStableFunc(best, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
		sum, y := 0.0, make([]float64, d)
		for _, e := range best[:l.TopK] {
			sum += scores[e]
			h := make([]float64, f)
			for i := range h {
				g := dot(x, l.Format.row(blocks["gate"], e*f+i, d))
				h[i] = g / (1 + math.Exp(-g)) * dot(x, l.Format.row(blocks["up"], e*f+i, d))
			}
			for i := range y {
				y[i] += scores[e] * dot(h, l.Format.row(blocks["down"], e*d+i, f))
			}
		}
		for i := range y {
			out[t*d+i] = float32(y[i] / sum)
		}
	}
	return out
}

func widen(x []float32) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = float64(x[i])
	}
	return y
}

func dot(x, y []float64) float64 {
	s := 0.0
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}

// blockFormat is a block format of weights.
type blockFormat struct {
	name            string
	dtype           graph.DType
	bytes, elements int // of a block
	// fill makes a block with about this standard deviation from random bytes.
	fill func(block []byte, std float64)
	// decode decodes a block.
	decode func(to []float64, block []byte)
}

// random returns random blocks holding the given number of elements.
func (f blockFormat) random(seed uint64, elements int, std float64) []byte {
	words := make([]uint64, (elements/f.elements*f.bytes+7)/8) // in words, because arrays are aligned to 8 bytes
	rng := rand.New(rand.NewPCG(seed, 2))
	out := make([]byte, 0, 8*len(words))
	for range words {
		out = binary.LittleEndian.AppendUint64(out, rng.Uint64())
	}
	out = out[:elements/f.elements*f.bytes]
	for at := 0; at < len(out); at += f.bytes {
		f.fill(out[at:at+f.bytes], std)
	}
	return out
}

// row decodes row i of a matrix with the given number of columns.
func (f blockFormat) row(data []byte, i, columns int) []float64 {
	out := make([]float64, columns)
	for j := 0; j < columns; j += f.elements {
		f.decode(out[j:j+f.elements], data[(i*columns+j)/f.elements*f.bytes:][:f.bytes])
	}
	return out
}

func half(b []byte) float64 { return float64(array.Half(binary.LittleEndian.Uint16(b)).Float32()) }

func putHalf(b []byte, x float64) { binary.LittleEndian.PutUint16(b, uint16(array.HalfOf64(x))) }

// q80 is ggml's Q8_0: an f16 scale and 32 signed bytes.
func q80() blockFormat {
	return blockFormat{"q8_0", graph.Q8_0, 34, 32,
		func(b []byte, std float64) {
			putHalf(b, std/74)
			for i, q := range b[2:] {
				if q == 0x80 { // quantizers write -127 to 127, and ik_llama relies on it
					b[2+i] = 0x81
				}
			}
		},
		func(to []float64, b []byte) {
			scale := half(b)
			for i := range to {
				to[i] = scale * float64(int8(b[2+i]))
			}
		}}
}

// q4K is ggml's Q4_K: f16 scales d and dmin; 8 scales and 8 minima of 6 bits each in 12 bytes; and
// 256 numbers of 4 bits, each 32 bytes holding two groups of 32. A number is d·scale·q -
// dmin·minimum.
func q4K() blockFormat {
	return blockFormat{"q4_k", graph.Q4_K, 144, 256,
		func(b []byte, std float64) { putHalf(b, std/256); putHalf(b[2:], 7.5*std/256) },
		func(to []float64, b []byte) {
			d, low, s, q := half(b), half(b[2:]), b[4:16], b[16:]
			for j := range 8 {
				scale, minimum := s[j%4]&63, s[4+j%4]&63
				if j >= 4 {
					scale, minimum = s[4+j]&15|s[j-4]>>6<<4, s[4+j]>>4|s[j]>>6<<4
				}
				for i := range 32 {
					n := q[j/2*32+i] >> (4 * (j % 2)) & 15
					to[j*32+i] = d*float64(scale)*float64(n) - low*float64(minimum)
				}
			}
		}}
}

// brain is bf16, as blocks of one element.
func brain() blockFormat {
	return blockFormat{"bf16", graph.BF16, 2, 1,
		func(b []byte, std float64) {
			x := float32(int16(binary.LittleEndian.Uint16(b))) / (1 << 15) // uniform
			binary.LittleEndian.PutUint16(b, uint16(array.BrainOf(x*float32(std*math.Sqrt(3)))))
		},
		func(to []float64, b []byte) {
			to[0] = float64(array.Brain(binary.LittleEndian.Uint16(b)).Float32())
		}}
}
