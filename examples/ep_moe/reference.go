package main

import (
	"fmt"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
)

// reference computes the job in f64, looping over tokens and choices, and returns the output and
// the gradients by the names of the program's results.
func (m model) reference(in tensors) map[string]array.Array {
	t, k := m.tokens, m.topK
	w := in["topk_w"].Float64s()
	xs := [][]float64{in["tokens"].Float64s()} // the input of every layer, and the output
	widths := []int{m.hidden}
	for l := range m.layers {
		kernels, idx := m.weights(in, l)
		h, f := widths[l], m.out
		y := make([]float64, t*f)
		for i := range t {
			for j := range k {
				if e := int(idx[i*k+j]); e >= 0 {
					axpyMat(y[i*f:(i+1)*f], w[i*k+j], xs[l][i*h:(i+1)*h], kernels[e*h*f:(e+1)*h*f])
				}
			}
		}
		xs, widths = append(xs, y), append(widths, f)
	}
	out := map[string]array.Array{"out": wrap(xs[m.layers], t, m.out)}
	g := append([]float64(nil), xs[m.layers]...) // of the loss, half the sum of squares
	dw := make([]float64, t*k)
	for l := m.layers - 1; l >= 0; l-- {
		kernels, idx := m.weights(in, l)
		h, f := widths[l], m.out
		dx, dk := make([]float64, t*h), make([]float64, len(kernels))
		for i := range t {
			x, gy := xs[l][i*h:(i+1)*h], g[i*f:(i+1)*f]
			for j := range k {
				e := int(idx[i*k+j])
				if e < 0 {
					continue
				}
				for a := range h {
					row, drow := kernels[(e*h+a)*f:(e*h+a+1)*f], dk[(e*h+a)*f:(e*h+a+1)*f]
					dot := 0.0
					for b, v := range gy {
						dot += v * row[b]
						drow[b] += w[i*k+j] * x[a] * v
					}
					dx[i*h+a] += w[i*k+j] * dot
					dw[i*k+j] += x[a] * dot
				}
			}
		}
		out[fmt.Sprintf("grad_kernels_%d", l)] = wrap(dk, m.experts, h, f)
		g = dx
	}
	out["grad_tokens"], out["grad_topk_w"] = wrap(g, t, m.hidden), wrap(dw, t, k)
	return out
}

func (m model) weights(in tensors, l int) (kernels []float64, idx []int32) {
	return in[fmt.Sprintf("kernels_%d", l)].Float64s(), array.Data[int32](in[fmt.Sprintf("topk_idx_%d", l)])
}

// axpyMat adds a·x·w to y, w being [len(x), len(y)].
func axpyMat(y []float64, a float64, x, w []float64) {
	for i, v := range x {
		for j := range y {
			y[j] += a * v * w[i*len(y)+j]
		}
	}
}

func wrap(x []float64, shape ...int) array.Array {
	a := array.New(graph.T(graph.F64, shape...))
	copy(array.Data[float64](a), x)
	return a
}
