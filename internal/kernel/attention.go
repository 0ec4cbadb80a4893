package kernel

import "math"

// Attention is scaled dot-product attention of one head, with S queries and as
// many keys and values, of D elements each:
//
//	out[i] = Σ_j p[i,j] v[j],   p[i,j] = exp(Scale q[i]·k[j] - lse[i]),   lse[i] = log Σ_j exp(Scale q[i]·k[j])
//
// where j runs over all keys or, if Causal is set, over those up to i. Scores
// are held for 64 queries and 64 keys at a time, never for S by S. A batch of
// sequences and heads is a loop, in parallel if the caller likes; with grouped
// queries, where heads share keys and values, Backward adds to dk and dv, so
// that the heads of a group take turns, in order. Sources: Milakov and
// Gimelshein, "Online normalizer calculation for softmax" (2018); Dao and others,
// "FlashAttention" (2022).
type Attention[T Float] struct {
	S, D   int
	Scale  T
	Causal bool
}

// Rows are the rows of one head: row i is X[i*Stride:][:D].
type Rows[T Float] struct {
	X      []T
	Stride int
}

// HeadOf returns the rows of head n of sequence b in x[B,s,heads,d].
func HeadOf[T Float](x []T, b, n, s, heads, d int) Rows[T] {
	if s == 0 {
		return Rows[T]{nil, heads * d}
	}
	return Rows[T]{x[(b*s*heads+n)*d:], heads * d}
}

func (r Rows[T]) from(i int) []T   { return r.X[i*r.Stride:] }
func (r Rows[T]) row(i, d int) []T { return r.X[i*r.Stride:][:d] }

// attentionBlock is the number of queries and of keys in a block. They are the
// same so that only blocks on the diagonal are cut by the causal mask.
const attentionBlock = 64

// Forward sets out[i] and lse[i] for every i < S. Row i of both depends on q[i]
// and on the keys and values that it attends to, not on others, also not if these
// are NaN: blocks of keys start at multiples of 64, and each is added in order. A
// row whose scores are all -Inf is NaN. The sum of a block's powers is ordered as in
// ExpSum with vectors, upwards without.
func (a Attention[T]) Forward(q, k, v, out Rows[T], lse []T) {
	const block = attentionBlock
	var (
		p          = make([]T, block*block) // scores, then exp(score - largest so far)
		sums       = make([]T, block*a.D)
		top, total [block]T // of each query: the largest score, and the sum of p
	)
	w, vec := workspaceOf[T](), vectorsOf[T]()
	defer w.release()
	for i0 := 0; i0 < a.S; i0 += block {
		in := min(block, a.S-i0)
		for i := range in {
			top[i], total[i] = T(math.Inf(-1)), 0
		}
		clear(sums)
		for j0 := 0; j0 < a.S && (!a.Causal || j0 <= i0); j0 += block {
			jn := min(block, a.S-j0)
			w.gemm(in, jn, a.D, q.from(i0), q.Stride, 1, k.from(j0), 1, k.Stride, p, block, false)
			cut := a.Causal && j0 == i0
			for i := range in {
				s := p[i*block:][:jn]
				if cut {
					s = s[:i+1]
				}
				t := scaleMax(vec, s, a.Scale, top[i])
				shift := t
				if math.IsInf(float64(t), -1) {
					shift = 0 // -Inf less -Inf would be NaN, though a later block may have scores
				}
				keep := exp(top[i] - shift)
				top[i], total[i] = t, addExp(vec, s, shift, T(total[i]*keep))
				if keep != 1 {
					scale(vec, sums[i*a.D:][:a.D], keep)
				}
				if cut {
					w.gemm(1, a.D, len(s), s, block, 1, v.from(j0), v.Stride, 1, sums[i*a.D:], a.D, true)
				}
			}
			if !cut {
				w.gemm(in, a.D, jn, p, block, 1, v.from(j0), v.Stride, 1, sums, a.D, true)
			}
		}
		for i := range in {
			row := out.row(i0+i, a.D)
			for x, y := range sums[i*a.D:][:a.D] {
				row[x] = y / total[i]
			}
			lse[i0+i] = top[i] + T(math.Log(float64(total[i])))
		}
	}
}

// Backward sets dq and adds to dk and dv the cotangents of q, k and v, given what
// Forward made of q, k and v, and the cotangents dout of out and dlse of lse, nil
// for zero. It computes the scores again:
//
//	dv[j] = Σ_i p[i,j] dout[i]
//	ds[i,j] = Scale p[i,j] (dout[i]·v[j] - dout[i]·out[i] + dlse[i])
//	dq[i] = Σ_j ds[i,j] k[j],   dk[j] = Σ_i ds[i,j] q[i]
//
// Sums run upwards in blocks of 64.
func (a Attention[T]) Backward(q, k, v, out Rows[T], lse []T, dout Rows[T], dlse []T, dq, dk, dv Rows[T]) {
	const block = attentionBlock
	var (
		p     = make([]T, block*block)
		ds    = make([]T, block*block)
		delta = make([]T, a.S) // dout[i]·out[i] - dlse[i]
	)
	w, vec := workspaceOf[T](), vectorsOf[T]()
	defer w.release()
	for i := range a.S {
		o := out.row(i, a.D)
		for x, y := range dout.row(i, a.D) {
			delta[i] += T(y * o[x])
		}
		if dlse != nil {
			delta[i] -= dlse[i]
		}
		clear(dq.row(i, a.D))
	}
	for j0 := 0; j0 < a.S; j0 += block {
		jn := min(block, a.S-j0)
		i0 := 0
		if a.Causal {
			i0 = j0
		}
		for ; i0 < a.S; i0 += block {
			in := min(block, a.S-i0)
			w.gemm(in, jn, a.D, q.from(i0), q.Stride, 1, k.from(j0), 1, k.Stride, p, block, false)
			w.gemm(in, jn, a.D, dout.from(i0), dout.Stride, 1, v.from(j0), 1, v.Stride, ds, block, false)
			for i := range in {
				s, d := p[i*block:][:jn], ds[i*block:][:jn]
				if a.Causal && j0 == i0 {
					clear(s[i+1:])
					clear(d[i+1:])
					s, d = s[:i+1], d[:i+1]
				}
				attentionGrad(vec, s, d, a.Scale, lse[i0+i], delta[i0+i])
			}
			w.gemm(jn, a.D, in, p, 1, block, dout.from(i0), dout.Stride, 1, dv.from(j0), dv.Stride, true)
			w.gemm(jn, a.D, in, ds, 1, block, q.from(i0), q.Stride, 1, dk.from(j0), dk.Stride, true)
			w.gemm(in, a.D, jn, ds, block, 1, k.from(j0), k.Stride, 1, dq.from(i0), dq.Stride, true)
		}
	}
}

// addExp replaces x by exp(x - shift) and returns sum plus these.
func addExp[T Float](v vectors, x []T, shift, sum T) T {
	if v.has(loopExpSum) {
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
