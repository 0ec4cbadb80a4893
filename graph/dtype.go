package graph

import (
	"fmt"
	"math"
	"strings"

	"github.com/gomoe/gomoe/internal/quoted"
)

// DType is the element type of a value. The zero DType means "none given".
type DType uint8

// The element types. BF16 and F16 are storage types: arithmetic on them runs in F32 and
// rounds once per primitive. F8_E4M3 and F8_E5M2 are the 8-bit floats of the Open Compute
// Project (OFP8, revision 1.0): primitives move and convert them, and do not compute with
// them.
const (
	NoDType DType = iota
	Bool
	U8
	U32
	I32
	I64
	F8_E4M3
	F8_E5M2
	F16
	BF16
	F32
	F64

	// Weights in blocks, as in GGUF files; package quant has their layouts. Blocks lie
	// along the last dimension, and its size is a multiple of the block's.
	Q8_0
	Q4_K
	Q6_K
	Q2_K
	IQ2_XXS
	MXFP4
	Q4_0
	Q4_1
	Q5_0
	Q5_1
	Q3_K
	Q5_K
	IQ3_XXS
	IQ4_NL
	IQ4_XS
)

var dtypes = [...]struct {
	name  string
	size  int // bytes of an element, or of a block
	block int // elements of a block, 0 for types without blocks
}{
	NoDType: {"none", 0, 0},
	Bool:    {"bool", 1, 0},
	U8:      {"u8", 1, 0},
	U32:     {"u32", 4, 0},
	I32:     {"i32", 4, 0},
	I64:     {"i64", 8, 0},
	F8_E4M3: {"f8_e4m3", 1, 0},
	F8_E5M2: {"f8_e5m2", 1, 0},
	F16:     {"f16", 2, 0},
	BF16:    {"bf16", 2, 0},
	F32:     {"f32", 4, 0},
	F64:     {"f64", 8, 0},
	Q8_0:    {"q8_0", 34, 32},
	Q4_K:    {"q4_k", 144, 256},
	Q6_K:    {"q6_k", 210, 256},
	Q2_K:    {"q2_k", 84, 256},
	IQ2_XXS: {"iq2_xxs", 66, 256},
	MXFP4:   {"mxfp4", 17, 32},
	Q4_0:    {"q4_0", 18, 32},
	Q4_1:    {"q4_1", 20, 32},
	Q5_0:    {"q5_0", 22, 32},
	Q5_1:    {"q5_1", 24, 32},
	Q3_K:    {"q3_k", 110, 256},
	Q5_K:    {"q5_k", 176, 256},
	IQ3_XXS: {"iq3_xxs", 98, 256},
	IQ4_NL:  {"iq4_nl", 18, 32},
	IQ4_XS:  {"iq4_xs", 136, 256},
}

// String returns the name that the text form uses: f32, bf16, i32, bool.
func (d DType) String() string {
	if int(d) < len(dtypes) {
		return dtypes[d].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// MarshalText returns the name.
func (d DType) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a name.
func (d *DType) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDType(string(text))
	return err
}

// Size returns the bytes that one element takes. It is 0 for types in blocks, because
// their elements have no memory of their own.
func (d DType) Size() int {
	if int(d) < len(dtypes) && dtypes[d].block == 0 {
		return dtypes[d].size
	}
	return 0
}

// IsBlock reports whether d stores elements in blocks along the last dimension.
func (d DType) IsBlock() bool { return int(d) < len(dtypes) && dtypes[d].block > 0 }

// Block returns the number of elements stored together and their size in bytes: 1 and
// Size for types without blocks.
func (d DType) Block() (elements, bytes int) {
	if d.IsBlock() {
		return dtypes[d].block, dtypes[d].size
	}
	return 1, d.Size()
}

// IsFloat reports whether d is one of f16, bf16, f32 and f64: the float types used in
// computations.
func (d DType) IsFloat() bool { return d >= F16 && d <= F64 }

// IsF8 reports whether d is f8_e4m3 or f8_e5m2.
func (d DType) IsF8() bool { return d == F8_E4M3 || d == F8_E5M2 }

// Cotangent returns the element type of the cotangent of a value of type d: d itself for
// the types reported by IsFloat, F32 for the 8-bit floats, which have too little range
// and precision for gradients, and NoDType for types without cotangents.
func (d DType) Cotangent() DType {
	switch {
	case d.IsFloat():
		return d
	case d.IsF8():
		return F32
	}
	return NoDType
}

// IsInt reports whether d is one of u8, u32, i32 and i64.
func (d DType) IsInt() bool { return d >= U8 && d <= I64 }

// has reports whether an integer or bool element type has the number x. Others round it.
func (d DType) has(x float64) bool {
	lo, hi := 0.0, 1.0
	switch d {
	case Bool:
	case U8:
		hi = math.MaxUint8
	case U32:
		hi = math.MaxUint32
	case I32:
		lo, hi = math.MinInt32, math.MaxInt32
	case I64:
		lo, hi = math.MinInt64, math.MaxInt64 // as a float64, 1 more
	default:
		return true
	}
	return x == math.Trunc(x) && lo <= x && x <= hi
}

// ParseDType returns the element type with the given name, as printed by String.
func ParseDType(name string) (DType, error) {
	for d := Bool; int(d) < len(dtypes); d++ {
		if dtypes[d].name == name {
			return d, nil
		}
	}
	var plain, blocks []string
	for d := Bool; d < DType(len(dtypes)); d++ {
		if d.IsBlock() {
			blocks = append(blocks, d.String())
		} else {
			plain = append(plain, d.String())
		}
	}
	return NoDType, fmt.Errorf("element type %s is unknown, want one of %s, or for weights %s", quoted.Name(name), strings.Join(plain, " "), strings.Join(blocks, " "))
}
