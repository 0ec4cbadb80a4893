package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/sharding"
)

// codes returns 8-bit floats of moderate size, with every sign.
func (s *inputs) codes(ty graph.Type) array.Array {
	a := array.New(ty)
	for i := range a.Bytes() {
		code := byte(s.r.IntN(256))
		if code&0x7f >= 0x60 {
			code = 0x35
		}
		a.Bytes()[i] = code
	}
	return a
}

// Products with scaled weights, of every type of rows, weights and scales, in both directions,
// with blocks that are not full, for few rows and many.
func TestScaledProducts(t *testing.T) {
	for i, c := range []struct {
		d, w, scales graph.DType
		m, n, k      int
	}{
		{graph.F32, graph.F8_E4M3, graph.F32, 1, 1, 1},
		{graph.F32, graph.F8_E5M2, graph.F32, 3, 127, 129},
		{graph.BF16, graph.F8_E4M3, graph.BF16, 40, 130, 260},
		{graph.F16, graph.F8_E5M2, graph.F16, 70, 257, 66},
		{graph.F32, graph.F8_E4M3, graph.BF16, 0, 8, 8},
		{graph.BF16, graph.F8_E4M3, graph.F32, 1, 144, 1296}, // one row, whole vectors, more than a simdgroup's units
		{graph.F32, graph.F8_E4M3, graph.BF16, 2, 272, 160},
		{graph.F16, graph.F8_E5M2, graph.F32, 4, 130, 131},
		{graph.F32, graph.F8_E4M3, graph.F32, 5, 33, 34},
	} {
		for _, transpose := range []bool{true, false} {
			deep := c.k
			if !transpose {
				deep = c.n
			}
			r := source()
			r.set["w"] = r.codes(graph.T(c.w, c.n, c.k))
			src := fmt.Sprintf("program p(x %s[%d,%d], w %s[%d,%d], s %s[%d,%d]) {\n\ty = scaled_matmul(x, w, s) transpose=%v\n\treturn y\n}",
				c.d, c.m, deep, c.w, c.n, c.k, c.scales, (c.n+127)/128, (c.k+127)/128, transpose)
			t.Run(fmt.Sprint(i, transpose), func(t *testing.T) { check(t, src, gomoe.Config{}, r, "scaled_matmul") })
		}
	}
}

// Products with MLX's weights, of 4 and of 8 bits and of groups of every size.
func TestAffineProducts(t *testing.T) {
	for i, c := range []struct {
		d, scales                graph.DType
		m, n, k, bits, groupSize int
	}{
		{graph.F32, graph.F32, 1, 3, 32, 4, 32},
		{graph.F32, graph.BF16, 5, 70, 128, 8, 64},
		{graph.BF16, graph.BF16, 40, 65, 256, 4, 128},
		{graph.F16, graph.F16, 70, 130, 64, 8, 32},
		{graph.F16, graph.F32, 2, 5, 192, 4, 64},
		{graph.BF16, graph.BF16, 1, 67, 1280, 4, 64}, // one row, more than a simdgroup's units
		{graph.F32, graph.F16, 4, 18, 1152, 8, 128},
		{graph.F16, graph.BF16, 3, 37, 96, 4, 32},
	} {
		for _, transpose := range []bool{true, false} {
			deep := c.k
			if !transpose {
				deep = c.n
			}
			src := fmt.Sprintf("program p(x %[1]s[%[2]d,%[3]d], w u32[%[4]d,%[5]d], s %[6]s[%[4]d,%[7]d], b %[6]s[%[4]d,%[7]d]) {\n\ty = affine_matmul(x, w, s, b) transpose=%[8]v bits=%[9]d group_size=%[10]d\n\treturn y\n}",
				c.d, c.m, deep, c.n, c.k*c.bits/32, c.scales, c.k/c.groupSize, transpose, c.bits, c.groupSize)
			t.Run(fmt.Sprint(i, transpose), func(t *testing.T) { check(t, src, gomoe.Config{}, source(), "affine_matmul") })
		}
	}
}

