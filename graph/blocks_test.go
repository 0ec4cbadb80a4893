package graph

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestBlockTypes(t *testing.T) {
	for d, want := range map[DType][2]int{Q8_0: {32, 34}, Q4_K: {256, 144}, Q6_K: {256, 210}, Q2_K: {256, 84}, IQ2_XXS: {256, 66}, MXFP4: {32, 17},
		Q4_0: {32, 18}, Q4_1: {32, 20}, Q5_0: {32, 22}, Q5_1: {32, 24}, Q3_K: {256, 110}, Q5_K: {256, 176}, IQ3_XXS: {256, 98}, IQ4_NL: {32, 18}, IQ4_XS: {256, 136}} {
		n, size := d.Block()
		if n != want[0] || size != want[1] || !d.IsBlock() || d.Size() != 0 || d.IsFloat() || d.IsInt() {
			t.Errorf("%s: blocks of %d elements in %d bytes, want %v; element size %d", d, n, size, want, d.Size())
		}
		if got, err := ParseDType(d.String()); got != d || err != nil {
			t.Errorf("%s is read as %s, %v", d, got, err)
		}
		x := T(d, 3, 2, 4*n)
		if got := x.Bytes(); got != int64(24*size) {
			t.Errorf("%s has %d bytes, want %d", x, got, 24*size)
		}
		if shape, bytes := x.Units(); !slices.Equal(shape, []int{3, 2, 4}) || bytes != size {
			t.Errorf("%s has units %v of %d bytes", x, shape, bytes)
		}
		for _, c := range []struct {
			typ  Type
			want string
		}{
			{x, ""}, {T(d, 0), ""}, {T(d, 3, 0), ""}, {T(d, n), ""},
			{T(d), "is a scalar"}, {T(d, n-1), "want a multiple of"}, {T(d, n, 5), "want a multiple of"}, {T(d, -n), "sizes are 0 or more"},
			{T(d, math.MaxInt/n, n), "more bytes than fit in 63 bits"},
		} {
			if err := c.typ.Check(); err == nil != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.typ, err, c.want)
			}
		}
	}
	if n, size := F32.Block(); n != 1 || size != 4 || F32.IsBlock() {
		t.Errorf("f32 has blocks of %d elements in %d bytes", n, size)
	}
	if shape, bytes := T(BF16, 2, 3).Units(); !slices.Equal(shape, []int{2, 3}) || bytes != 2 {
		t.Errorf("bf16[2,3] has units %v of %d bytes", shape, bytes)
	}
	if err := T(IQ4_XS+1, 2).Check(); err == nil {
		t.Error("a number behind the last element type is none")
	}
}
