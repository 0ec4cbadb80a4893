package graph

import "fmt"

// DType is the element type of a value. The zero DType means "none given".
type DType uint8

// The element types. BF16 and F16 are storage types: arithmetic on them runs
// in F32 and rounds once per primitive.
const (
	NoDType DType = iota
	Bool
	U8
	U32
	I32
	I64
	F16
	BF16
	F32
	F64
)

var dtypes = [...]struct {
	name string
	size int
}{
	NoDType: {"none", 0},
	Bool:    {"bool", 1},
	U8:      {"u8", 1},
	U32:     {"u32", 4},
	I32:     {"i32", 4},
	I64:     {"i64", 8},
	F16:     {"f16", 2},
	BF16:    {"bf16", 2},
	F32:     {"f32", 4},
	F64:     {"f64", 8},
}

// String returns the name that the text form uses: f32, bf16, i32, bool.
func (d DType) String() string {
	if int(d) < len(dtypes) {
		return dtypes[d].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// Size returns the bytes that one element takes.
func (d DType) Size() int {
	if int(d) < len(dtypes) {
		return dtypes[d].size
	}
	return 0
}

// IsFloat reports whether d is one of f16, bf16, f32 and f64: the types that
// have cotangents.
func (d DType) IsFloat() bool { return d >= F16 && d <= F64 }

// IsInt reports whether d is one of u8, u32, i32 and i64.
func (d DType) IsInt() bool { return d >= U8 && d <= I64 }

// ParseDType returns the element type of that name.
func ParseDType(name string) (DType, error) {
	for d := Bool; d <= F64; d++ {
		if dtypes[d].name == name {
			return d, nil
		}
	}
	return NoDType, fmt.Errorf("element type %q is unknown, want one of bool u8 u32 i32 i64 f16 bf16 f32 f64", name)
}
