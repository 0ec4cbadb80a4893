package convert

import (
	"fmt"
	"slices"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/models"
)

// transposed returns the tensor of all experts for a parameter in gpt-oss's layout. ok is false for up, which is
// stored in gate's tensor.
func (m matrices) transposed() (_ tensor.Source, ok bool) {
	return models.Transpose(m.p, m.want, func(name string, expert int) (array.Array, error) {
		if err := m.j.ctx.Err(); err != nil {
			return array.Array{}, err
		}
		of := m
		if i := slices.IndexFunc(m.j.params, func(p param) bool { return p.Name == name }); i < 0 {
			return array.Array{}, fmt.Errorf("%s: there is %s, and no %s", m.j.c.Path, m.p.Name, name)
		} else {
			of.p, of.w = m.j.params[i].Param, m.j.params[i].w
		}
		a, err := of.read(expert, 0, of.rows)
		if err == nil {
			a, err = of.convert(a)
		}
		if err != nil {
			return a, fmt.Errorf("parameter %s: %w", name, err)
		}
		m.j.wrote(len(a.Bytes()))
		of.done(expert + 1)
		return a, nil
	})
}
