package convert

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// transposed returns the tensor of all experts that gpt-oss's folders have for a parameter of shape [E,out,in], or [E,out] for a
// bias. Rows of gate and up take turns in one tensor, which stands for both; it is gate's, so that ok is false for up.
//
//	gate_up_proj [E,H,2I], gate_up_proj_bias [E,2I], down_proj [E,I,H], down_proj_bias [E,H]
func (m matrices) transposed(shape []int) (_ tensor.Source, ok bool, err error) {
	before, part, _ := strings.Cut(m.p.Name, "experts.*.")
	part, kind, _ := strings.Cut(part, ".")
	turns := []matrices{m}
	switch part {
	case "up_proj":
		return tensor.Source{}, false, nil
	case "gate_proj":
		part = "gate_up_proj"
		up := before + "experts.*.up_proj." + kind
		i := slices.IndexFunc(m.j.params, func(p param) bool { return p.Name == up })
		if i < 0 {
			return tensor.Source{}, false, fmt.Errorf("%s: there is %s, and no %s", m.j.c.Path, m.p.Name, up)
		}
		other := m
		other.p, other.w = m.j.params[i].Param, m.j.params[i].w
		turns = append(turns, other)
	}
	name, t := before+"experts."+part, graph.T(m.want, shape[0], shape[1]*len(turns))
	if kind == "bias" {
		name += "_bias"
	} else {
		t.Shape = []int{shape[0], shape[2], shape[1] * len(turns)}
	}
	return tensor.Source{Name: name, Type: t, Write: func(w io.Writer) error { return inTurn(w, turns) }}, true, nil
}

// inTurn writes parameters of one shape expert by expert, each matrix transposed, their columns in turn.
func inTurn(w io.Writer, of []matrices) error {
	for e := range of[0].n {
		if err := of[0].j.ctx.Err(); err != nil {
			return err
		}
		var to []byte
		for i, m := range of {
			a, err := m.read(e, 0, m.rows)
			if err == nil {
				a, err = m.convert(a)
			}
			if err != nil {
				return fmt.Errorf("parameter %s: %w", m.p.Name, err)
			}
			from, size := a.Transposed().Bytes(), a.Type.DType.Size()
			if to == nil {
				to = make([]byte, len(from)*len(of))
			}
			for x := 0; x < len(from); x += size {
				copy(to[x*len(of)+i*size:], from[x:x+size])
			}
		}
		if _, err := w.Write(to); err != nil {
			return err
		}
		of[0].j.wrote(len(to))
	}
	for _, m := range of {
		m.done(m.n)
	}
	return nil
}
