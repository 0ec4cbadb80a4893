package safetensors

import "github.com/gomoe/gomoe/graph"

// dtype is an element type of the format.
type dtype struct {
	name string
	bits int         // per element
	d    graph.DType // NoDType if gomoe has no such type
}

func dtypes() []dtype {
	return []dtype{
		{"BOOL", 8, graph.Bool}, {"U8", 8, graph.U8}, {"I8", 8, graph.NoDType},
		{"F8_E4M3", 8, graph.F8_E4M3}, {"F8_E5M2", 8, graph.F8_E5M2}, {"F8_E8M0", 8, graph.NoDType},
		{"F4", 4, graph.NoDType}, {"F6_E2M3", 6, graph.NoDType}, {"F6_E3M2", 6, graph.NoDType},
		{"I16", 16, graph.NoDType}, {"U16", 16, graph.NoDType}, {"F16", 16, graph.F16}, {"BF16", 16, graph.BF16},
		{"I32", 32, graph.I32}, {"U32", 32, graph.U32}, {"F32", 32, graph.F32},
		{"I64", 64, graph.I64}, {"U64", 64, graph.NoDType}, {"F64", 64, graph.F64}, {"C64", 64, graph.NoDType},
	}
}

// byName returns the format's element type by name.
func byName(name string) (dtype, bool) {
	for _, t := range dtypes() {
		if t.name == name {
			return t, true
		}
	}
	return dtype{}, false
}

// TypeName returns the format's name for an element type of gomoe, or false if it has none.
func TypeName(d graph.DType) (string, bool) {
	for _, t := range dtypes() {
		if t.d == d && d != graph.NoDType {
			return t.name, true
		}
	}
	return "", false
}
