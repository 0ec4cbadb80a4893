package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ScanOp runs a program Length times. With Length 0 the first carried values are the last
// ones, and each result of an iteration is an array of 0 slices. Each iteration gets the
// values carried by the iteration before it, one slice of every array that is iterated
// over, and arrays that are the same in all iterations.
//
// Body's inputs are Consts constants, then Carry carried values, then the values of one
// iteration. Its results are the carried values of the next iteration, of the same types,
// and then the results of this iteration.
//
// The arguments are the constants, the first carried values, and the inputs of the
// iterations. An input is one array with a leading dimension of Length, with slice i for
// iteration i, or, if its number is in InTables, Length consecutive arrays. The results
// are the last carried values, and for each result of an iteration one array with a
// leading dimension of Length or, if its number is in OutTables, Length arrays.
type ScanOp struct {
	Length              int `graph:"written"` // even if 0: a text without it is an error
	Consts, Carry       int
	InTables, OutTables []int
	// Reverse runs the iterations from the last to the first. The slices and results
	// belonging to an iteration do not change.
	Reverse bool
	// Keep makes the derivative keep the values that it needs from every iteration.
	// Otherwise it keeps the carried values of every iteration and recomputes the body.
	Keep bool
	Body *Program
}

// Blocks marks ScanOp as a primitive that may take weights in blocks, which Body uses.
func (ScanOp) Blocks() {}

// Moves marks ScanOp as a primitive that may take and return 8-bit floats, which the body
// converts or moves.
func (ScanOp) Moves() {}

func (ScanOp) Name() string { return "scan" }

// mostInTables is the largest number of results in tables that a scan may have.
const mostInTables = 1 << 20

func (s ScanOp) Infer(in []Type) ([]Type, error) {
	switch {
	case s.Body == nil:
		return nil, errors.New("body is missing; write body=program name(inputs) { ... }")
	case s.Length < 0 || s.Length > math.MaxInt32:
		return nil, fmt.Errorf("length is %d, want 0 to %d", s.Length, math.MaxInt32)
	case s.Consts < 0 || s.Carry < 0 || s.Consts > len(s.Body.In) || s.Carry > min(len(s.Body.In)-s.Consts, len(s.Body.Out)):
		return nil, fmt.Errorf("consts is %d and carry is %d, but the body %s has %d inputs and %d results", s.Consts, s.Carry, s.Body.Name, len(s.Body.In), len(s.Body.Out))
	}
	each, made := s.Body.In[s.Consts+s.Carry:], s.Body.Out[s.Carry:]
	if err := numbersBelow(s.InTables, len(each)); err != nil {
		return nil, fmt.Errorf("in_tables: %w", err)
	}
	if err := numbersBelow(s.OutTables, len(made)); err != nil {
		return nil, fmt.Errorf("out_tables: %w", err)
	}
	if n := len(s.OutTables); n > 0 && s.Length > mostInTables/n {
		return nil, fmt.Errorf("%d tables of %d results, want at most %d results in tables", n, s.Length, mostInTables)
	}
	if got := len(in); got < s.Consts+s.Carry {
		return nil, fmt.Errorf("%d arguments, want %d constants and %d carried values first", got, s.Consts, s.Carry)
	}
	for i, v := range s.Body.In[:s.Consts+s.Carry] {
		what := "constant"
		if i >= s.Consts {
			what = "carried value"
		}
		if !in[i].Equal(v.Type) {
			return nil, fmt.Errorf("argument %d, a %s, is %s, but the body takes %s %s", i, what, in[i], v.Name, v.Type)
		}
	}
	for j, v := range s.Body.Out[:s.Carry] {
		if want := s.Body.In[s.Consts+j].Type; !v.Type.Equal(want) {
			return nil, fmt.Errorf("the body takes carried value %d as %s and carries it on as %s, want the same type", j, want, v.Type)
		}
	}
	at := s.Consts + s.Carry
	for j, v := range each {
		n, want := 1, stacked(s.Length, v.Type)
		if slices.Contains(s.InTables, j) {
			n, want = s.Length, v.Type
		}
		if n > len(in)-at {
			return nil, fmt.Errorf("%d arguments, want %d for input %s of an iteration, from argument %d on", len(in), n, v.Name, at)
		}
		for k, t := range in[at : at+n] {
			if !t.Equal(want) {
				return nil, fmt.Errorf("argument %d is %s, want %s: in each of the %d iterations the body takes %s %s of it", at+k, t, want, s.Length, v.Name, v.Type)
			}
		}
		at += n
	}
	if at != len(in) {
		return nil, fmt.Errorf("%d arguments, want %d", len(in), at)
	}
	out := slices.Clone(in[s.Consts : s.Consts+s.Carry])
	for j, v := range made {
		if !slices.Contains(s.OutTables, j) {
			out = append(out, stacked(s.Length, v.Type))
			continue
		}
		for range s.Length {
			out = append(out, v.Type)
		}
	}
	return out, nil
}

// numbersBelow returns an error unless list is in ascending order and holds numbers from
// 0 to n-1.
func numbersBelow(list []int, n int) error {
	last := -1
	for _, i := range list {
		if i <= last || i >= n {
			return fmt.Errorf("%v, want numbers below %d in ascending order", list, n)
		}
		last = i
	}
	return nil
}

func stacked(n int, t Type) Type {
	return Type{t.DType, append([]int{n}, t.Shape...)}
}

func (ScanOp) Doc() Doc {
	return Doc{Args: "constants, carried values, t[length,..] or length arrays t[..]",
		Results: "carried values, t[length,..] or length arrays t[..]",
		Formula: "carry, y[i] = body(constants, carry, x[i]) for i = 0 to length-1",
		Params: "length: the number of iterations, which is given even if it is 0; consts: how many of the body's inputs, the first ones, stay the same; carry: how many inputs behind these are carried; " +
			"in_tables: which inputs of an iteration are given as length arrays; out_tables: which results of an iteration are length arrays; " +
			"reverse: from the last iteration to the first; keep: the derivative keeps what it needs of every iteration; body: the program of one iteration",
		Notes: "Without keep the derivative keeps what was carried into every iteration and computes the body again. The leading dimension is whole on every rank; what is carried has one placement. With length 0 the carried values are returned as they are, and the other results have 0 slices."}
}

// ScanArgs divides the arguments of s, or a list with one entry for each of them, into
// the constants, the first carried values, and the inputs of an iteration. Each input has
// one entry, or Length if it is a table.
func ScanArgs[E any](s ScanOp, args []E) (consts, carry []E, each [][]E) {
	n := s.Consts + s.Carry
	return args[:s.Consts:s.Consts], args[s.Consts:n:n], divide(args[n:], len(s.Body.In)-n, s.Length, s.InTables)
}

// ScanResults divides the results of s, or a list with one entry for each of them, into
// the last carried values and the results of an iteration. Each result has one entry, or
// Length if it is a table.
func ScanResults[E any](s ScanOp, results []E) (carry []E, each [][]E) {
	return results[:s.Carry:s.Carry], divide(results[s.Carry:], len(s.Body.Out)-s.Carry, s.Length, s.OutTables)
}

func divide[E any](list []E, n, length int, tables []int) [][]E {
	each := make([][]E, n)
	for j := range each {
		k := 1
		if slices.Contains(tables, j) {
			k = length
		}
		each[j], list = list[:k:k], list[k:]
	}
	return each
}
