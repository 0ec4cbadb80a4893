package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gomoe/gomoe/internal/kernel/vector"
)

// Sampling configures the choice of the next token. The zero Sampling is greedy: it takes the most likely token, or
// the lowest id among equally likely ones.
type Sampling struct {
	Temperature float64 // divides the logits; 0 is greedy
	TopK        int     // restricts to this many of the most likely tokens; 0 means all
	TopP        float64 // restricts to the most likely tokens with this total probability; 0 means all
	MinP        float64 // restricts to tokens with at least this fraction of the highest probability
	// Repetition divides the positive logits of tokens already present, and multiplies their negative ones; 0 means 1,
	// which has no effect. Presence is subtracted from the logits of these tokens once, and Frequency once per
	// occurrence.
	Repetition, Presence, Frequency float64
	Bias                            map[int32]float64 // added to tokens' logits
	// Seed determines the random choice, together with the number of the token. It does not depend on meshes and
	// batches.
	Seed uint64
}

// Check returns an error if a setting is invalid.
func (s Sampling) Check() error {
	for _, c := range []struct {
		name    string
		x       float64
		ok      bool
		wanting string
	}{
		{"temperature", s.Temperature, s.Temperature >= 0 && s.Temperature <= math.MaxFloat32, "a number from 0 to 3.4e+38"},
		{"top-k", float64(s.TopK), s.TopK >= 0, "at least 0"},
		{"top-p", s.TopP, s.TopP >= 0 && s.TopP <= 1, "a number from 0 to 1"},
		{"min-p", s.MinP, s.MinP >= 0 && s.MinP <= 1, "a number from 0 to 1"},
		{"repetition", s.Repetition, s.Repetition >= 0 && s.Repetition <= math.MaxFloat32, "a number from 0 to 3.4e+38, of which 0 changes nothing"},
		{"presence", s.Presence, math.Abs(s.Presence) <= math.MaxFloat32, "a number from -3.4e+38 to 3.4e+38"},
		{"frequency", s.Frequency, math.Abs(s.Frequency) <= math.MaxFloat32, "a number from -3.4e+38 to 3.4e+38"},
	} {
		if !c.ok {
			return fmt.Errorf("generate: %s %g, want %s", c.name, c.x, c.wanting)
		}
	}
	return nil
}

// candidate is a possible next token.
type candidate struct {
	id int32
	x  float64 // logit or weight
}

// Choose samples the token following seen from the logits. It returns its ID, its log probability under the
// unmodified logits, and the top most likely tokens. It is an error if a logit is NaN or all are -Inf.
func (s Sampling) Choose(logits []float32, seen []int32, top int) (Token, error) {
	return score(logits, len(seen), top, func() int32 { return s.pick(s.penalised(logits, seen), len(seen)) })
}

// score returns the token chosen by id for a position, with its log probability under the logits, and the top most
// likely tokens.
func score(logits []float32, position, top int, id func() int32) (Token, error) {
	most := vector.Max(logits)
	total := vector.ExpTotal(logits, most)
	if math.IsNaN(total) || math.IsInf(float64(most), 0) { // a NaN makes the sum NaN
		for i, x := range logits {
			if x != x {
				return Token{}, fmt.Errorf("generate: the logit of token %d at position %d is NaN", i, position)
			}
		}
		return Token{}, fmt.Errorf("generate: the largest logit at position %d is %g, want a finite one", position, most)
	}
	norm := float64(most) + math.Log(total)
	t := Token{ID: id()}
	t.LogProb = float64(logits[t.ID]) - norm
	for _, c := range largest(logits, top) {
		t.Top = append(t.Top, Alternative{c.id, c.x - norm})
	}
	return t, nil
}

// descending orders candidates from largest to smallest, and equal ones by id.
func descending(a, b candidate) int {
	switch {
	case a.x > b.x:
		return -1
	case a.x < b.x:
		return 1
	}
	return cmp.Compare(a.id, b.id)
}

// largest returns the n largest logits, in order.
func largest(logits []float32, n int) []candidate {
	if n = min(n, len(logits)); n == 0 {
		return nil
	}
	best := make([]candidate, n)
	for i := range best {
		best[i] = candidate{int32(i), float64(logits[i])}
	}
	slices.SortFunc(best, descending)
	for id, x := range logits[n:] {
		if c := (candidate{int32(n + id), float64(x)}); c.x > best[n-1].x { // among equal ones the lower id is first
			i, _ := slices.BinarySearchFunc(best[:n-1], c, descending)
			copy(best[i+1:], best[i:n-1])
			best[i] = c
		}
	}
	return best
}