// Experts' rows, in zones with and without rows between them, times scaled and MLX's matrices,
// and times one matrix that all of them have; the cotangents, too.
func TestGroupedDecoded(t *testing.T) {
	for i, c := range []struct {
		experts
		route func(i int) int
		mesh  string
	}{
		{experts{d: graph.F32, tokens: 8, experts: 4, hidden: 32, width: 8, align: 1}, func(i int) int { return i*3%5 - 1 }, ""},
		{experts{d: graph.BF16, tokens: 2, experts: 4, hidden: 96, width: 131, align: 4}, func(i int) int { return i % 2 * 3 }, ""}, // few, with rows that are not in use
		{experts{d: graph.F16, tokens: 7, experts: 6, hidden: 160, width: 18, align: 1}, func(i int) int { return i % 4 }, "ep=2"},
		{experts{d: graph.BF16, tokens: 40, experts: 4, hidden: 160, width: 130, align: 24}, func(i int) int { return i % 3 }, ""},
		{experts{d: graph.F16, tokens: 140, experts: 2, hidden: 64, width: 70, align: 8}, func(i int) int { return 1 - i%2*2 }, ""},
		{experts{d: graph.F32, tokens: 40, experts: 40, hidden: 32, width: 12, align: 1}, func(i int) int { return i * 7 % 40 }, "ep=2"},
		{experts{d: graph.F32, tokens: 24, experts: 4, hidden: 64, width: 12, align: 8}, func(int) int { return 3 }, "dp=2,ep=2"},
	} {
		params := fmt.Sprintf("experts=%d align=%d", c.experts.experts, c.align)
		r := source()
		r.set["idx"] = c.experts.route(c.route)
		r.set["w"] = r.codes(graph.T(graph.F8_E4M3, c.experts.experts, c.width, c.hidden))
		r.set["v"] = r.codes(graph.T(graph.F8_E5M2, c.width, c.hidden))
		src := fmt.Sprintf(`program p(idx i32[%[2]d,2], x %[1]s[%[2]d,%[4]d], w f8_e4m3[%[3]d,%[5]d,%[4]d], s f32[%[3]d,%[6]d,%[7]d], v f8_e5m2[%[5]d,%[4]d], t f32[%[6]d,%[7]d], q u32[%[3]d,%[5]d,%[8]d], g f32[%[3]d,%[5]d,%[9]d], b f32[%[3]d,%[5]d,%[9]d]) {
	r, drop, n, pad, demand = ep_prepare(idx) %[10]s
	rows = ep_dispatch(x, r) %[10]s
	y = grouped_scaled_matmul(rows, w, r, s) transpose=true
	dy = grouped_scaled_matmul(y, w, r, s)
	z = scaled_matmul(rows, v, t) transpose=true
	u = grouped_affine_matmul(rows, q, r, g, b) transpose=true bits=4 group_size=32
	du = grouped_affine_matmul(u, q, r, g, b) bits=4 group_size=32
	c = ep_combine(dy, r) %[10]s
	d = ep_combine(z, r) %[10]s
	e = ep_combine(du, r) %[10]s
	return c, d, e
}`, c.d, c.tokens, c.experts.experts, c.hidden, c.width, (c.width+127)/128, (c.hidden+127)/128, c.hidden/8, c.hidden/32, params)
		cfg := c.config(t, c.mesh)
		if c.mesh != "" {
			delete(cfg.Place, "k")
			for _, name := range []string{"w", "s", "q", "g", "b"} {
				cfg.Place[name] = sharding.Split("ep")
			}
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			check(t, src, cfg, r, "grouped_scaled_matmul", "scaled_matmul", "grouped_affine_matmul")
		})
	}
}

// Infinities and NaNs of the codes are in the products of their own column only.
func TestScaledNotFinite(t *testing.T) {
	r := source()
	w := array.New(graph.T(graph.F8_E5M2, 4, 8))
	w.Bytes()[8], w.Bytes()[16], w.Bytes()[24] = 0x7c, 0xfc, 0x7d // +Inf, -Inf, NaN
	r.set["w"] = w
	r.set["x"] = array.New(graph.T(graph.F32, 1, 8))
	array.Data[float32](r.set["x"])[0] = float32(math.Pi)
	check(t, "program p(x f32[1,8], w f8_e5m2[4,8], s f32[1,1]) {\n\ty = scaled_matmul(x, w, s) transpose=true\n\treturn y\n}", gomoe.Config{}, r, "scaled_matmul")
}

