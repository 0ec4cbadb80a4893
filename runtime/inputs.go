package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/lowering"
)

// Put splits a according to the plan's placement of the named input, and copies the parts
// to the local ranks. It reads only their parts of a. The memory of a may be a mapped
// file and may begin at any address. After Close it returns an error, as PutParts and
// Lend do.
func (s *Session) Put(name string, a array.Array) (*Array, error) {
	p, err := s.input(name)
	if err != nil {
		return nil, err
	}
	if !a.Type.Equal(p.Type) {
		return nil, fmt.Errorf("runtime: %s is %s, want %s", s.named(p), a.Type, p.Type)
	}
	if a.IsOutline() {
		return nil, fmt.Errorf("runtime: %s: the array is an outline, which has no memory; want one with elements", s.named(p))
	}
	return s.place(p, &Loan{Fill: copyFrom(a)})
}

// PutParts returns an array for the named input, with parts written by fill. It calls
// fill once for each distinct part of the ranks of this process, with memory for this
// part; fill writes all elements and does not keep the memory. ReadAt returns a fill
// reading a file. No rank needs the whole array, and fill is not called for parts without
// elements. All ranks holding the same part must be given the same elements.
func (s *Session) PutParts(name string, fill func(Part) error) (*Array, error) {
	p, err := s.input(name)
	if err != nil {
		return nil, err
	}
	if fill == nil {
		return nil, fmt.Errorf("runtime: put %s: the function that fills parts is nil", s.named(p))
	}
	return s.place(p, &Loan{Fill: fill})
}

// place returns the array of an input, in memory of the session except for lent parts;
// see put.
func (s *Session) place(p lowering.Port, l *Loan) (*Array, error) {
	a, err := put(p.Type, s.plan.Mesh, p.Spec, s.local, func(i int, t graph.Type) (piece, error) { return s.ranks[i].spare.array(t) }, l)
	if err != nil {
		return nil, fmt.Errorf("runtime: put %s: %w", s.named(p), err)
	}
	a.of = s.plan.Name
	return a, nil
}

// accepts returns an error if a cannot be the input p of a step.
func (s *Session) accepts(p lowering.Port, a *Array) error {
	switch {
	case a == nil:
		return fmt.Errorf("runtime: input %s %s of %s is not given", p.Name, p.Type, s.plan.Name)
	case a.spent != "":
		return fmt.Errorf("runtime: %s: the array's memory was %s", s.named(p), a.spent)
	case !a.Type.Equal(p.Type):
		return fmt.Errorf("runtime: %s is %s, want %s", s.named(p), a.Spec.Format(a.Type), p.Spec.Format(p.Type))
	case !s.holds(a):
		return fmt.Errorf("runtime: %s: %w", s.named(p), s.elsewhere(a))
	case !a.Spec.Equal(p.Spec):
		return fmt.Errorf("runtime: %s is %s, want %s; Session.Reshard moves it", s.named(p), a.Spec.Format(a.Type), p.Spec.Format(p.Type))
	case a.loan != nil && !s.slabs[s.inputs[p.Name]] && slices.ContainsFunc(a.parts, func(x piece) bool { return x.HasSlabs() }):
		return fmt.Errorf("runtime: %s: the array was lent in slabs, and this plan reads it in one piece; lend it by a session of this plan", s.named(p))
	}
	return nil
}

// holds reports whether a lies on the session's ranks, with the placement of its mesh.
func (s *Session) holds(a *Array) bool {
	return slices.Equal(a.ranks, s.local) && s.plan.Mesh.PlacesAlike(a.mesh, a.Spec, a.Type)
}

// elsewhere returns an error with the array's ranks, the wanted ranks, and the remedy.
func (s *Session) elsewhere(a *Array) error {
	maker := "runtime.Put"
	if a.of != "" {
		maker = "the job of " + a.of
	}
	return fmt.Errorf("the array is of %s and lies on ranks %v of the mesh %q, want ranks %v of the mesh %q, on which %s runs; Session.Reshard moves it", maker, a.ranks, a.mesh, s.local, s.plan.Mesh, s.plan.Name)
}

// named names an input of the plan.
func (s *Session) named(p lowering.Port) string {
	return fmt.Sprintf("input %s of %s", p.Name, s.plan.Name)
}

// input returns the input with the given name, and an error if there is none or if the
// session is closed.
func (s *Session) input(name string) (lowering.Port, error) {
	if err := s.open(); err != nil {
		return lowering.Port{}, err
	}
	if i, ok := s.inputs[name]; ok {
		return s.plan.In[i], nil
	}
	var names []string
	for _, p := range s.plan.In {
		names = append(names, p.Name)
	}
	return lowering.Port{}, fmt.Errorf("runtime: %s has no input %q; its inputs are %s", s.plan.Name, name, strings.Join(names, ", "))
}
