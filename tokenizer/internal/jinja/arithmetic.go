package jinja

import (
	"math"
	"slices"
	"strings"
)

// compare is Python's comparison with an operator.
func (r *run) compare(op string, a, b any) bool {
	switch op {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		return !r.equal(a, b, 0)
	case "<":
		return r.less(a, b)
	case ">":
		return r.less(b, a)
	case "<=":
		return !r.less(b, a)
	case ">=":
		return !r.less(a, b)
	case "not in":
		return !r.contains(b, a)
	}
	return r.contains(b, a)
}

// contains is Python's in.
func (r *run) contains(all, one any) bool {
	switch all := all.(type) {
	case string:
		s, ok := one.(string)
		if !ok {
			r.fail("%s in a string, want a string", r.typed(one))
		}
		r.spend(len(all) / 16)
		return strings.Contains(all, s)
	case *Dict:
		s, ok := one.(string)
		_, found := all.values[s]
		return ok && found
	}
	return slices.ContainsFunc(r.each(all), func(x any) bool { return r.equal(x, one, 0) })
}

// arithmetic is Python's arithmetic with an operator, and Jinja's ~.
func (r *run) arithmetic(op string, a, b any) any {
	if r.spend(1); op == "~" {
		return r.made(r.show(a) + r.show(b))
	}
	if s, ok := a.(string); ok {
		switch t := b.(type) {
		case string:
			if op == "+" {
				return r.made(s + t)
			}
		case int64:
			if op == "*" {
				return r.repeat(s, t)
			}
		}
		if op == "%" {
			return r.format(s, b)
		}
	}
	if x, ok := a.(*list); ok {
		if y, ok := b.(*list); ok && op == "+" && x.tuple == y.tuple {
			r.spend(len(x.items) + len(y.items))
			return &list{slices.Concat(x.items, y.items), x.tuple}
		}
	}
	x, ok1 := numeric(a)
	y, ok2 := numeric(b)
	if !ok1 || !ok2 {
		r.fail("%s %s %s: want two numbers, two strings or two lists", r.typed(a), op, r.typed(b))
	}
	i, ok1 := a.(int64)
	j, ok2 := b.(int64)
	if ok1 && ok2 {
		if v, ok := r.integers(op, i, j); ok {
			return v
		}
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		return math.Pow(x, y)
	}
	if y == 0 {
		r.fail("a division by zero")
	}
	switch op {
	case "//":
		return math.Floor(x / y)
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m
	}
	return x / y
}

// integers computes with integers, where the result is one.
func (r *run) integers(op string, i, j int64) (any, bool) {
	const most = 1 << 31 // products and sums of larger ones may not fit
	if max(i, -i) > most || max(j, -j) > most {
		if op != "//" && op != "%" {
			r.fail("numbers beyond %d", int64(most))
		}
	}
	switch op {
	case "+":
		return i + j, true
	case "-":
		return i - j, true
	case "*":
		return i * j, true
	case "//", "%":
		if j == 0 {
			r.fail("a division by zero")
		}
		q, m := i/j, i%j
		if m != 0 && (m < 0) != (j < 0) {
			q, m = q-1, m+j
		}
		if op == "%" {
			return m, true
		}
		return q, true
	case "**":
		if v := math.Pow(float64(i), float64(j)); j >= 0 && math.Abs(v) <= 1<<53 {
			return int64(v), true
		}
	}
	return nil, false
}

func (r *run) repeat(s string, n int64) string {
	if n <= 0 || s == "" {
		return ""
	}
	if n > maxBudget {
		n = maxBudget
	}
	r.spend(int(n) * (len(s)/16 + 1))
	return strings.Repeat(s, int(n))
}
