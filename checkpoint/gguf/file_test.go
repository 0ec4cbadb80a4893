package gguf

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

func meta() []Meta {
	return []Meta{
		{"general.architecture", "olmoe"},
		{"a", uint8(1)}, {"b", int8(-2)}, {"c", uint16(3)}, {"d", int16(-4)}, {"e", uint32(5)}, {"f", int32(-6)}, {"g", uint64(7)}, {"h", int64(-8)},
		{"i", float32(0.5)}, {"j", 0.25}, {"k", true}, {"l", []string{"x", "", "é"}},
		{"m", []uint8{1}}, {"n", []int8{-2}}, {"o", []uint16{3}}, {"p", []int16{-4}}, {"q", []uint32{5}}, {"r", []int32{-6}}, {"s", []uint64{7}}, {"t", []int64{-8}},
		{"u", []float32{0.5, 1}}, {"v", []float64{}}, {"w", []bool{true, false}},
	}
}

func sources(t *testing.T) []tensor.Source {
	t.Helper()
	wide, err := array.Of([]float32{1, -2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	small, err := array.Of([]array.Half{7, 8, 9}, 3)
	require.NoError(t, err)
	blocks := array.New(graph.T(graph.Q4_K, 2, 256))
	for i := range blocks.Bytes() {
		blocks.Bytes()[i] = byte(i)
	}
	return []tensor.Source{tensor.Of("wide", wide), tensor.Of("small", small), tensor.Of("blocks", blocks), tensor.Of("none", array.New(graph.T(graph.F32, 0)))}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.gguf")
	require.NoError(t, Write(path, meta(), sources(t)))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, meta(), f.Meta)
	require.Equal(t, 3, f.Version)
	require.Len(t, f.Tensors, 4)
	for i, s := range sources(t) {
		var want bytes.Buffer
		require.NoError(t, s.Copy(&want))
		x := f.Tensors[i]
		a, err := x.Array()
		require.NoError(t, err)
		if x.Name != s.Name || !x.Type.Equal(s.Type) || !bytes.Equal(a.Bytes(), want.Bytes()) || x.Offset%alignment != 0 {
			t.Errorf("%s %s at %d: %v, want %s %s: %v", x.Name, x.Type, x.Offset, a.Bytes(), s.Name, s.Type, want.Bytes())
		}
	}
	for key, want := range map[string]int{"a": 1, "b": -2, "c": 3, "d": -4, "e": 5, "f": -6, "g": 7, "h": -8} {
		if n, ok := f.Int(key); n != want || !ok {
			t.Errorf("%s is %d %v, want %d", key, n, ok, want)
		}
	}
	for _, key := range []string{"i", "k", "l", "none"} {
		if _, ok := f.Int(key); ok {
			t.Errorf("%s is an integer", key)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.gguf")
	one := tensor.Of("a", array.New(graph.T(graph.F32, 1)))
	for _, c := range []struct {
		want    string
		meta    []Meta
		tensors []tensor.Source
	}{
		{`tensor "a": the name is used twice`, nil, []tensor.Source{one, one}},
		{`tensor "s": f32[] has 0 dimensions, want 1 to 4`, nil, []tensor.Source{tensor.Of("s", array.Scalar(float32(1)))}},
		{`tensor "u": the format has no element type u32`, nil, []tensor.Source{tensor.Of("u", array.New(graph.T(graph.U32, 1)))}},
		{`key "k": want it once`, []Meta{{"k", true}, {"k", true}}, nil},
		{`key "general.alignment": want it once, and "general.alignment" not at all`, []Meta{{alignmentKey, uint32(64)}}, nil},
		{`key "k": a value of Go type int, want a number`, []Meta{{"k", 1}}, nil},
	} {
		if err := Write(path, c.meta, c.tensors); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v\nwant %s", err, c.want)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is there")
	}
}

// raw is a file that a test writes byte by byte.
type raw []byte

func head(tensors, keys uint64) raw {
	b := binary.LittleEndian.AppendUint32(raw("GGUF"), 3)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, tensors), keys)
}

func (b raw) text(s string) raw { return appendText(b, s) }
func (b raw) u32(x uint32) raw  { return binary.LittleEndian.AppendUint32(b, x) }
func (b raw) u64(xs ...uint64) raw {
	for _, x := range xs {
		b = binary.LittleEndian.AppendUint64(b, x)
	}
	return b
}

// tensor appends a description.
func (b raw) tensor(name string, id uint32, offset uint64, dims ...uint64) raw {
	return b.text(name).u32(uint32(len(dims))).u64(dims...).u32(id).u64(offset)
}

