package peft

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/quoted"
)

// Add moves the adapter of a matrix from Targets to the parameters listed by Changed. It is for matrices that the
// model does not use in a separate product.
func (a *Adapter) Add(matrix string) {
	if p, ok := a.found[matrix]; ok {
		a.added[matrix] = p
		delete(a.found, matrix)
		a.LoRA.Targets = slices.DeleteFunc(a.LoRA.Targets, func(t string) bool { return t == matrix })
	}
}

// Changed returns the sorted names of the model's parameters that the adapter modifies: saved parameters, embedding
// tables with adapters or with new rows, and matrices passed to Add.
func (a *Adapter) Changed() []string {
	names := map[string]bool{}
	for module := range a.added {
		names[module+".weight"] = true
	}
	for name := range a.whole {
		names[name] = true
	}
	for module := range a.tables {
		names[module+".weight"] = true
	}
	for name := range a.rows {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Apart reports whether PEFT modifies an embedding table without modifying a head that shares it. This is so for
// whole tables, but not for new rows of single tokens.
func (a *Adapter) Apart(name string) bool {
	_, whole := a.whole[name]
	_, table := a.tables[strings.TrimSuffix(name, ".weight")]
	return whole || table
}

// Change returns the new values f32 of a parameter listed by Changed: the saved values, or the model's values f32,
// returned by base, plus the adapter's product.
func (a *Adapter) Change(name string, shape []int, base func() (array.Array, error)) (x array.Array, err error) {
	get := func(t tensor.Tensor, want []int) (array.Array, error) {
		if !slices.Equal(t.Type.Shape, want) {
			return array.Array{}, fmt.Errorf("peft: %s: tensor %s has shape %v, want %v", a.path, quoted.Name(t.Name), t.Type.Shape, want)
		}
		x, err := t.Array()
		return x.As(graph.F32), err
	}
	if t, ok := a.whole[name]; ok {
		x, err = get(t, shape)
	} else {
		x, err = base()
	}
	if err != nil {
		return x, err
	}
	x = x.Clone()
	module := strings.TrimSuffix(name, ".weight")
	if len(shape) == 2 {
		outer, columns := a.tables[module], false
		if p, ok := a.added[module]; ok {
			outer, columns = p, true
		}
		if outer.rank > 0 {
			if err := a.product(x, outer, columns, get); err != nil {
				return x, err
			}
		}
	}
	if t, ok := a.rows[name]; ok {
		ids := a.config.tokens(module)
		if len(shape) != 2 {
			return x, fmt.Errorf("peft: %s: tensor %s has rows of a table, and %s has shape %v", a.path, quoted.Name(t.Name), name, shape)
		}
		rows, err := get(t, []int{len(ids), shape[1]})
		if err != nil {
			return x, err
		}
		for i, id := range ids {
			if id >= shape[0] {
				return x, fmt.Errorf("peft: %s: trainable_token_indices has %d, and %s has %d rows", a.path, id, name, shape[0])
			}
			copy(x.Rows(id, id+1).Bytes(), rows.Rows(i, i+1).Bytes())
		}
	}
	return x, nil
}

// product adds scale·B·A to x[out,in], or its transpose if the pair belongs to an embedding table.
func (a *Adapter) product(x array.Array, p pair, matrix bool, get func(tensor.Tensor, []int) (array.Array, error)) error {
	rows, columns := x.Type.Shape[0], x.Type.Shape[1]
	wantA, wantB := []int{p.rank, rows}, []int{columns, p.rank}
	if matrix {
		wantA, wantB = []int{p.rank, columns}, []int{rows, p.rank}
	}
	first, err := get(p.a, wantA)
	if err != nil {
		return err
	}
	second, err := get(p.b, wantB)
	if err != nil {
		return err
	}
	left, right := first.Transposed(), second // [rows,R] and [columns,R]
	if matrix {
		left, right = second, first.Transposed()
	}
	l, r, to := array.Data[float32](left), array.Data[float32](right), array.Data[float32](x)
	for i := range rows {
		for j := range columns {
			sum := 0.0
			for k := range p.rank {
				sum += float64(float64(l[i*p.rank+k]) * float64(r[j*p.rank+k]))
			}
			to[i*columns+j] = float32(float64(to[i*columns+j]) + float64(p.scale*sum))
		}
	}
	return nil
}
