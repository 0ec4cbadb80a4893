package recurrence

import (
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// GradScratch returns the number of elements of scratch memory for Backward with n rows.
func (h Head) GradScratch(n int) int {
	c := h.block()
	blocks := (n + c - 1) / c
	return max(h.blockScratch(), h.Scratch()) + blocks*h.K*h.V + h.V + c*(2*c+4*h.K+3*h.V)
}

// Backward computes the cotangents of n rows of a head from dout, the cotangents of the results, and dstate, the
// cotangent of the state after the last row. state[K,V] is the state before the first row; dstate becomes its
// cotangent. The cotangents of queries and keys are added to grads, because value heads share them. The others are
// written.
func Backward[T kernel.Float](h Head, n int, in In[T], state []T, dout kernel.Rows[T], dstate []T, grads In[T], room []T) {
	c := h.block()
	take := func(n int) []T {
		s := room[:n:n]
		room = room[n:]
		return s
	}
	work := take(max(h.blockScratch(), h.Scratch()))
	size, blocks := h.K*h.V, (n+c-1)/c
	states := take(blocks * size) // at the starts of blocks
	ignored := kernel.Rows[T]{X: take(h.V)}
	for i := range blocks {
		s := states[i*size:][:size]
		if i == 0 {
			copy(s, state)
			continue
		}
		copy(s, states[(i-1)*size:][:size])
		Forward(h, c, in.from((i-1)*c), s, ignored, work)
	}
	for i := blocks - 1; i >= 0; i-- {
		b := block[T]{Head: h, n: min(c, n-i*c), c: c, in: in.from(i * c)}
		b.open(work)
		b.updates(states[i*size:][:size])
		b.backward(states[i*size:][:size], dout.From(i*c), dstate, grads.from(i*c), room)
	}
}

// backward computes the cotangents of a block with the state before it.
//
// A row's factor exp(c) multiplies its query, and its key where the key reads: in row i of L, and in the product with
// the state. exp(-c) multiplies its key where the key is read: in column j of L and A, and in the block's last state.
// The cotangent of c is therefore dq·q + dk·k over reading keys, minus dk·k over keys being read.
func (b *block[T]) backward(state []T, dout kernel.Rows[T], dstate []T, grads In[T], room []T) {
	n, c, k, v := b.n, b.c, b.K, b.V
	take := func(n int) []T {
		s := room[:n:n]
		room = room[n:]
		return s
	}
	dl, da := take(c*c), take(c*c)
	dq, reading, kept, scaled := take(c*k), take(c*k), take(c*k), take(c*k)
	du, dr, decayed := take(c*v), take(c*v), take(c*v)
	q, key, d := b.in.Queries, b.in.Keys, b.Decays()
	vec := kernel.VectorsOf[T]()
	clear(reading[:n*k])

	// o = exp(c) q S + A u
	gemm.Multiply(n, k, v, dout.X, dout.Stride, 1, state, 1, v, dq, k, false)
	for i := range n {
		scale(b.Channels, dq[i*k:][:k], dq[i*k:][:k], b.factors[i*d:][:d])
	}
	gemm.Multiply(n, v, n, b.a, 1, c, dout.X, dout.Stride, 1, du, v, false)
	gemm.Multiply(n, n, v, dout.X, dout.Stride, 1, b.u, 1, v, da, c, false)

	// S = exp(c[last]) S + left u
	gemm.Multiply(n, v, k, b.left, k, 1, dstate, v, 1, du, v, true)
	gemm.Multiply(n, k, v, b.u, v, 1, dstate, 1, v, kept, k, false)
	total := b.row[:d] // the cotangent of c[last]
	clear(total)
	for i := range n {
		row := kept[i*k:][:k]
		scale(b.Channels, row, row, b.after[i*d:][:d])
		b.addProducts(total, row, key.Row(i, k), 1)
	}
	b.decay(dstate) // of the state before the block
	for i := range k {
		total[i%d] += T(vector.Dot(dstate[i*v:][:v], state[i*v:][:v]))
	}
	decays := grads.Decays
	for i := range n {
		clear(decays.Row(i, d))
	}
	vector.Add(decays.Row(n-1, d), decays.Row(n-1, d), total)

	if b.Delta {
		// (I + β L) u = β (v - exp(c) k S): dr is the cotangent of rest times β, and decayed is -dr.
		copy(dr, du[:n*v])
		for from := (n - 1) / solved * solved; from >= 0; from -= solved {
			to := min(from+solved, n)
			gemm.Multiply(to-from, v, n-to, kernel.From(b.l, to*c+from), 1, c, kernel.From(decayed, to*v), v, 1, dr[from*v:], v, true)
			for j := to - 1; j >= from; j-- {
				rate, row, less := b.in.Rates.Row(j, 1)[0], dr[j*v:][:v], decayed[j*v:][:v]
				for i := j + 1; i < to; i++ {
					vector.AddScaled(row, row, decayed[i*v:][:v], b.l[i*c+j])
				}
				grads.Rates.Row(j, 1)[0] = T(vector.Dot(row, b.rest[j*v:][:v]))
				vector.Scale(vec, row, rate)
				copy(grads.Values.Row(j, v), row)
				copy(less, row)
				vector.Scale(vec, less, -1)
			}
		}
		gemm.Multiply(n, n, v, decayed, v, 1, b.u, 1, v, dl, c, false)
		gemm.Multiply(n, k, v, decayed, v, 1, state, 1, v, reading, k, false)
		for i := range n {
			scale(b.Channels, reading[i*k:][:k], reading[i*k:][:k], b.factors[i*d:][:d])
		}
		gemm.Multiply(k, v, n, b.decayed, 1, k, decayed, v, 1, dstate, v, true)
	} else {
		for i := range n {
			copy(grads.Values.Row(i, v), du[i*v:][:v])
		}
	}
	for i := range n {
		scale(b.Channels, scaled[i*k:][:k], q.Row(i, k), b.factors[i*d:][:d])
	}
	gemm.Multiply(k, v, n, scaled, 1, k, dout.X, dout.Stride, 1, dstate, v, true)
	b.pairsBackward(dl, da, dq, reading, kept)

	for i := range n {
		vector.Add(grads.Queries.Row(i, k), grads.Queries.Row(i, k), dq[i*k:][:k])
		keys := grads.Keys.Row(i, k)
		vector.Add(keys, keys, reading[i*k:][:k])
		vector.Add(keys, keys, kept[i*k:][:k])
		row := decays.Row(i, d)
		b.addProducts(row, dq[i*k:][:k], q.Row(i, k), 1)
		b.addProducts(row, reading[i*k:][:k], key.Row(i, k), 1)
		b.addProducts(row, kept[i*k:][:k], key.Row(i, k), -1)
	}
	for i := n - 2; i >= 0; i-- { // c is a sum of decays
		vector.Add(decays.Row(i, d), decays.Row(i, d), decays.Row(i+1, d))
	}
}

// addProducts adds sign·x·y to sum, element by element, or their sum if rows have one decay each.
func (b *block[T]) addProducts(sum, x, y []T, sign T) {
	if !b.Channels {
		sum[0] += T(float64(sign) * vector.Dot(x, y))
		return
	}
	for i, x := range x {
		sum[i] += T(sign * x * y[i])
	}
}

// pairsBackward adds the contributions of L and A to the cotangents of queries, of reading keys and of keys being read.
func (b *block[T]) pairsBackward(dl, da, dq, reading, kept []T) {
	n, c, k := b.n, b.c, b.K
	q, key := b.in.Queries, b.in.Keys
	if b.Channels {
		one := b.row[:k]
		b.eachPair(func(i, j int, gamma []T) {
			vector.Mul(one, key.Row(j, k), gamma)
			vector.AddScaled(dq[i*k:][:k], dq[i*k:][:k], one, da[i*c+j])
			read := kept[j*k:][:k]
			for d, x := range q.Row(i, k) {
				read[d] += T(da[i*c+j] * x * gamma[d])
			}
			if b.Delta && j < i {
				vector.AddScaled(reading[i*k:][:k], reading[i*k:][:k], one, dl[i*c+j])
				for d, x := range key.Row(i, k) {
					read[d] += T(dl[i*c+j] * x * gamma[d])
				}
			}
		})
		return
	}
	for i := range n {
		b.masked(da, i, i+1)
		if b.Delta {
			b.masked(dl, i, i)
		}
	}
	gemm.Multiply(n, k, n, da, c, 1, key.X, key.Stride, 1, dq, k, true)
	gemm.Multiply(n, k, n, da, 1, c, q.X, q.Stride, 1, kept, k, true)
	if b.Delta {
		gemm.Multiply(n, k, n, dl, c, 1, key.X, key.Stride, 1, reading, k, true)
		gemm.Multiply(n, k, n, dl, 1, c, key.X, key.Stride, 1, kept, k, true)
	}
}
