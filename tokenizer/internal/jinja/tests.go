package jinja

import "strings"

// testNamed returns a test, as used after "is".
func testNamed(name string) (func(r *run, v any, args []any) bool, bool) {
	kind := func(f func(v any) bool) (func(*run, any, []any) bool, bool) {
		return func(_ *run, v any, _ []any) bool { return f(v) }, true
	}
	with := func(op string) (func(*run, any, []any) bool, bool) {
		return func(r *run, v any, args []any) bool { return r.compare(op, v, r.argument(args, 0)) }, true
	}
	switch name {
	case "defined":
		return kind(func(v any) bool { _, no := v.(undefined); return !no })
	case "undefined":
		return kind(func(v any) bool { _, yes := v.(undefined); return yes })
	case "none":
		return kind(func(v any) bool { return v == nil })
	case "boolean":
		return kind(func(v any) bool { _, yes := v.(bool); return yes })
	case "true":
		return kind(func(v any) bool { return v == true })
	case "false":
		return kind(func(v any) bool { return v == false })
	case "string":
		return kind(isText)
	case "integer":
		return kind(func(v any) bool {
			_, isBool := v.(bool)
			_, yes := integer(v)
			return yes && !isBool
		})
	case "float":
		return kind(func(v any) bool { _, yes := v.(float64); return yes })
	case "number":
		return kind(isNumber)
	case "mapping":
		return kind(func(v any) bool { d, yes := v.(*Dict); return yes && !d.space })
	case "callable":
		return kind(func(v any) bool {
			switch v := v.(type) {
			case callable:
				return true
			case *object:
				return v.call != nil
			case undefined: // calling it is an error
				return true
			}
			return false
		})
	case "escaped":
		return kind(func(v any) bool { _, yes := v.(markup); return yes })
	case "iterable":
		return kind(func(v any) bool {
			switch v := v.(type) {
			case string, markup, *list, undefined:
				return true
			case *Dict:
				return !v.space
			}
			return false
		})
	case "sequence":
		return kind(func(v any) bool {
			switch v := v.(type) {
			case string, markup, undefined:
				return true
			case *Dict:
				return !v.space
			case *list:
				return v.view == "" || strings.HasPrefix(v.view, "range")
			}
			return false
		})
	case "lower", "upper":
		return func(r *run, v any, _ []any) bool {
			if name == "lower" {
				return oneCase(r.show(v), isLower)
			}
			return oneCase(r.show(v), isUpper)
		}, true
	case "odd", "even":
		return func(r *run, v any, _ []any) bool {
			return r.equal(r.arithmetic("%", v, int64(2)), int64(boolInt(name == "odd")), 0)
		}, true
	case "divisibleby":
		return func(r *run, v any, args []any) bool {
			return r.equal(r.arithmetic("%", v, r.argument(args, 0)), int64(0), 0)
		}, true
	case "sameas":
		return func(r *run, v any, args []any) bool { return r.same(v, r.argument(args, 0)) }, true
	case "filter":
		return func(r *run, v any, _ []any) bool { _, ok := filterNamed(r.show(v)); return ok }, true
	case "test":
		return func(r *run, v any, _ []any) bool { _, ok := testNamed(r.show(v)); return ok }, true
	case "equalto", "eq", "==":
		return with("==")
	case "ne", "!=":
		return with("!=")
	case "lt", "lessthan", "<":
		return with("<")
	case "le", "<=":
		return with("<=")
	case "gt", "greaterthan", ">":
		return with(">")
	case "ge", ">=":
		return with(">=")
	case "in":
		return with("in")
	}
	return nil, false
}

// same implements Python's is. Equal numbers and strings count as identical.
func (r *run) same(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case float64:
		b, ok := b.(float64)
		return ok && a == b
	case *list:
		b, ok := b.(*list)
		return ok && a == b
	case *Dict:
		b, ok := b.(*Dict)
		return ok && a == b
	}
	switch b.(type) {
	case bool, float64:
		return false
	}
	return r.equal(a, b, 0)
}
