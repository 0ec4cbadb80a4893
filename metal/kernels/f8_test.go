package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomoe/gomoe/array"
)

// TestF8 compares conversions of every code, and of numbers around those that they make
// a code of, and what moves codes.
func TestF8(t *testing.T) {
	for _, d := range []string{"f8_e4m3", "f8_e5m2"} {
		for _, n := range []string{"[2,128]", "[256,3]"} {
			t.Run(d+n, func(t *testing.T) {
				p := &program{fill: func(name string, x array.Array, r *rand.Rand) {
					for i := range x.Bytes() {
						switch name {
						case "x":
							x.Bytes()[i] = byte(i)
						case "y":
							if i%4 == 0 {
								v := array.E5M2(r.IntN(256)).Float32() * (1 + float32(r.IntN(17)-8)/16)
								array.Data[float32](x)[i/4] = math.Float32frombits(math.Float32bits(v) + uint32(r.IntN(3)) - 1)
							}
						}
					}
				}}
				p.input("x", d+n)
				p.input("y", "f32"+n)
				p.input("i", "i32[7]")
				p.input("c", "bool"+n)
				for _, to := range []string{"f32", "bf16", "f16", "i32", "u32", "u8", "bool"} {
					p.eq("convert_element_type(x) dtype=%s", to)
				}
				z := p.eq("convert_element_type(y) dtype=%s", d)
				p.eq("select_n(c, x, %s)", z)
				p.eq("transpose(x) permutation=[1,0]")
				p.eq("gather(x, i) axis=1")
				p.eq("slice(x) start_indices=[1,1] limit_indices=[2,3]")
				p.eq("concatenate(x, %s) dimension=1", z)
				p.eq("rev(x) dimensions=[1]")
				p.eq("broadcast_in_dim(x) shape=%s dims=[1,2]", "[2,"+n[1:])
				around := p.fill
				p.fill = func(name string, x array.Array, r *rand.Rand) {
					around(name, x, r)
					if name == "i" {
						below(3)(name, x, r)
					}
				}
				p.options.Instructions = []string{"convert_element_type", "select_n", "transpose", "gather", "slice", "concatenate", "rev", "broadcast_in_dim"}
				p.check(t, false)
				p.options.Instructions = nil
				w := p.eq("exp(%s)", p.eq("convert_element_type(%s) dtype=f32", z))
				p.eq("neg(%s)", p.eq("convert_element_type(%s) dtype=f32", p.eq("convert_element_type(%s) dtype=%s", w, d)))
				p.check(t, true)
			})
		}
	}
}