// data appends n bytes at the next multiple of 32.
func (b raw) data(n int) raw {
	return append(b, make([]byte, int(up(int64(len(b)), 32))-len(b)+n)...)
}

func TestHostile(t *testing.T) {
	for _, c := range []struct {
		mem  raw
		want string
	}{
		{nil, "the file does not begin with GGUF; this is no GGUF file"},
		{raw("GGUF"), "version: 4 bytes at byte 4 of 4; the file is cut short"},
		{raw("GGUF").u32(1), "version 1, want 2 or 3"},
		{raw("GGUF").u32(0x03000000), "the file is big-endian"},
		{raw("GGUF").u32(3).u64(1), "numbers of tensors and keys: 8 bytes at byte 16 of 16; the file is cut short"},
		{head(0, 1<<63), "key 1 of 9223372036854775808: 8 bytes at byte 24 of 24; the file is cut short"},
		{head(0, 1).u64(1 << 62), "key 1 of 1: 4611686018427387904 bytes at byte 32 of 32; the file is cut short"},
		{head(0, 2).text("k").u32(kindBool).u32(1)[:40-2], `key 2 of 2`},
		{append(append(head(0, 2).text("k").u32(kindBool), 1).text("k").u32(kindBool), 1), `key "k" is there twice`},
		{append(head(0, 1).text("k").u32(kindBool), 2), `key "k": a bool of 2, want 0 or 1`},
		{head(0, 1).text("k").u32(13), `key "k": a value of kind 13, want 0 to 12`},
		{head(0, 1).text("k").u32(kindArray).u32(kindArray).u64(1), `key "k": an array of kind 9, want numbers, bools or strings`},
		{head(0, 1).text("k").u32(kindArray).u32(kindU32).u64(1 << 60), `key "k": an array of 1152921504606846976 numbers of 4 bytes, more than the file's 0 further bytes`},
		{head(0, 1).text("k").u32(kindArray).u32(kindString).u64(1 << 60), `key "k": an array of 1152921504606846976 strings, more than the file's 0 further bytes have`},
		{head(0, 1).text(alignmentKey).u32(kindU32).u32(24), `key "general.alignment": "24", want a power of two`},
		{head(0, 1).text(alignmentKey).u32(kindString).text("\x1b"), `key "general.alignment": "\x1b", want a power of two`},
		{head(1<<60, 0), "tensor 1 of 1152921504606846976: 8 bytes at byte 24 of 24; the file is cut short"},
		{head(1, 0).tensor("a", 0, 0), `tensor "a": 0 dimensions, want 1 to 4`},
		{head(1, 0).tensor("a", 0, 0, 1, 1, 1, 1, 1), `tensor "a": 5 dimensions, want 1 to 4`},
		{head(1, 0).tensor("a", 4, 0, 1).data(4), `tensor "a": element type 4 is unknown`},
		{head(1, 0).tensor("a", 0, 8, 1).data(12), `tensor "a": begins at byte 8, want a multiple of 32`},
		{head(1, 0).tensor("a", 0, 1<<63, 1).data(12), `tensor "a": begins at byte 9223372036854775808, which no file has`},
		{head(1, 0).tensor("a", 0, 0, 1<<32, 1<<32).data(12), `tensor "a": dimensions [4294967296 4294967296] have more elements than fit in 62 bits`},
		{head(1, 0).tensor("a", 0, 0, 1<<63).data(12), `tensor "a": dimensions [9223372036854775808] have more elements than fit in 62 bits`},
		{head(1, 0).tensor("a", 28, 0, 1<<60).data(12), `tensor "a": F64 of dimensions [1152921504606846976] has more bytes than fit in 62 bits`},
		{head(1, 0).tensor("a", 2, 0, 33, 32).data(12), `tensor "a": 33 columns of Q4_0, want a multiple of 32`},
		{head(1, 0).tensor("a", 0, 0, 4).data(12), `tensor "a": 16 bytes at byte 0 of 12; the file is cut short`},
		{head(2, 0).tensor("a", 0, 0, 1).tensor("a", 0, 32, 1).data(36), `tensor "a" is there twice`},
		{head(2, 0).tensor("a", 0, 0, 9).tensor("b", 0, 32, 1).data(36), `tensor "b": begins at byte 32, inside of tensor "a", which ends at 36`},
		{head(2, 0).tensor("a", 0, 0, 1).tensor("b", 0, 64, 1).data(68), `tensor "b": begins at byte 64, want 32: bytes before it belong to no tensor`},
		{head(1, 0).tensor("a", 0, 0, 1).data(33), `1 bytes behind the last tensor, want none`},
	} {
		path := filepath.Join(t.TempDir(), "a.gguf")
		require.NoError(t, os.WriteFile(path, c.mem, 0o666))
		f, err := Open(path)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), "gguf: "+path+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v\nwant %s", err, c.want)
		}
	}
}

