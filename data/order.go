package data

import "fmt"

// Order configures how documents form sequences, and sequences form batches.
type Order struct {
	Rows   int // sequences per batch
	Length int // tokens per sequence
	// Seed determines the shuffling. Every epoch has a different order, containing every sequence once.
	Seed uint64
	// InTurn keeps the sequences in file order instead.
	InTurn bool
	// Whole begins a new sequence if the next document does not fit into the rest of the current one, which is padded.
	// Documents longer than a sequence are split. Without Whole, documents are concatenated without gaps and split at
	// every Length tokens.
	Whole bool
}

// Batches are the batches of a training run.
type Batches struct {
	set   *Set
	order Order
	// starts holds the first token of each sequence, followed by the number of tokens. If nil, a sequence begins every
	// Length tokens.
	starts []int64
	n      uint64 // number of sequences
}

// Batches returns the batches of a set. It is an error if there are too few tokens for one sequence.
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

// whole returns the starts of sequences of at most length tokens, splitting only documents that are longer,
// followed by the number of tokens.
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

// Sequences returns the number of sequences per epoch.
func (b *Batches) Sequences() int64 { return int64(b.n) }

// Used returns the number of tokens in sequences. Without Order.Whole, a remainder shorter than a sequence is
// unused.
func (b *Batches) Used() int64 {
	if b.starts != nil {
		return b.set.Tokens()
	}
	return int64(b.n) * int64(b.order.Length)
}

// sequence returns the first token of the sequence in a row of a step, and its length.
func (b *Batches) sequence(step int64, row int) (first int64, n int) {
	at := uint64(step)*uint64(b.order.Rows) + uint64(row)
	i := at % b.n
	if !b.order.InTurn {
		i = shuffled(i, b.n, b.order.Seed, at/b.n)
	}
	return b.at(i)
}

// at returns the first token of sequence i, and its length.
func (b *Batches) at(i uint64) (first int64, n int) {
	if b.starts == nil {
		return int64(i) * int64(b.order.Length), b.order.Length
	}
	return b.starts[i], int(b.starts[i+1] - b.starts[i])
}

// Predicts reports whether any token of the sequences is predicted, reading up to the first one. It returns false
// if texts have a single token each, or completions and answers are empty.
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
