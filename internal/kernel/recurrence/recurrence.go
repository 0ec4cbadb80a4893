package recurrence

import (
	"github.com/gomoe/gomoe/internal/kernel"
	"github.com/gomoe/gomoe/internal/kernel/gemm"
	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// Head has the sizes of a head.
type Head struct {
	K, V     int  // elements of a key, and of a value
	Channels bool // a row has a decay for each element of its key
	Delta    bool // a row replaces the value that the state has for its key
}

// In are the rows of the arguments. Rates, β, are there for the delta rule.
type In[T kernel.Float] struct{ Queries, Keys, Values, Decays, Rates kernel.Rows[T] }

func (x In[T]) from(i int) In[T] {
	return In[T]{x.Queries.From(i), x.Keys.From(i), x.Values.From(i), x.Decays.From(i), x.Rates.From(i)}
}

// block returns the number of rows of a block. Decays of channels take time in the square of it.
func (h Head) block() int {
	if h.Channels {
		return 16
	}
	return 64
}

// Decays returns the number of decays of a row.
func (h Head) Decays() int {
	if h.Channels {
		return h.K
	}
	return 1
}

// blockScratch returns the number of elements of scratch memory for a block.
func (h Head) blockScratch() int {
	c := h.block()
	return c*(3*h.Decays()+3*h.K+3*h.V+3*c) + h.K + h.V
}

// block is the work on up to 64 rows. Its fields are named as in the package's formulas.
type block[T kernel.Float] struct {
	Head
	n, c int // rows, and the stride of matrices of pairs of rows
	in   In[T]

	each    []T // exp(decay) [n,decays]
	factors []T // exp(c): the product up to each row
	after   []T // exp(c[last] - c): the product after each row
	gamma   []T // Γ[n,n] if rows have one decay each
	l, a    []T // [n,n], lower triangular
	decayed []T // keys times exp(c), [n,K]
	left    []T // keys times exp(c[last] - c), [n,K]
	between []T // Γ[i,j] of the channels, [n,K], for the row i of a loop
	read    []T // keys times the state, each row times exp(c), [n,V]
	rest    []T // v - exp(c) k S - L u, for the delta rule, [n,V]
	u       []T // [n,V]
	row     []T // K+V elements
}

// open computes the parts of a block that do not depend on the state, in scratch memory.
func (b *block[T]) open(room []T) {
	h, n, in := b.Head, b.n, b.in
	take := func(n int) []T {
		s := room[:n:n]
		room = room[n:]
		return s
	}
	d := h.Decays()
	b.each, b.factors, b.after = take(b.c*d), take(b.c*d), take(b.c*d)
	b.gamma, b.l, b.a = take(b.c*b.c), take(b.c*b.c), take(b.c*b.c)
	b.decayed, b.left, b.between = take(b.c*h.K), take(b.c*h.K), take(b.c*h.K)
	b.read, b.rest, b.u = take(b.c*h.V), take(b.c*h.V), take(b.c*h.V)
	b.row = take(h.K + h.V)
	line := func(x []T, i int) []T { return x[i*d:][:d] }
	for i := range n {
		vector.Exp(line(b.each, i), in.Decays.Row(i, d))
		if copy(line(b.factors, i), line(b.each, i)); i > 0 {
			vector.Mul(line(b.factors, i), line(b.factors, i), line(b.factors, i-1))
		}
	}
	// Products, and no exponentials of differences of sums, which would lose the digits of a small decay after a large one.
	set(line(b.after, n-1), 1)
	for i := n - 2; i >= 0; i-- {
		vector.Mul(line(b.after, i), line(b.after, i+1), line(b.each, i+1))
	}
	for i := range n {
		key := in.Keys.Row(i, h.K)
		scale(b.Channels, b.decayed[i*h.K:][:h.K], key, line(b.factors, i))
		scale(b.Channels, b.left[i*h.K:][:h.K], key, line(b.after, i))
	}
	b.pairs()
}

// pairs computes L, for the delta rule, and A.
func (b *block[T]) pairs() {
	k, q := b.in.Keys, b.in.Queries
	if b.Channels {
		clear(b.l[:b.n*b.c])
		clear(b.a[:b.n*b.c])
		key := b.row[:b.K]
		b.eachPair(func(i, j int, gamma []T) {
			vector.Mul(key, k.Row(j, b.K), gamma)
			if j < i && b.Delta {
				b.l[i*b.c+j] = T(vector.Dot(k.Row(i, b.K), key))
			}
			b.a[i*b.c+j] = T(vector.Dot(q.Row(i, b.K), key))
		})
		return
	}
	gemm.Multiply(b.n, b.n, b.K, q.X, q.Stride, 1, k.X, 1, k.Stride, b.a, b.c, false)
	if b.Delta {
		gemm.Multiply(b.n, b.n, b.K, k.X, k.Stride, 1, k.X, 1, k.Stride, b.l, b.c, false)
	}
	for i := range b.n {
		if gamma := b.gamma[i*b.c:][:i]; i > 0 {
			copy(gamma, b.gamma[(i-1)*b.c:])
			vector.Scale(kernel.VectorsOf[T](), gamma, b.each[i])
		}
		b.gamma[i*b.c+i] = 1
		b.masked(b.a, i, i+1)
		if b.Delta {
			b.masked(b.l, i, i)
		}
	}
}

// masked multiplies the first n elements of row i of a matrix of pairs by Γ, and sets the others to 0.
func (b *block[T]) masked(m []T, i, n int) {
	row := m[i*b.c:][:b.n]
	vector.Mul(row[:n], row[:n], b.gamma[i*b.c:][:n])
	clear(row[n:])
}

// eachPair calls f for every pair of rows j ≤ i, with Γ[i,j] of each channel.
func (b *block[T]) eachPair(f func(i, j int, gamma []T)) {
	for i := range b.n {
		for j := range i {
			gamma := b.between[j*b.K:][:b.K]
			vector.Mul(gamma, gamma, b.each[i*b.K:][:b.K])
			f(i, j, gamma)
		}
		gamma := b.between[i*b.K:][:b.K]
		set(gamma, 1)
		f(i, i, gamma)
	}
}

// updates computes u from the state at the start of the block.
func (b *block[T]) updates(state []T) {
	v := b.in.Values
	if !b.Delta {
		for i := range b.n {
			copy(b.u[i*b.V:][:b.V], v.Row(i, b.V))
		}
		return
	}
	gemm.Multiply(b.n, b.V, b.K, b.decayed, b.K, 1, state, b.V, 1, b.read, b.V, false)
	for from := 0; from < b.n; from += solved {
		to := min(from+solved, b.n)
		gemm.Multiply(to-from, b.V, from, b.l[from*b.c:], b.c, 1, b.u, b.V, 1, b.rest[from*b.V:], b.V, false)
		for i := from; i < to; i++ {
			u, rest := b.u[i*b.V:][:b.V], b.rest[i*b.V:][:b.V]
			for j := from; j < i; j++ {
				vector.AddScaled(rest, rest, b.u[j*b.V:][:b.V], b.l[i*b.c+j])
			}
			vector.Add(rest, rest, b.read[i*b.V:][:b.V])
			vector.Sub(rest, v.Row(i, b.V), rest)
			copy(u, rest)
			vector.Scale(kernel.VectorsOf[T](), u, b.in.Rates.Row(i, 1)[0])
		}
	}
}

// solved is the number of rows of a triangular system that are solved one after another. Between such groups the
// work is a product.
const solved = 16

// decay multiplies the state by the block's factors.
func (b *block[T]) decay(state []T) {
	d := b.Decays()
	last := b.factors[(b.n-1)*d:][:d]
	for i := range b.K {
		vector.Scale(kernel.VectorsOf[T](), state[i*b.V:][:b.V], last[i%d])
	}
}
