package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Sampling says how the next token is chosen. The zero Sampling is greedy: it takes the most likely token, the
// lowest id if several are.
type Sampling struct {
	Temperature float64 // divides the logits; 0 is greedy
	TopK        int     // only the most likely tokens; 0 means all
	TopP        float64 // only the most likely tokens that together have this probability; 0 means all
	MinP        float64 // only tokens with at least this part of the most likely one's probability
	// Repetition divides the positive logits of tokens that are there already, and multiplies the negative ones;
	// 0 means 1, which changes nothing. Presence is taken from the logits of these tokens, and Frequency once for each
	// time that they are there.
	Repetition, Presence, Frequency float64
	Bias                            map[int32]float64 // is added to tokens' logits
	// Seed makes the choice, together with the number of the token. It does not depend on meshes and batches.
	Seed uint64
}

// Check returns an error if a setting has no meaning.
func (s Sampling) Check() error {
	for _, c := range []struct {
		name    string
		x       float64
		ok      bool
		wanting string
	}{
		{"temperature", s.Temperature, s.Temperature >= 0 && s.Temperature <= math.MaxFloat32, "a finite number of at least 0"},
		{"top-k", float64(s.TopK), s.TopK >= 0, "at least 0"},
		{"top-p", s.TopP, s.TopP >= 0 && s.TopP <= 1, "a number from 0 to 1"},
		{"min-p", s.MinP, s.MinP >= 0 && s.MinP <= 1, "a number from 0 to 1"},
		{"repetition", s.Repetition, s.Repetition >= 0 && s.Repetition <= math.MaxFloat32, "a finite number above 0, or 0 for none"},
		{"presence", s.Presence, math.Abs(s.Presence) <= math.MaxFloat32, "a finite number"},
		{"frequency", s.Frequency, math.Abs(s.Frequency) <= math.MaxFloat32, "a finite number"},
	} {
		if !c.ok {
			return fmt.Errorf("generate: %s %g, want %s", c.name, c.x, c.wanting)
		}
	}
	return nil
}

// candidate is a token that may come next.
type candidate struct {
	id int32
	x  float64 // the logit, and later the weight
}

// Choose returns the token that follows seen, of which there are so many, from the logits: its ID, the logarithm of
// its probability under the logits alone, and the top most likely tokens. It is an error if a logit is NaN or all are
// -Inf.
func (s Sampling) Choose(logits []float32, seen []int32, top int) (Token, error) {
	cs := make([]candidate, len(logits))
	most := math.Inf(-1)
	for i, x := range logits {
		if math.IsNaN(float64(x)) {
			return Token{}, fmt.Errorf("generate: the logit of token %d at position %d is NaN", i, len(seen))
		}
		cs[i] = candidate{int32(i), float64(x)}
		most = max(most, float64(x))
	}
	if math.IsInf(most, 0) || len(cs) == 0 {
		return Token{}, fmt.Errorf("generate: the largest logit at position %d is %g, want a finite one", len(seen), most)
	}
	sum := 0.0
	for _, c := range cs {
		sum += math.Exp(c.x - most)
	}
	norm := most + math.Log(sum)
	var t Token
	for _, c := range largest(cs, top) {
		t.Top = append(t.Top, Alternative{c.id, c.x - norm})
	}
	s.penalise(cs, seen)
	t.ID = s.pick(cs, len(seen))
	t.LogProb = float64(logits[t.ID]) - norm
	return t, nil
}

// descending puts the largest candidates first, and of equal ones the lower id.
func descending(a, b candidate) int {
	switch {
	case a.x > b.x:
		return -1
	case a.x < b.x:
		return 1
	}
	return cmp.Compare(a.id, b.id)
}

// largest returns the n first candidates in order, without changing cs.
func largest(cs []candidate, n int) []candidate {
	if n = min(n, len(cs)); n == 0 {
		return nil
	}
	best := slices.Clone(cs[:n])
	slices.SortFunc(best, descending)
	for _, c := range cs[n:] {
		if descending(c, best[n-1]) < 0 {
			i, _ := slices.BinarySearchFunc(best[:n-1], c, descending)
			copy(best[i+1:], best[i:n-1])
			best[i] = c
		}
	}
	return best
}

// penalise changes the logits of tokens that are there already, and of those with a bias.
func (s Sampling) penalise(cs []candidate, seen []int32) {
	if s.Repetition != 0 && s.Repetition != 1 || s.Presence != 0 || s.Frequency != 0 {
		times := make([]int32, len(cs))
		for _, id := range seen {
			if id >= 0 && int(id) < len(cs) {
				times[id]++
			}
		}
		for id, n := range times {
			if n == 0 {
				continue
			}
			if x := &cs[id].x; s.Repetition != 0 {
				if *x > 0 {
					*x /= s.Repetition
				} else {
					*x *= s.Repetition
				}
			}
			cs[id].x -= s.Presence + float64(s.Frequency*float64(n))
		}
	}
	for id, b := range s.Bias {
		if id >= 0 && int(id) < len(cs) {
			cs[id].x += b
		}
	}
}

// pick returns the token at a position.
func (s Sampling) pick(cs []candidate, position int) int32 {
	first := slices.MinFunc(cs, descending)
	if s.Temperature == 0 {
		return first.id
	}
	if s.TopK > 0 {
		cs = largest(cs, s.TopK)
	}
	sum := 0.0
	for i := range cs {
		cs[i].x = math.Exp((cs[i].x - first.x) / s.Temperature)
		sum += cs[i].x
	}
	if s.MinP > 0 {
		cs = slices.DeleteFunc(cs, func(c candidate) bool { return c.x < s.MinP })
	}
	if s.TopP > 0 {
		cs = nucleus(cs, s.TopP*sum)
	}
	sum = 0
	for _, c := range cs {
		sum += c.x
	}
	u := rand.New(rand.NewPCG(s.Seed, uint64(position))).Float64() * sum
	for _, c := range cs {
		if u -= c.x; u < 0 {
			return c.id
		}
	}
	return cs[len(cs)-1].id
}

// nucleus returns the largest candidates whose weights are together at least part, in order, all if there are no
// such. It changes the order of cs. A heap orders no more of a large vocabulary than is returned.
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
