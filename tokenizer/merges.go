package tokenizer

import "math/bits"

// merges maps pairs of tokens to the merged token and its rank. It is a hash table with open addressing, because
// each step of the encoder looks up a pair, and Go's maps took half of the encoder's time.
type merges struct {
	keys  []uint64 // left<<32 | right
	vals  []merge
	shift int
}

type merge struct {
	rank, id int32
}

const noPair = ^uint64(0)

func newMerges(n int) *merges {
	log := max(4, bits.Len(uint(n))+1) // at most half full
	m := &merges{keys: make([]uint64, 1<<log), vals: make([]merge, 1<<log), shift: 64 - log}
	for i := range m.keys {
		m.keys[i] = noPair
	}
	return m
}

func pair(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

// put adds or replaces a pair. The number of pairs must not exceed newMerges' argument.
func (m *merges) put(left, right int32, to merge) {
	k := pair(left, right)
	for i := m.slot(k); ; i = (i + 1) & (len(m.keys) - 1) {
		if m.keys[i] == noPair || m.keys[i] == k {
			m.keys[i], m.vals[i] = k, to
			return
		}
	}
}

func (m *merges) slot(k uint64) int {
	// The multiplier is 2^64 divided by the golden ratio: Knuth's multiplicative hash.
	return int((k ^ k>>29) * 0x9E3779B97F4A7C15 >> m.shift)
}

func (m *merges) get(left, right int32) (merge, bool) {
	k := pair(left, right)
	for i := m.slot(k); ; i = (i + 1) & (len(m.keys) - 1) {
		switch m.keys[i] {
		case k:
			return m.vals[i], true
		case noPair:
			return merge{}, false
		}
	}
}

// symbol is a token of a word being encoded. A word's symbols form a linked list in an array.
type symbol struct {
	id         int32
	prev, next int32 // -1 at the ends
	frozen     bool  // never merged
	gone       bool  // merged into its left neighbour
}

// candidate is a pair that can be merged.
type candidate struct {
	rank, at int32
	id       int32
}

// before orders merges by rank, and then from left to right.
func (c candidate) before(o candidate) bool {
	return c.rank < o.rank || c.rank == o.rank && c.at < o.at
}

// word is scratch memory for encoding words.
type word struct {
	symbols []symbol
	queue   []candidate // a heap
	nodes   []node      // of a unigram model
}

func (w *word) add(id int32, frozen bool) {
	n := int32(len(w.symbols))
	if n > 0 {
		w.symbols[n-1].next = n
	}
	w.symbols = append(w.symbols, symbol{id: id, prev: n - 1, next: -1, frozen: frozen})
}

// few is the number of symbols below which scanning all pairs for the best one is faster than a heap.
const few = 24

// merge merges the symbols of w until no pair can be merged, best pair first, in O(n log n) steps.
func (w *word) merge(m *merges) {
	if len(w.symbols) < few {
		w.mergeFew(m)
		return
	}
	w.queue = w.queue[:0]
	for i := range w.symbols {
		w.consider(m, int32(i))
	}
	for len(w.queue) > 0 {
		c := w.pop()
		s := &w.symbols[c.at]
		if s.gone || s.next < 0 {
			continue
		}
		if now, ok := m.get(s.id, w.symbols[s.next].id); !ok || now.id != c.id {
			continue // the pair no longer exists
		}
		w.join(c.at, c.id)
		if s.prev >= 0 {
			w.consider(m, s.prev)
		}
		w.consider(m, c.at)
	}
}

// mergeFew is merge without a queue.
func (w *word) mergeFew(m *merges) {
	var ranks [few]candidate // by left symbol of the pair; id < 0: no pair
	n := int32(len(w.symbols))
	look := func(at int32) {
		ranks[at] = candidate{id: -1}
		s := &w.symbols[at]
		if s.next < 0 || s.frozen || w.symbols[s.next].frozen {
			return
		}
		if to, ok := m.get(s.id, w.symbols[s.next].id); ok {
			ranks[at] = candidate{to.rank, at, to.id}
		}
	}
	for i := range n {
		look(i)
	}
	for {
		best := candidate{id: -1}
		for i := range n {
			if ranks[i].id >= 0 && (best.id < 0 || ranks[i].rank < best.rank) {
				best = ranks[i]
			}
		}
		if best.id < 0 {
			return
		}
		ranks[w.symbols[best.at].next].id = -1
		w.join(best.at, best.id)
		look(best.at)
		if p := w.symbols[best.at].prev; p >= 0 {
			look(p)
		}
	}
}

// join merges symbol at and the next one into the token id.
func (w *word) join(at, id int32) {
	s := &w.symbols[at]
	r := &w.symbols[s.next]
	r.gone = true
	s.id, s.next = id, r.next
	if s.next >= 0 {
		w.symbols[s.next].prev = at
	}
}

// consider adds the pair of a symbol and the next one to the queue, if it can be merged.
func (w *word) consider(m *merges, at int32) {
	s := &w.symbols[at]
	if s.next < 0 || s.frozen || w.symbols[s.next].frozen {
		return
	}
	to, ok := m.get(s.id, w.symbols[s.next].id)
	if !ok {
		return
	}
	q := append(w.queue, candidate{to.rank, at, to.id})
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
	w.queue = q
}

// pop removes the best pair from the queue.
func (w *word) pop() candidate {
	q := w.queue
	top := q[0]
	n := len(q) - 1
	q[0] = q[n]
	q = q[:n]
	for i := 0; ; {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && q[c+1].before(q[c]) {
			c++
		}
		if !q[c].before(q[i]) {
			break
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
	w.queue = q
	return top
}
