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
	// 0 means 1, which changes nothing. Presence is taken from the logits of these tokens.
	Repetition, Presence float64
	Bias                 map[int32]float64 // is added to tokens' logits
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
func descending(a, b candidate) int { return cmp.Or(cmp.Compare(b.x, a.x), cmp.Compare(a.id, b.id)) }

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
	if s.Repetition != 0 && s.Repetition != 1 || s.Presence != 0 {
		done := make([]bool, len(cs))
		for _, id := range seen {
			if int(id) >= len(cs) || id < 0 || done[id] {
				continue
			}
			done[id] = true
			if x := &cs[id].x; s.Repetition != 0 {
				if *x > 0 {
					*x /= s.Repetition
				} else {
					*x *= s.Repetition
				}
			}
			cs[id].x -= s.Presence
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
	if s.Temperature == 0 {
		return slices.MinFunc(cs, descending).id
	}
	if s.TopK > 0 {
		cs = largest(cs, s.TopK)
	} else {
		slices.SortFunc(cs, descending)
	}
	sum, first := 0.0, cs[0].x
	for i := range cs {
		cs[i].x = math.Exp((cs[i].x - first) / s.Temperature)
		sum += cs[i].x
	}
	if s.MinP > 0 {
		if n := slices.IndexFunc(cs, func(c candidate) bool { return c.x < s.MinP }); n > 0 {
			cs = cs[:n]
		}
	}
	if s.TopP > 0 {
		part := 0.0
		for i, c := range cs {
			if part += c.x; part >= s.TopP*sum {
				cs = cs[:i+1]
				break
			}
		}
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
