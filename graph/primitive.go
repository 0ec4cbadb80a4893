package graph

import "fmt"

// Primitive is one operation. It is implemented by a small struct. The exported fields
// are the static parameters, in the order in which the text form prints them (see
// Params); unexported fields distinguish the members of a family and are not parameters.
// A name is a letter or _ followed by letters, digits or _. An exported field is an
// integer, a number, a boolean, a string, a DType, a *Program, or a slice of these, which
// the text form can hold. A field of another type is an error when the primitive is
// applied. A program omits fields that are zero. A field with the tag graph:"written" is
// always printed, and a text without it is an error. A field with the tag graph:"wire" is
// the element type in which ranks send values; Promote sets it to zero.
//
// Rules for differentiation, placement and lowering are further methods of the same
// struct, declared as interfaces by the packages calling them.
type Primitive interface {
	// Name returns the name that programs use, such as dot_general.
	Name() string
	// Infer returns the types of the results for arguments of the types in. The error
	// states the requirement and the remedy; the caller adds the source line, the name
	// and the argument types.
	Infer(in []Type) ([]Type, error)
}

// Blocks is implemented by primitives supporting element types in blocks: they multiply
// by weights, convert or move them, or keep caches. For all others, arguments and results
// in blocks are errors, whatever Infer returns.
type Blocks interface {
	Primitive
	Blocks()
}

// Moves is implemented by primitives supporting the 8-bit floats: they move or convert
// elements, or read them as weights with scales. For all others, arguments and results of
// these types are errors, whatever Infer returns.
type Moves interface {
	Primitive
	Moves()
}

// infer calls p.Infer, returning an error for types in blocks and 8-bit floats that p
// does not support, and for a primitive that the text form cannot hold.
func infer(p Primitive, in []Type) ([]Type, error) {
	if err := written(p); err != nil {
		return nil, err
	}
	_, blocks := p.(Blocks)
	_, moves := p.(Moves)
	for i, t := range in {
		if t.DType.IsF8() && !moves {
			return nil, fmt.Errorf("argument %d is %s, which is for storage and transport, not for calculation; convert it with convert_element_type dtype=f32", i, t)
		}
		if t.DType.IsBlock() && !blocks {
			return nil, fmt.Errorf("argument %d is %s, weights in blocks, which only matrix products take; convert it with convert_element_type dtype=f32", i, t)
		}
	}
	var out []Type
	err := Guard("Infer", func() (err error) {
		out, err = p.Infer(in)
		return err
	})
	for _, t := range out {
		if err == nil && t.DType.IsF8() && !moves {
			return nil, fmt.Errorf("the result would be %s, which is for storage and transport, not for calculation; make it f32 and convert it with convert_element_type dtype=%s", t, t.DType)
		}
		if err == nil && t.DType.IsBlock() && !blocks {
			return nil, fmt.Errorf("the result would be %s, weights in blocks; make it f32 and convert it with convert_element_type dtype=%s", t, t.DType)
		}
	}
	return out, err
}

// Doc describes a primitive to users. It is the source of the reference page.
type Doc struct {
	Args    string // argument types, such as "x f[..,D], gain f[D]"
	Results string // result types, such as "f[..,D]"
	Formula string // such as "y = x / sqrt(mean(x²) + eps) · gain"
	Params  string // one clause per parameter, "" for none
	Notes   string // answers to a reader's next questions, "" for none
}

// Documented is implemented by every primitive of the library.
type Documented interface {
	Doc() Doc
}