// plainDecoded returns the element of a matrix of height·width elements by the formula of its layout, in
// float32, each operation rounded.
func plainDecoded(in map[string]array.Array, layout string, width, row, column int) float32 {
	s := in["s"].Float64s()
	switch layout {
	case "f8_e4m3":
		return array.E4M3(in["w"].Bytes()[row*width+column]).Float32() * float32(s[row/128*((width+127)/128)+column/128])
	case "f8_e5m2":
		return array.E5M2(in["w"].Bytes()[row*width+column]).Float32() * float32(s[row/128*((width+127)/128)+column/128])
	}
	bits := 8
	if layout == "4" {
		bits = 4
	}
	at := (row*width + column) * bits
	q := array.Data[uint32](in["w"])[at/32] >> (at % 32) & (1<<bits - 1)
	own := row*(width/64) + column/64
	scaled := float32(float32(q) * float32(s[own])) // not fused with the sum, on any processor
	return scaled + float32(in["b"].Float64s()[own])
}

// A row with a single 1 picks elements of the matrix out: from tiles and from vectors, with one row and
// with four, they are to the bit what the formula of their layout says.
func TestDecodedElements(t *testing.T) {
	const height, width = 150, 192
	for _, layout := range []string{"f8_e4m3", "f8_e5m2", "4", "8"} {
		for _, transpose := range []bool{true, false} {
			deep, cols := width, height
			if !transpose {
				deep, cols = height, width
			}
			functions := map[string]bool{}
			for _, rows := range []int{1, 4, 20} {
				r := source()
				name := "scaled_matmul"
				types := fmt.Sprintf("x f32[%d,%d], w %s[%d,%d], s f32[2,2]", rows, deep, layout, height, width)
				body := fmt.Sprintf("y = scaled_matmul(x, w, s) transpose=%v", transpose)
				if layout == "4" || layout == "8" {
					bits := int(layout[0] - '0')
					name = "affine_matmul"
					types = fmt.Sprintf("x f32[%d,%d], w u32[%d,%d], s f32[%[3]d,3], b f32[%[3]d,3]", rows, deep, height, width*bits/32)
					body = fmt.Sprintf("y = affine_matmul(x, w, s, b) transpose=%v bits=%d group_size=64", transpose, bits)
				} else {
					w := r.codes(graph.T(map[string]graph.DType{"f8_e4m3": graph.F8_E4M3, "f8_e5m2": graph.F8_E5M2}[layout], height, width))
					r.set["w"] = w
				}
				src := "program p(" + types + ") {\n" + body + "\nreturn y\n}"
				x := array.New(graph.T(graph.F32, rows, deep))
				for i := range rows {
					array.Data[float32](x)[i*deep+i*37%deep] = 1
				}
				r.set["x"] = x
				p, err := gomoe.Parse("t", src)
				require.NoError(t, err)
				in := r.of(t, p)
				if name == "affine_matmul" {
					for i := range array.Data[uint32](in["w"]) {
						array.Data[uint32](in["w"])[i] = r.r.Uint32()
					}
				}
				out, function := onDevice(t, src, name, in)
				functions[function] = true
				for i := range rows {
					for c := range cols {
						row, column := c, i*37%deep
						if !transpose {
							row, column = column, c
						}
						got, want := math.Float32frombits(binary.LittleEndian.Uint32(out[4*(i*cols+c):])), plainDecoded(in, layout, width, row, column)
						if got != want {
							t.Fatalf("%s, %s: row %d, column %d is %v, want %v", function, layout, i, c, got, want)
						}
					}
				}
			}
			require.Len(t, functions, 3, "%s, transpose %v: %v", layout, transpose, functions)
		}
	}
}
