package kernel

import "math"

// attentionBlock is the number of queries and of keys in a block of blocks. They
// are the same so that only blocks on the diagonal are cut by the causal mask.
const attentionBlock = 64

// blocks is attention by Gemm, for float64, for NEON and for the portable kernels.
type blocks[T Float] struct {
	vec         vectors
	work        workspace[T]
	p, ds, sums []T // scores, then powers; their cotangents; sums of values
	delta       []T // dout[i]·out[i] - dlse[i]
	dk, dv      []T
	top, total  [attentionBlock]T // of each query: the largest score, and the sum of p
}

func (w *blocks[T]) forward(h *Attender[T], q, out Rows[T], lse []T, from, to int) {
	const block = attentionBlock
	p, sums := room(&w.p, block*block), room(&w.sums, block*h.D)
	for i0 := from; i0 < to; i0 += block {
		in := min(block, to-i0)
		for i := range in {
			w.top[i], w.total[i] = T(math.Inf(-1)), 0
		}
		clear(sums)
		for j0 := 0; j0 < h.S && (!h.Causal || j0 <= i0); j0 += block {
			jn := min(block, h.S-j0)
			w.work.gemm(in, jn, h.D, q.from(i0), q.Stride, 1, h.k.from(j0), 1, h.k.Stride, p, block, false)
			cut := h.Causal && j0 == i0
			for i := range in {
				s := p[i*block:][:jn]
				if cut {
					s = s[:i+1]
				}
				t := scaleMax(w.vec, s, h.Scale, w.top[i])
				shift := t
				if math.IsInf(float64(t), -1) {
					shift = 0 // -Inf less -Inf would be NaN, though a later block may have scores
				}
				keep := exp(w.top[i] - shift)
				w.top[i], w.total[i] = t, addExp(w.vec, s, shift, T(w.total[i]*keep))
				if keep != 1 {
					scale(w.vec, sums[i*h.D:][:h.D], keep)
				}
				if cut {
					w.work.gemm(1, h.D, len(s), s, block, 1, h.v.from(j0), h.v.Stride, 1, sums[i*h.D:], h.D, true)
				}
			}
			if !cut {
				w.work.gemm(in, h.D, jn, p, block, 1, h.v.from(j0), h.v.Stride, 1, sums, h.D, true)
			}
		}
		for i := range in {
			row := out.row(i0+i, h.D)
			for x, y := range sums[i*h.D:][:h.D] {
				row[x] = y / w.total[i]
			}
			lse[i0+i] = w.top[i] + T(math.Log(float64(w.total[i])))
		}
	}
}

func (w *blocks[T]) backward(h *Attender[T], q, out Rows[T], lse []T, dout Rows[T], dlse []T, dq Rows[T], from, to int) {
	const block = attentionBlock
	p, ds := room(&w.p, block*block), room(&w.ds, block*block)
	dk, dv, delta := room(&w.dk, h.S*h.D)[:h.keys*h.D], room(&w.dv, h.S*h.D)[:h.keys*h.D], room(&w.delta, to-from)
	for i := from; i < to; i++ {
		d := T(0)
		o := out.row(i, h.D)
		for x, y := range dout.row(i, h.D) {
			d += T(y * o[x])
		}
		if dlse != nil {
			d -= dlse[i]
		}
		delta[i-from] = d
		clear(dq.row(i, h.D))
	}
	clear(dk)
	clear(dv)
	for j0 := 0; j0 < h.keys; j0 += block {
		jn := min(block, h.keys-j0)
		i0 := from
		if h.Causal {
			i0 = max(i0, j0)
		}
		for ; i0 < to; i0 += block {
			in := min(block, to-i0)
			w.work.gemm(in, jn, h.D, q.from(i0), q.Stride, 1, h.k.from(j0), 1, h.k.Stride, p, block, false)
			w.work.gemm(in, jn, h.D, dout.from(i0), dout.Stride, 1, h.v.from(j0), 1, h.v.Stride, ds, block, false)
			for i := range in {
				s, d := p[i*block:][:jn], ds[i*block:][:jn]
				if h.Causal && j0 == i0 {
					clear(s[i+1:])
					clear(d[i+1:])
					s, d = s[:i+1], d[:i+1]
				}
				attentionGrad(w.vec, s, d, h.Scale, lse[i0+i], delta[i0+i-from])
			}
			w.work.gemm(jn, h.D, in, p, 1, block, dout.from(i0), dout.Stride, 1, dv[j0*h.D:], h.D, true)
			w.work.gemm(jn, h.D, in, ds, 1, block, q.from(i0), q.Stride, 1, dk[j0*h.D:], h.D, true)
			w.work.gemm(in, h.D, jn, ds, block, 1, h.k.from(j0), h.k.Stride, 1, dq.from(i0), dq.Stride, true)
		}
	}
}

func (w *blocks[T]) addTo(h *Attender[T], dk, dv Rows[T]) {
	for j := range h.keys {
		add(dk.row(j, h.D), w.dk[j*h.D:])
		add(dv.row(j, h.D), w.dv[j*h.D:])
	}
}

// scaleMax multiplies x by scale, and returns the larger of top and the results, NaN
// if one is.
func scaleMax[T Float](v vectors, x []T, scale, top T) T {
	if v.has(loopScaleMax) {
		t := vectorArgs{max: noMax(float32(top)), largest: float32(top), c: [3]float32{float32(scale)}}
		v.each(loopScaleMax, &t, float32(math.NaN()), [3][]float32{f32(x)}, [4][]float32{f32(x)})
		return T(t.largest)
	}
	for i := range x {
		x[i] *= scale
		top = max(top, x[i])
	}
	return top
}

// addExp replaces x by exp(x - shift) and returns sum plus these.
func addExp[T Float](v vectors, x []T, shift, sum T) T {
	if v.has(loopScaleMax) {
		return sum + T(expSumOf(v, x, x, shift))
	}
	for j := range x {
		x[j] = exp(x[j] - shift)
		sum += x[j]
	}
	return sum
}

// scale multiplies x by c.
func scale[T Float](v vectors, x []T, c T) {
	if v.has(loopScaleMax) {
		t := vectorArgs{c: [3]float32{float32(c)}}
		v.each(loopScaleMax, &t, 0, [3][]float32{f32(x)}, [4][]float32{f32(x)})
		return
	}
	for j := range x {
		x[j] *= c
	}
}

// attentionGrad replaces the scores s by p = exp(scale·s - lse), and d by
// scale·p·(d - delta).
func attentionGrad[T Float](v vectors, s, d []T, scale, lse, delta T) {
	d = d[:len(s)]
	if v.has(loopAttentionGrad) {
		t := vectorArgs{c: [3]float32{float32(scale), float32(lse), float32(delta)}}
		v.each(loopAttentionGrad, &t, 0, [3][]float32{f32(s), f32(d)}, [4][]float32{f32(s), f32(d)})
		return
	}
	for j := range s {
		s[j] = exp(T(s[j]*scale) - lse)
		d[j] = scale * s[j] * (d[j] - delta)
	}
}

func exp[T Float](x T) T { return T(math.Exp(float64(x))) }
