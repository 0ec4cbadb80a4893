package primitives

import (
	"fmt"
	"math"

	"github.com/gomoe/gomoe/lowering"
)

// route is the kernel of Router. first is the number of the rank's first
// token, for messages. Scores and weights are formed in f64 and rounded once;
// experts are chosen by the rounded scores.
func route[T Float](r Router, first int) lowering.Kernel {
	return func(a *lowering.Args) error {
		logits, weights, ids, scores := data[T](a.In[0]), data[T](a.Out[0]), data[int32](a.Out[1]), data[T](a.Out[2])
		experts := a.In[0].Type.Shape[1]
		c := newChooser[T](a, r, experts)
		if len(a.In) == 2 {
			for e, b := range a.In[1].Float64s() {
				c.bias[e] = T(b)
			}
		}
		wide, w := lowering.Make[float64](a, experts), lowering.Make[float64](a, r.TopK)
		for t := range a.In[0].Type.Shape[0] {
			x, s := logits[t*experts:(t+1)*experts], scores[t*experts:(t+1)*experts]
			for e, v := range x {
				if v != v {
					return fmt.Errorf("the logit of token %d for expert %d is NaN; no expert can be chosen from it", first+t, e)
				}
			}
			score(r.Score, wide, x)
			for e, v := range wide {
				s[e] = T(v)
			}
			id := ids[t*r.TopK : (t+1)*r.TopK]
			if r.Score == TopKSoftmaxScore {
				c.choose(id, x)
			} else {
				c.choose(id, s)
			}
			for k, e := range id {
				w[k] = wide[e]
				if r.Score == TopKSoftmaxScore {
					w[k] = float64(x[e])
				}
			}
			r.weigh(w)
			for k, v := range w {
				weights[t*r.TopK+k] = T(v)
			}
		}
		return nil
	}
}

// score writes the scores of one token's logits.
func score[T Float](kind string, dst []float64, x []T) {
	switch kind {
	case SigmoidScore:
		for e, v := range x {
			dst[e] = 1 / (1 + math.Exp(-float64(v)))
		}
	case SqrtSoftplusScore:
		for e, v := range x {
			dst[e] = math.Sqrt(max(float64(v), 0) + math.Log1p(math.Exp(-math.Abs(float64(v)))))
		}
	default:
		for e, v := range x {
			dst[e] = float64(v)
		}
		softmaxLine(dst)
	}
}

// softmaxLine replaces x by its softmax.
func softmaxLine(x []float64) {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	sum := 0.0
	for i, v := range x {
		x[i] = math.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// weigh turns the chosen experts' scores, or logits, into weights.
func (r Router) weigh(w []float64) {
	if r.Score == TopKSoftmaxScore {
		softmaxLine(w)
	}
	f := r.scale()
	if r.Renormalize {
		sum := r.Epsilon
		for _, v := range w {
			sum += v
		}
		f /= sum
	}
	for k := range w {
		w[k] *= f
	}
}

// chooser picks experts by selection values.
type chooser[T Float] struct {
	r       Router
	bias    []T
	value   []T    // selection value per expert
	barred  []bool // experts outside the chosen groups
	groups  []T
	chosen  []int32 // groups
	perHead int
}

func newChooser[T Float](a *lowering.Args, r Router, experts int) chooser[T] {
	c := chooser[T]{r: r, bias: lowering.Make[T](a, experts), value: lowering.Make[T](a, experts), barred: lowering.Make[bool](a, experts)}
	if r.Groups > 0 {
		c.groups, c.chosen, c.perHead = lowering.Make[T](a, r.Groups), lowering.Make[int32](a, r.TopGroups), experts/r.Groups
	}
	return c
}

// choose writes the ids of the top-k experts by s + bias, best first.
func (c *chooser[T]) choose(ids []int32, s []T) {
	for e := range s {
		c.value[e] = s[e] + c.bias[e]
	}
	if c.r.Groups > 0 {
		for g := range c.groups {
			c.groups[g] = c.groupValue(c.value[g*c.perHead : (g+1)*c.perHead])
		}
		top(c.chosen, c.groups, nil)
		for e := range c.barred {
			c.barred[e] = true
		}
		for _, g := range c.chosen {
			clear(c.barred[int(g)*c.perHead : (int(g)+1)*c.perHead])
		}
	}
	top(ids, c.value, c.barred)
}

// groupValue is the largest value of a group, or the sum of the two largest.
func (c *chooser[T]) groupValue(v []T) T {
	best, next := T(math.Inf(-1)), T(math.Inf(-1))
	for _, x := range v {
		if x > best {
			best, next = x, best
		} else if x > next {
			next = x
		}
	}
	if c.r.GroupScore == "max" || len(v) == 1 {
		return best
	}
	return best + next
}

// top writes the indices of the largest values that are not barred, largest
// first and of equals the lowest. ids is kept sorted while it fills, so the
// work is one comparison for most values.
func top[T Float](ids []int32, v []T, barred []bool) {
	n := 0
	for i, x := range v {
		if barred != nil && barred[i] || n == len(ids) && !(x > v[ids[n-1]]) {
			continue
		}
		n = min(n+1, len(ids))
		j := n - 1
		for ; j > 0 && x > v[ids[j-1]]; j-- {
			ids[j] = ids[j-1]
		}
		ids[j] = int32(i)
	}
}
