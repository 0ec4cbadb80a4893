package jinja

import "fmt"

// globalNamed returns a global function or value of templates.
func globalNamed(name string) (any, bool) {
	switch name {
	case "range":
		return callable(rangeFunction), true
	case "namespace", "dict":
		make := func(r *run, args []any, named *Dict) any {
			d := NewDict()
			if len(args) > 0 {
				r.fillDict(d, args[0])
			}
			d.Update(named)
			if d.space = name == "namespace"; d.space {
				for _, k := range d.keys {
					r.private(r.show(k))
				}
			}
			return d
		}
		if name == "namespace" {
			return callable(make), true
		}
		return &object{call: make, attributes: func(name string) any {
			if name == "fromkeys" {
				return callable(fromKeys)
			}
			return nil
		}}, true
	case "raise_exception":
		return callable(func(r *run, args []any, _ *Dict) any {
			r.fail("%s", r.show(r.argument(args, 0)))
			return nil
		}), true
	case "lipsum":
		return callable(func(r *run, _ []any, _ *Dict) any {
			r.fail("lipsum writes random text, which a prompt cannot have")
			return nil
		}), true
	case "strftime_now":
		return callable(func(r *run, args []any, _ *Dict) any { return r.date(r.str(r.argument(args, 0))) }), true
	case "joiner":
		return callable(func(r *run, args []any, named *Dict) any {
			sep, used := option(args, 0, named, "sep", ", "), false
			return &object{attributes: func(string) any { return nil }, call: func(*run, []any, *Dict) any {
				if !used {
					used = true
					return ""
				}
				return sep
			}}
		}), true
	case "cycler":
		return callable(func(r *run, args []any, _ *Dict) any {
			if len(args) == 0 {
				r.fail("cycler without values")
			}
			at := 0
			return &object{attributes: func(name string) any {
				switch name {
				case "current":
					return args[at]
				case "next":
					return callable(func(*run, []any, *Dict) any {
						v := args[at]
						at = (at + 1) % len(args)
						return v
					})
				case "reset":
					return callable(func(*run, []any, *Dict) any {
						at = 0
						return nil
					})
				}
				return nil
			}}
		}), true
	}
	return nil, false
}

// fillDict adds the pairs accepted by Python's dict: a dictionary, or a list of pairs.
func (r *run) fillDict(d *Dict, from any) {
	if o, ok := from.(*Dict); ok {
		r.spend(len(o.keys))
		d.Update(o)
		return
	}
	for _, x := range r.each(from) {
		pair, ok := x.(*list)
		if !ok || len(pair.items) != 2 {
			r.fail("a dictionary of %s, want a dictionary or pairs", r.typed(from))
		}
		d.put(pair.items[0], r.key(pair.items[0]), pair.items[1])
	}
}

func rangeFunction(r *run, args []any, _ *Dict) any {
	at := []int64{0, 0, 1}
	for i := range args {
		n, ok := integer(args[i])
		if !ok || i > 2 {
			r.fail("range: want one to three numbers")
		}
		if !n.IsInt64() {
			r.fail("range: a number beyond 2^63")
		}
		at[i] = n.Int64()
	}
	if len(args) == 1 {
		at[0], at[1] = 0, at[0]
	}
	if at[2] == 0 || len(args) == 0 {
		r.fail("range: want a start, an end and a step that is not 0")
	}
	out := &list{view: fmt.Sprintf("range(%d, %d)", at[0], at[1])}
	if at[2] != 1 {
		out.view = fmt.Sprintf("range(%d, %d, %d)", at[0], at[1], at[2])
	}
	for i := at[0]; at[2] > 0 && i < at[1] || at[2] < 0 && i > at[1]; {
		r.spend(4)
		out.items = append(out.items, i)
		next := i + at[2]
		if at[2] > 0 != (next > i) { // beyond 2^63
			break
		}
		i = next
	}
	return out
}
