package primitives

import (
	"math"
	"slices"

	"github.com/gomoe/gomoe/exec"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/kernel/norm"
)

// routeAtOnce is the approximate number of logits scored at a time, always of whole tokens,
// keeping their scores in f64 in the first-level cache.
const routeAtOnce = 2048

// imprecise is a lower bound of powers of e. Smaller powers are subnormal in f64 or 0, so scores computed from them
// lose bits. Renormalized weights are then computed from the logarithms of scores.
const imprecise = 0x1p-970

// route returns the kernel of RouteOp. first is the number of the rank's first token in
// the global batch, for messages. Scores and weights are computed in f64 and rounded
// once, choosing experts by the rounded scores.
func route[T float](r RouteOp, first int) exec.Kernel {
	return func(a *exec.Args) error {
		logits, weights, ids, scores := data[T](a.In[0]), data[T](a.Out[0]), data[int32](a.Out[1]), data[T](a.Out[2])
		tokens, experts := a.In[0].Type.Shape[0], a.In[0].Type.Shape[1]
		if i := slices.IndexFunc(logits, func(v T) bool { return v != v }); i >= 0 {
			return r.NaNLogit(first+i/experts, i%experts)
		}
		var bias []T
		if len(a.In) == 2 {
			bias = exec.MakeDirty[T](a, experts)
			for e, b := range data[float64](inType(a, a.In[1], graph.F64)) {
				bias[e] = T(b)
			}
		}
		w := exec.New[routerWork[T]](a)
		w.r, w.logits, w.weights, w.scores, w.ids = r, logits, weights, scores, ids
		w.experts, w.some = experts, 1+routeAtOnce/(1+experts)
		w.rooms = exec.RoomsOf[float64](a, w.some*experts+norm.ScoreRoom+r.TopK)
		w.choosers = choosersOf(a, r, bias, experts)
		a.Share(tokens, rowGrain(experts), w)
		return nil
	}
}

// routerWork is the work of the router, scoring `some` tokens at a time.
type routerWork[T float] struct {
	r                       RouteOp
	logits, weights, scores []T
	ids                     []int32
	experts, some           int
	rooms                   *exec.Rooms[float64]
	choosers                choosers[T]
}

func (p *routerWork[T]) Piece(lo, hi int) {
	r, experts, some := &p.r, p.experts, p.some
	c, room := p.choosers.take(), p.rooms.Take()
	wide, w := room[r.TopK:], room[:r.TopK]
	for ; lo < hi; lo += some {
		n := min(some, hi-lo)
		x, s := p.logits[lo*experts:(lo+n)*experts], p.scores[lo*experts:(lo+n)*experts]
		score(r.Score, wide, x, experts)
		for e := range s {
			s[e] = T(wide[e])
		}
		for t := range n {
			id := p.ids[(lo+t)*r.TopK:][:r.TopK]
			x, s, wide := x[t*experts:][:experts], s[t*experts:][:experts], wide[t*experts:][:experts]
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
			if r.Renormalize && r.Epsilon == 0 && r.Score != TopKSoftmaxScore && slices.Max(w) < math.Pow(imprecise, r.slope()) {
				for k, e := range id {
					w[k] = float64(x[e]) * r.slope()
				}
				softmaxLine(w)
			}
			r.weigh(w)
			for k, v := range w {
				p.weights[(lo+t)*r.TopK+k] = T(v)
			}
		}
	}
}

// score writes the scores of the logits x to dst. norm.ScoreRoom additional elements follow
// the scores.
func score[T float](kind string, dst []float64, x []T, experts int) {
	switch kind {
	case SigmoidScore:
		norm.Sigmoids(dst, x)
	case SqrtSoftplusScore:
		norm.RootSoftplus(dst, x)
	default:
		norm.SoftmaxRows(dst, x, experts)
	}
}

// softmaxLine computes the softmax of x in place.
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

// slope is the derivative of the logarithm of a score for x far below 0, the score being exp(slope·x).
func (r RouteOp) slope() float64 {
	if r.Score == SqrtSoftplusScore {
		return 0.5
	}
	return 1
}

// weigh turns the chosen experts' scores, or logits, into weights.
func (r RouteOp) weigh(w []float64) {
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

// chooser picks a token's experts by their selection values, score plus bias.
type chooser[T float] struct {
	r       RouteOp
	bias    []T     // nil without a bias
	value   []T     // the selection value of each expert; nil where it is the score
	barred  []bool  // whether an expert is outside the chosen groups
	groups  []T     // the selection value of each group
	chosen  []int32 // the chosen groups
	perHead int
}

// choosers creates a chooser for each piece of the work.
type choosers[T float] struct {
	all     chooser[T]
	experts int
	values  *exec.Rooms[T] // selection values of experts, then of groups
	barred  *exec.Rooms[bool]
	chosen  *exec.Rooms[int32]
}

func choosersOf[T float](a *exec.Args, r RouteOp, bias []T, experts int) choosers[T] {
	c := choosers[T]{all: chooser[T]{r: r, bias: bias}, experts: experts}
	if r.Groups > 0 || bias != nil {
		c.values = exec.RoomsOf[T](a, experts+r.Groups)
	}
	if r.Groups > 0 {
		c.barred, c.chosen = exec.RoomsOf[bool](a, experts), exec.RoomsOf[int32](a, r.TopGroups)
		c.all.perHead = experts / r.Groups
	}
	return c
}

func (c *choosers[T]) take() chooser[T] {
	one := c.all
	if c.values != nil {
		room := c.values.Take()
		one.value, one.groups = room[:c.experts], room[c.experts:]
	}
	if c.barred != nil {
		one.barred, one.chosen = c.barred.Take(), c.chosen.Take()
	}
	return one
}

// choose writes the ids of the top-k experts by s + bias, best first.
func (c *chooser[T]) choose(ids []int32, s []T) {
	if c.value == nil {
		top(ids, s, nil)
		return
	}
	copy(c.value, s)
	for e, b := range c.bias {
		c.value[e] += b
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

// groupValue returns the largest value of a group, or the sum of its two largest.
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

// top fills ids with the indices of the largest values, excluding barred ones, in descending
// order. Of equal values the lowest index comes first. Keeping ids sorted while filling it,
// most values cost one comparison.
func top[T float](ids []int32, v []T, barred []bool) {
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