// A model in several files opens by any of their names.
func TestSet(t *testing.T) {
	dir := t.TempDir()
	path := func(i int) string {
		return filepath.Join(dir, "m-0000"+string(rune('0'+i))+"-of-00003.gguf")
	}
	write := func(i, no, count int, tensors ...tensor.Source) {
		require.NoError(t, Write(path(i), []Meta{{splitKey, uint16(no)}, {countKey, uint16(count)}, {tensorsKey, int32(4)}}, tensors))
	}
	s := sources(t)
	good := func() {
		write(1, 0, 3, s[0])
		write(2, 1, 3, s[1:3]...)
		write(3, 2, 3, s[3])
	}
	good()
	for i := 1; i <= 3; i++ {
		files, err := OpenSet(path(i))
		require.NoError(t, err)
		require.Len(t, files, 3)
		require.Len(t, Tensors(files), 4)
		for _, f := range files {
			require.NoError(t, f.Close())
		}
	}
	for _, c := range []struct {
		spoil func()
		want  string
	}{
		{func() { write(2, 1, 3, s[0], s[1]) }, `tensor "wide" is in ` + path(1) + `, too`},
		{func() { write(2, 1, 3, s[1]) }, `3 tensors in 3 files, want 4, as its key "split.tensors.count" says`},
		{func() { write(2, 2, 3, s[1:3]...) }, path(2) + `: the file is number 3 of 3 by its keys, want 2 of 3`},
		{func() { write(1, 1, 3, s[0]) }, `the file is number 2 of 3 by its keys, want a name that ends with -00002-of-00003.gguf`},
		{func() { require.NoError(t, os.Remove(path(3))) }, `m-00003-of-00003.gguf: no such file`},
	} {
		good()
		c.spoil()
		if _, err := OpenSet(path(1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v\nwant %s", err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(head(2, 1).text("k").u32(kindArray).u32(kindString).u64(1).text("v").tensor("a", 0, 0, 1).tensor("b", 2, 32, 32).data(50)))
	f.Add([]byte(head(1, 1).text(alignmentKey).u32(kindU32).u32(8).tensor("a", 0, 0, 1, 0).data(0)))
	f.Add([]byte(head(1, 0).tensor("a", 0, 0, 0)))
	f.Fuzz(func(t *testing.T, mem []byte) {
		g, err := parse(mem, "x")
		if err != nil {
			return
		}
		at := int64(0)
		for _, x := range g.Tensors {
			if x.Offset < at {
				t.Fatalf("%s lies at %d, inside of the one before it", x.Name, x.Offset)
			}
			at = x.Offset + int64(len(x.Mem))
			if x.Type.DType != graph.NoDType && x.Type.Bytes() != int64(len(x.Mem)) {
				t.Fatalf("%s has %d bytes", x.Type, len(x.Mem))
			}
		}
		if len(g.Tensors) > 0 && at > int64(len(mem)) && len(g.Tensors[len(g.Tensors)-1].Mem) > 0 {
			t.Fatalf("byte %d of %d", at, len(mem))
		}
	})
}

// The file is one of llama.cpp's own library; testdata/make.py has written it.
func TestPython(t *testing.T) {
	f, err := Open("testdata/python.gguf")
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, []Meta{
		{"general.architecture", "olmoe"}, {"olmoe.block_count", uint32(2)}, {"olmoe.rope.freq_base", float32(10000.5)}, {"general.name", "été"},
		{"tokenizer.ggml.tokens", []string{"a", "b", "", "é"}}, {"tokenizer.ggml.scores", []float32{0.5, -1, 0, 2}},
		{"tokenizer.ggml.token_type", []int32{1, 2, 3, 4}}, {"olmoe.expert_weights_norm", true},
	}, f.Meta)
	var got []string
	for _, x := range f.Tensors {
		got = append(got, x.Name+" "+x.Stored)
		if x.Name == "f32" {
			a, err := x.Array()
			require.NoError(t, err)
			require.Equal(t, []int{3, 5}, x.Type.Shape)
			require.Equal(t, []float32{-4.5, -4.375, -4.25, -4.125, -4}, array.Data[float32](a)[5:10])
		} else if x.Name != "f16" {
			require.Equal(t, []int{2, 3, 64}, x.Type.Shape)
		}
	}
	require.Equal(t, []string{"f32 F32", "f16 F16", "q8_0 Q8_0", "q4_0 Q4_0", "bf16 BF16"}, got)
}
