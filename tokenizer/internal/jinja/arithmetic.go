package jinja

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// compare implements Python's comparison operators.
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
		return r.less(a, b) || r.equal(a, b, 0)
	case ">=":
		return r.less(b, a) || r.equal(a, b, 0)
	case "not in":
		return !r.contains(b, a)
	}
	return r.contains(b, a)
}

// contains implements Python's in.
func (r *run) contains(all, one any) bool {
	switch v := all.(type) {
	case string, markup:
		if !isText(one) {
			r.fail("%s in a string, want a string", r.typed(one))
		}
		s := r.show(v)
		r.spend(len(s) / 16)
		return strings.Contains(s, r.show(one))
	case *Dict:
		h, ok := hash(one)
		if !ok {
			return false
		}
		_, found := v.values[h]
		return found
	}
	return slices.ContainsFunc(r.each(all), func(x any) bool { return r.equal(x, one, 0) })
}

// isNumber reports whether a value is a number in Python, where booleans are numbers too.
func isNumber(v any) bool {
	switch v.(type) {
	case bool, int64, *big.Int, float64:
		return true
	}
	return false
}

// integer returns a value as an integer, and whether it is one.
func integer(v any) (*big.Int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case int64:
		return big.NewInt(v), true
	case *big.Int:
		return v, true
	}
	return nil, false
}

// small returns an integer as a value, using int64 if possible.
func small(i *big.Int) any {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}

// whole returns a float as an integer, if it is integral.
func whole(f float64) (any, bool) {
	if f != math.Trunc(f) || math.IsInf(f, 0) {
		return nil, false
	}
	i, _ := big.NewFloat(f).Int(nil)
	return small(i), true
}

// numeric returns a number as a float.
func numeric(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	if i, ok := v.(int64); ok {
		return float64(i), true
	}
	i, ok := integer(v)
	if !ok {
		return 0, false
	}
	f, _ := new(big.Float).SetInt(i).Float64()
	return f, true
}

// order compares two numbers. It returns 2 if one is NaN.
func order(a, b any) int {
	i, ok1 := a.(int64)
	j, ok2 := b.(int64)
	if ok1 && ok2 {
		return int(min(1, max(-1, int64(boolInt(i > j)-boolInt(i < j)))))
	}
	x, ok1 := integer(a)
	y, ok2 := integer(b)
	if ok1 && ok2 {
		return x.Cmp(y)
	}
	f, g := a, b
	for _, v := range []any{f, g} {
		if f, ok := v.(float64); ok && math.IsNaN(f) {
			return 2
		}
	}
	return exact(a).Cmp(exact(b))
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// exact returns a number without rounding.
func exact(v any) *big.Float {
	if f, ok := v.(float64); ok {
		return new(big.Float).SetFloat64(f)
	}
	i, _ := integer(v)
	return new(big.Float).SetPrec(uint(max(64, i.BitLen()))).SetInt(i)
}

// index returns a value as an int, and whether it is an integer. Large ones are clamped to ±2^40.
func index(v any) (int, bool) {
	i, ok := integer(v)
	if !ok {
		return 0, false
	}
	if !i.IsInt64() {
		return i.Sign() << 40, true
	}
	return int(max(-1<<40, min(1<<40, i.Int64()))), true
}

// arithmetic implements Python's arithmetic operators, and Jinja's ~.
func (r *run) arithmetic(op string, a, b any) any {
	if r.spend(1); op == "~" {
		if r.escape {
			return r.together(a, b)
		}
		return r.made(r.show(a) + r.show(b))
	}
	switch op {
	case "%":
		switch s := a.(type) {
		case string:
			return r.format(s, b)
		case markup:
			return markup(r.format(string(s), r.escapedAll(b)))
		}
	case "+":
		if isText(a) && isText(b) {
			return r.together(a, b)
		}
		x, ok1 := a.(*list)
		y, ok2 := b.(*list)
		if ok1 && ok2 && x.tuple == y.tuple && x.view == "" && y.view == "" {
			r.spend(len(x.items) + len(y.items))
			return &list{items: slices.Concat(x.items, y.items), tuple: x.tuple}
		}
	case "*":
		if n, ok := index(a); ok && !isNumber(b) {
			return r.times(b, n)
		}
		if n, ok := index(b); ok && !isNumber(a) {
			return r.times(a, n)
		}
	}
	if !isNumber(a) || !isNumber(b) {
		r.fail("%s %s %s: want two numbers, two strings or two lists", r.typed(a), op, r.typed(b))
	}
	x, ok1 := integer(a)
	y, ok2 := integer(b)
	if ok1 && ok2 {
		return r.integers(op, x, y)
	}
	return r.floats(op, a, b)
}

func (r *run) floats(op string, a, b any) any {
	x, _ := numeric(a)
	y, _ := numeric(b)
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		if x == 0 && y < 0 {
			r.fail("0 to a negative power")
		}
		if x < 0 && y != math.Trunc(y) {
			r.fail("a negative number to the power of a fraction, which is no real number")
		}
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

// integers computes with integers of any size.
func (r *run) integers(op string, x, y *big.Int) any {
	r.spend((x.BitLen() + y.BitLen()) / 256)
	z := new(big.Int)
	switch op {
	case "+":
		return small(z.Add(x, y))
	case "-":
		return small(z.Sub(x, y))
	case "*":
		r.spend(x.BitLen() / 64 * (y.BitLen() / 64) / 16)
		return small(z.Mul(x, y))
	case "**":
		if y.Sign() < 0 {
			return r.floats(op, small(x), small(y))
		}
		if x.BitLen() > 1 {
			const most = 1 << 16
			if !y.IsInt64() || y.Int64() > most || int64(x.BitLen())*y.Int64() > most {
				r.fail("a power of more than %d bits", most)
			}
			r.spend(x.BitLen() * int(y.Int64()) / 64)
		} else if y.BitLen() > 1 { // power of -1, 0 or 1
			y = new(big.Int).And(y, big.NewInt(1))
			y.Add(y, big.NewInt(2))
		}
		return small(z.Exp(x, y, nil))
	}
	if y.Sign() == 0 {
		r.fail("a division by zero")
	}
	if op == "/" {
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		if math.IsInf(f, 0) {
			r.fail("the result of a division is too large")
		}
		return f
	}
	q, m := z.QuoRem(x, y, new(big.Int))
	if m.Sign() != 0 && m.Sign() != y.Sign() {
		q, m = q.Sub(q, big.NewInt(1)), m.Add(m, y)
	}
	if op == "%" {
		return small(m)
	}
	return small(q)
}

// negative implements Python's unary -.
func (r *run) negative(v any) any {
	if f, ok := v.(float64); ok {
		return -f
	}
	return r.arithmetic("-", int64(0), v)
}

// times repeats a text or a list.
func (r *run) times(v any, n int) any {
	switch v := v.(type) {
	case string:
		return r.repeat(v, n)
	case markup:
		return markup(r.repeat(string(v), n))
	case *list:
		if v.view != "" {
			break
		}
		n = max(0, n)
		if len(v.items) > 0 {
			r.spend(min(n, maxBudget) * len(v.items))
		}
		if len(v.items) == 0 {
			n = 0
		}
		return &list{items: slices.Repeat(v.items, n), tuple: v.tuple}
	}
	r.fail("%s times a number, want a number, a string or a list", r.typed(v))
	return nil
}

func (r *run) repeat(s string, n int) string {
	if n <= 0 || s == "" {
		return ""
	}
	n = min(n, maxBudget)
	r.spend(n * (len(s)/16 + 1))
	return strings.Repeat(s, n)
}
