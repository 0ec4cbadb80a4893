package jinja

import (
	"fmt"
	"slices"
	"strings"
)

func (p *parser) fors() stmt {
	names := p.targets()
	p.want("in")
	all := p.or() // a following if selects items
	var only expr
	if p.take("if") {
		only = p.expression()
	}
	recursive := p.take("recursive")
	p.close()
	p.loops++
	b, word := p.body("else", "endfor")
	p.loops--
	var otherwise stmt
	if word == "else" {
		p.close()
		otherwise, _ = p.body("endfor")
	}
	p.close()
	var turns func(r *run, s *scope, out *strings.Builder, v any, depth int) flow
	turns = func(r *run, s *scope, out *strings.Builder, v any, depth int) flow {
		items := r.each(v)
		if only != nil {
			items = slices.DeleteFunc(slices.Clone(items), func(x any) bool {
				in := inside(s)
				r.assign(in, names, x)
				return !truth(only(r, in))
			})
		}
		if len(items) == 0 && otherwise != nil {
			return otherwise(r, s, out)
		}
		l := &looping{items: items, depth: depth}
		if recursive {
			l.again = func(r *run, v any) any {
				var out strings.Builder
				turns(r, s, &out, v, depth+1)
				return out.String()
			}
		}
		for i, x := range items {
			r.spend(1)
			in := inside(s)
			l.at = i
			in.values["loop"] = l.object()
			r.assign(in, names, x)
			if b(r, in, out) == breakLoop {
				break
			}
		}
		return goOn
	}
	return func(r *run, s *scope, out *strings.Builder) flow { return turns(r, s, out, all(r, s), 1) }
}

// looping is the state of a loop, as seen by its body.
type looping struct {
	items   []any
	at      int
	depth   int // 1 unless the loop is a recursive call
	changed any // values of the last call of changed
	again   func(r *run, v any) any
}

// object returns the loop variable. It changes with the loop.
func (l *looping) object() *object {
	o := &object{attributes: l.attribute, text: func() string { return fmt.Sprintf("<LoopContext %d/%d>", l.at+1, len(l.items)) }}
	o.call = func(r *run, args []any, _ *Dict) any {
		if l.again == nil {
			r.fail("loop is called, and the loop is not recursive")
		}
		return l.again(r, r.argument(args, 0))
	}
	return o
}

func (l *looping) attribute(name string) any {
	i, n := int64(l.at), int64(len(l.items))
	switch name {
	case "index":
		return i + 1
	case "index0":
		return i
	case "revindex":
		return n - i
	case "revindex0":
		return n - i - 1
	case "first":
		return i == 0
	case "last":
		return i == n-1
	case "length":
		return n
	case "depth":
		return int64(l.depth)
	case "depth0":
		return int64(l.depth - 1)
	case "previtem":
		if i > 0 {
			return l.items[i-1]
		}
		return undefined{"there is no previous item"}
	case "nextitem":
		if i+1 < n {
			return l.items[i+1]
		}
		return undefined{"there is no next item"}
	case "cycle":
		return callable(func(r *run, args []any, _ *Dict) any {
			if len(args) == 0 {
				r.fail("cycle without values")
			}
			return args[l.at%len(args)]
		})
	case "changed":
		return callable(func(r *run, args []any, _ *Dict) any {
			now := tuple(args...)
			if l.changed != nil && r.equal(l.changed, now, 0) {
				return false
			}
			l.changed = now
			return true
		})
	}
	return nil
}
