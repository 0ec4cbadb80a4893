package data

import "fmt"

// Order says how sequences are made of documents, and which of them are in a batch.
type Order struct {
	Rows   int // sequences of a batch
	Length int // tokens of a sequence
	// Seed makes the order. Every round has another one, in which every sequence comes once.
	Seed uint64
	// InTurn takes the sequences in the order of the files instead.
	InTurn bool
	// Whole begins a new sequence where the next document would not fit into the rest of this
	// one, which is then padded. Documents that are longer than a sequence are cut. Without
	// Whole, documents follow each other without a gap, and sequences end wherever they end.
	Whole bool
}

// Batches are the batches of a training run.
type Batches struct {
	set   *Set
	order Order
	// starts has the first token of each sequence, and behind them the number of tokens. nil
	// means that a sequence begins every Length tokens.
	starts []int64
	n      uint64 // sequences
}

// Batches returns the batches of a set. There must be enough tokens for one sequence.
func (s *Set) Batches(o Order) (*Batches, error) {
	if o.Rows < 1 || o.Length < 1 {
		return nil, fmt.Errorf("data: batches of %d sequences of %d tokens, want at least 1 of each", o.Rows, o.Length)
	}
	b := &Batches{set: s, order: o}
	if o.Whole {
		b.starts = s.whole(int64(o.Length))
		b.n = uint64(len(b.starts) - 1)
	} else {
		b.n = uint64(s.Tokens() / int64(o.Length))
	}
	if b.n == 0 {
		return nil, fmt.Errorf("data: %d tokens are no sequence of %d; want more texts, or shorter sequences", s.Tokens(), o.Length)
	}
	return b, nil
}

// whole returns where sequences of at most length tokens begin that cut only documents which are
// longer, and behind them the number of tokens.
func (s *Set) whole(length int64) []int64 {
	starts := []int64{0}
	for i, x := range s.shards {
		begin := s.begins[i]
		for _, end := range x.ends {
			end += s.begins[i]
			if first := starts[len(starts)-1]; end-first > length && begin > first {
				starts = append(starts, begin)
			}
			for first := starts[len(starts)-1]; end-first > length; first += length {
				starts = append(starts, first+length)
			}
			begin = end
		}
	}
	return append(starts, s.Tokens())
}

// Sequences returns the number of sequences, which come once in every round.
func (b *Batches) Sequences() int64 { return int64(b.n) }

// Used returns the number of tokens that are in sequences. Without Order.Whole the last tokens,
// which are less than a sequence, are in none.
func (b *Batches) Used() int64 {
	if b.starts != nil {
		return b.set.Tokens()
	}
	return int64(b.n) * int64(b.order.Length)
}

// sequence returns the first token of the sequence in a row of a step, and their number.
func (b *Batches) sequence(step int64, row int) (first int64, n int) {
	at := uint64(step)*uint64(b.order.Rows) + uint64(row)
	i := at % b.n
	if !b.order.InTurn {
		i = shuffled(i, b.n, b.order.Seed, at/b.n)
	}
	return b.at(i)
}

// at returns the first token of a sequence, and their number.
func (b *Batches) at(i uint64) (first int64, n int) {
	if b.starts == nil {
		return int64(i) * int64(b.order.Length), b.order.Length
	}
	return b.starts[i], int(b.starts[i+1] - b.starts[i])
}

// Predicts reports whether a token of the sequences is to be predicted at all. It reads as far as the first of these. It is false
// where texts have one token, and completions and answers none.
func (b *Batches) Predicts() (bool, error) {
	for i := range b.n {
		first, n := b.at(i)
		for j := range n {
			if e, err := b.set.element(first, n, j); err != nil || e.weight != 0 {
				return err == nil, err
			}
		}
	}
	return false, nil
}