// penalised returns the logits after applying penalties and biases, or logits itself if there are none.
func (s Sampling) penalised(logits []float32, seen []int32) []float32 {
	penalties := s.Repetition != 0 && s.Repetition != 1 || s.Presence != 0 || s.Frequency != 0
	if !penalties && len(s.Bias) == 0 {
		return logits
	}
	logits = slices.Clone(logits)
	if penalties {
		times := make([]int32, len(logits))
		for _, id := range seen {
			if id >= 0 && int(id) < len(logits) {
				times[id]++
			}
		}
		for id, n := range times {
			if n == 0 {
				continue
			}
			x := float64(logits[id])
			if s.Repetition != 0 {
				if x > 0 {
					x /= s.Repetition
				} else {
					x *= s.Repetition
				}
			}
			logits[id] = float32(x - (s.Presence + float64(s.Frequency*float64(n))))
		}
	}
	for id, b := range s.Bias {
		if id >= 0 && int(id) < len(logits) {
			logits[id] = float32(float64(logits[id]) + b)
		}
	}
	return logits
}

// pick samples the token at a position.
func (s Sampling) pick(logits []float32, position int) int32 {
	first := max(slices.Index(logits, vector.Max(logits)), 0) // the most likely
	if s.Temperature == 0 {
		return int32(first)
	}
	top := logits[first]
	var ids []int32 // of the remaining logits; nil means all, in order
	if s.TopK > 0 {
		best := largest(logits, s.TopK)
		ids, logits = make([]int32, len(best)), make([]float32, len(best))
		for i, c := range best {
			ids[i], logits[i] = c.id, float32(c.x)
		}
	}
	room := rooms.Get().(*[]float32)
	defer rooms.Put(room)
	weights, sum := s.weigh(room, logits, top)
	if s.MinP > 0 || s.TopP > 0 {
		cs := make([]candidate, 0, len(weights))
		for i, w := range weights {
			id := int32(i)
			if ids != nil {
				id = ids[i]
			}
			if float64(w) >= s.MinP {
				cs = append(cs, candidate{id, float64(w)})
			}
		}
		if s.TopP > 0 {
			cs = nucleus(cs, s.TopP*sum)
		}
		sum, ids, weights = 0, make([]int32, len(cs)), weights[:len(cs)]
		for i, c := range cs {
			ids[i], weights[i] = c.id, float32(c.x)
			sum += c.x
		}
	}
	u := rand.New(rand.NewPCG(s.Seed, uint64(position))).Float64() * sum
	at := find(weights, u)
	if ids != nil {
		return ids[at]
	}
	return int32(at)
}

// rooms pools buffers for weights.
var rooms = sync.Pool{New: func() any { return new([]float32) }}

// weigh returns exp((x-top)/temperature) for each logit x, where top is the largest, and the sum. It reuses room's
// memory.
func (s Sampling) weigh(room *[]float32, logits []float32, top float32) (weights []float32, sum float64) {
	*room = slices.Grow((*room)[:0], len(logits))
	weights = (*room)[:len(logits)]
	const far = 1000 // dividing first may round by 2⁻²⁴ of this, which enters the exponent
	switch t := s.Temperature; {
	case t == 1:
		return weights, vector.ExpSum(weights, logits, top)
	case t > 1e-6 && math.Abs(float64(top)/t) < far:
		vector.Scaled(weights, logits, 1, t)
		return weights, vector.ExpSum(weights, weights, float32(float64(top)/t))
	}
	for i, x := range logits {
		weights[i] = float32((float64(x) - float64(top)) / s.Temperature)
	}
	return weights, vector.ExpSum(weights, weights, 0)
}

// find returns the first positive weight at which the cumulative sum exceeds u, or the last positive weight if
// rounding keeps every sum below.
func find(weights []float32, u float64) int {
	const some = 1024 // summed per chunk
	from := 0
	for ; from+some < len(weights); from += some {
		rest := u - vector.Sum(weights[from:from+some])
		if rest < 0 {
			break
		}
		u = rest
	}
	for i, w := range weights[from:] {
		if u -= float64(w); u < 0 {
			return from + i
		}
	}
	last := len(weights) - 1
	for last > 0 && weights[last] == 0 {
		last--
	}
	return last
}

// nucleus returns the largest candidates with a total weight of at least part, in order, or all if their total is
// smaller. It reorders cs. It uses a heap, which orders no more of a large vocabulary than needed.
func nucleus(cs []candidate, part float64) []candidate {
	down := func(heap []candidate, i int) {
		for {
			next := 2*i + 1
			if next+1 < len(heap) && descending(heap[next+1], heap[next]) < 0 {
				next++
			}
			if next >= len(heap) || descending(heap[i], heap[next]) < 0 {
				return
			}
			heap[i], heap[next] = heap[next], heap[i]
			i = next
		}
	}
	for i := len(cs)/2 - 1; i >= 0; i-- {
		down(cs, i)
	}
	var out []candidate
	for heap := cs; len(heap) > 0; {
		c := heap[0]
		out = append(out, c)
		if part -= c.x; part <= 0 {
			break
		}
		n := len(heap) - 1
		heap[0], heap = heap[n], heap[:n]
		down(heap, 0)
	}
	return out
}
