package sharding

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/near"
)

// inputs returns the placement of every input of p, given placements by the names of
// inputs or by patterns of names (see Propagate).
func inputs(p *graph.Program, m Mesh, given map[string]Spec) (map[*graph.Value]Spec, error) {
	var patterns, names []string
	for _, v := range p.In {
		names = append(names, v.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case p.Input(name) != nil:
		case !strings.Contains(name, "*"):
			return nil, fmt.Errorf("sharding: program %s has no input %s to place%s; its inputs are %s", p.Name, name, near.Names(name, slices.Values(names)), inputNames(p))
		case !slices.ContainsFunc(p.In, func(v *graph.Value) bool { return matches(name, v.Name) }):
			return nil, fmt.Errorf("sharding: no input of program %s matches %s%s; its inputs are %s", p.Name, name, near.Names(name, slices.Values(names)), inputNames(p))
		default:
			patterns = append(patterns, name)
		}
	}
	out := make(map[*graph.Value]Spec, len(p.In))
	for _, v := range p.In {
		from := v.Name // the name or pattern that places v
		spec, literal := given[from]
		for _, pattern := range patterns {
			if literal || !matches(pattern, v.Name) {
				continue
			}
			if s := given[pattern]; from != v.Name && !s.Equal(spec) {
				return nil, fmt.Errorf("sharding: input %s: the pattern %s says %s and the pattern %s says %s; place %s by its name", v.Name, from, shown(spec), pattern, shown(s), v.Name)
			}
			from, spec = pattern, given[pattern]
		}
		if spec.Ragged != nil {
			return nil, fmt.Errorf("sharding: input %s: inputs are whole, split or pending, not ragged", v.Name)
		}
		if err := spec.named(); err != nil { // On would treat it as an axis of size 1
			return nil, fmt.Errorf("sharding: input %s: %w", v.Name, err)
		}
		s, err := spec.On(m).Check(m, v.Type)
		if wrong := spec.entries(v.Type); wrong != nil { // on any mesh, even without the axis
			err = wrong
		}
		if err != nil {
			return nil, fmt.Errorf("sharding: input %s: %w", v.Name, err)
		}
		out[v] = s
	}
	return out, nil
}

// shown prints a placement for an error.
func shown(s Spec) string {
	if text := s.String(); text != "" {
		return text
	}
	return "whole"
}

// matches reports whether a pattern, with * for any characters, matches all of name.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || last == 0 {
		return ok && rest == ""
	}
	for _, part := range parts[1:last] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}

func inputNames(p *graph.Program) string {
	const most = 20 // a model may have thousands
	var names []string
	for _, v := range p.In[:min(len(p.In), most)] {
		names = append(names, graph.Shown(v.Name))
	}
	text := strings.Join(names, ", ")
	if n := len(p.In) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

// On returns s without the axes missing in m: they count as axes of size 1, so that one
// set of placements serves every mesh.
func (s Spec) On(m Mesh) Spec {
	dims := make([][]string, len(s.Dims))
	for i, axes := range s.Dims {
		for _, a := range axes {
			if m.Size(a) > 0 {
				dims[i] = append(dims[i], a)
			}
		}
	}
	s.Dims = dims
	s.Pending = slices.DeleteFunc(slices.Clone(s.Pending), func(a string) bool { return m.Size(a) == 0 })
	return s
}

// Donate gives results the placement of the input that donates its memory to them. It
// takes the index of a result by the name of an input. Inputs and results that do not
// exist, and pairs differing in type, are left to lowering.Lower, which reports them.
func (a *Assignment) Donate(pairs map[string]int) error {
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		in, o := a.Program.Input(name), pairs[name]
		if in == nil || o < 0 || o >= len(a.Out) {
			continue
		}
		out := a.Program.Out[o]
		if !in.Type.Equal(out.Type) || a.Spec[out].Ragged != nil {
			continue
		}
		if a.flexible[out] {
			if err := a.want(a.Context(out.Def), out, a.Spec[in]); err != nil {
				return err
			}
		}
		a.Out[o] = a.Spec[in]
	}
	return nil
}
