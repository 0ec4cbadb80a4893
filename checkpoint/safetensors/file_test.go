package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
)

// file returns the bytes of a file with that header, and n bytes behind it.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func open(t *testing.T, mem []byte) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.safetensors")
	require.NoError(t, os.WriteFile(path, mem, 0o666))
	f, err := Open(path)
	if err == nil {
		t.Cleanup(func() { f.Close() })
	} else if !strings.HasPrefix(err.Error(), "safetensors: "+path+": ") {
		t.Errorf("%v: want the file's name", err)
	}
	return f, err
}

func TestHostile(t *testing.T) {
	const a = `"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	long := file(`{`+a+`}`, 8)
	binary.LittleEndian.PutUint64(long, 1<<40)
	for _, c := range []struct {
		mem  []byte
		want string
	}{
		{nil, "0 bytes, want at least 8, which are the length of the header; the file is cut short, or no safetensors file"},
		{long, "a header of 1099511627776 bytes, want at most 100000000; this is no safetensors file"},
		{file(`{`+a+`}`, 8)[:20], "a header of 54 bytes in a file of 20, want at most 12; the file is cut short"},
		{file(``, 8), "the header does not begin with {"},
		{file(` {}`, 0), "the header does not begin with {"},
		{file(`{`+a+`}`, 7), `tensor "a": ends at byte 8 of 7; the file is cut short`},
		{file(`{`+a+`}`, 9), "1 bytes behind the last tensor, want none"},
		{file(`{`+a, 8), "header: ends in the middle; is it complete?"},
		{file(`{`+a+`} {}`, 8), "header: column 56: invalid character '{' after top-level value"},
		{file("{\"\xff\":1}", 8), "header: column 3: not UTF-8"},
		{file(`{`+a+`,`+a+`}`, 8), `header: column 55: "a" is there twice in one object`},
		{file(`{`+a+`,"b":{"dtype":"U8","shape":[2],"data_offsets":[7,9]}}`, 9), `tensor "b": begins at byte 7, inside of tensor "a", which ends at 8`},
		{file(`{`+a+`,"b":{"dtype":"U8","shape":[2],"data_offsets":[9,11]}}`, 11), `tensor "b": begins at byte 9, want 8: bytes before it belong to no tensor`},
		{file(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), `tensor "a": 8 bytes for F32[3], want 12`},
		{file(`{"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}}`, 8), `tensor "a": element type "F33" is unknown, want one of BOOL, U8`},
		{file(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}`, 1), `tensor "a": F4[3] has 12 bits, want whole bytes`},
		{file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`, 8), `tensor "a": F32[4294967296 4294967296] has more bits than fit in 63 bits`},
		{file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}}`, 8), `tensor "a": shape: [-1], want integers of at least 0`},
		{file(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,8]}}`, 8), `tensor "a": shape: 0: number 1.5, want an integer of 64 bits`},
		{file(`{"a":{"dtype":"F32","shape":[null],"data_offsets":[0,8]}}`, 8), `tensor "a": shape: 0: null, want an integer of 64 bits`},
		{file(`{"a":{"dtype":"F32","shape":["2"],"data_offsets":[0,8]}}`, 8), `tensor "a": shape: 0: string, want an integer of 64 bits`},
		{file(`{"a":{"dtype":"F32","shape":[`+strings.Repeat("1,", 64)+`1],"data_offsets":[0,8]}}`, 8), `tensor "a": shape: more than 64 numbers`},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8), `tensor "a": data_offsets: [8 0], want where the tensor begins and where it ends`},
		{file(`{"a":{"dtype":"F32","shape":[2]}}`, 8), `tensor "a": data_offsets is missing`},
		{file(`{"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), `header: column 21: "dtype" is there twice in one object`},
		{file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"crc":1}}`, 8), `tensor "a": unknown field "crc"`},
		{file(`{"a":["\u001b[2J"]}`, 8), `header: tensor "a": array, want an object`},
		{file(`{"a":{"dtype":"F32","shape":"\u001b[2J","data_offsets":[0,8]}}`, 8), `tensor "a": shape: string, want a list`},
		{file(`{"__metadata__":{"k":"1","k":"2"}}`, 0), `column 26: "k" is there twice in one object`},
		{file(`{"__metadata__":{"k":1}}`, 0), `metadata: k: number, want a text`},
	} {
		_, err := open(t, c.mem)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v\nwant %s", err, c.want)
		}
	}
}

func TestOpenNoFile(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "this is a folder, want a file") {
		t.Errorf("error %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !os.IsNotExist(unwrap(err)) {
		t.Errorf("error %v", err)
	}
}

func unwrap(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
}

func sources(t *testing.T) []tensor.Source {
	t.Helper()
	small, err := array.Of([]uint8{1, 2, 3}, 3)
	require.NoError(t, err)
	half, err := array.Of([]array.Brain{7, 8, 9}, 3, 1)
	require.NoError(t, err)
	wide, err := array.Of([]float32{1, -2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, err)
	return []tensor.Source{tensor.Of("small", small), tensor.Of("half", half), tensor.Of("none", array.New(graph.T(graph.F64, 0, 2))), tensor.Of("wide", wide), tensor.Of("one", array.Scalar(int64(-5)))}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	require.NoError(t, Write(path, map[string]string{"format": "pt", "a\"b": "é"}, sources(t)))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, map[string]string{"format": "pt", "a\"b": "é"}, f.Metadata)
	var names []string
	for _, x := range f.Tensors {
		names = append(names, x.Name+" "+x.Type.String())
		if size := int64(x.Type.DType.Size()); x.Offset%size != 0 {
			t.Errorf("%s lies at %d, want a multiple of %d", x.Name, x.Offset, size)
		}
		i := slices.IndexFunc(sources(t), func(s tensor.Source) bool { return s.Name == x.Name })
		var want bytes.Buffer
		require.NoError(t, sources(t)[i].Copy(&want))
		a, err := x.Array()
		require.NoError(t, err)
		if !bytes.Equal(a.Bytes(), want.Bytes()) {
			t.Errorf("%s has bytes %v, want %v", x.Name, a.Bytes(), want.Bytes())
		}
	}
	require.Equal(t, []string{"none f64[0,2]", "one i64[]", "wide f32[2,3]", "half bf16[3,1]", "small u8[3]"}, names)

	// What is written to an array stays in the process.
	a, err := f.Tensors[2].Array()
	require.NoError(t, err)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	array.Data[float32](a)[0] = 99
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestWriteRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.safetensors")
	one := tensor.Of("a", array.Scalar(float32(1)))
	short := tensor.Source{Name: "b", Type: graph.T(graph.F32, 2), Write: one.Write}
	for want, ts := range map[string][]tensor.Source{
		`tensor "a": the name is used twice`:                                  {one, one},
		`tensor "b": its source wrote 4 bytes for f32[2], want 8`:             {short},
		`tensor "q": the format has no element type q8_0`:                     {tensor.Of("q", array.New(graph.T(graph.Q8_0, 32)))},
		`tensor "\xff": the name is not UTF-8`:                                {tensor.Of("\xff", array.Scalar(float32(1)))},
		`tensor "__metadata__": the name is used twice`:                       {tensor.Of("__metadata__", array.Scalar(float32(1)))},
		`tensor "n": f32[-1] has size -1 in dimension 0; sizes are 0 or more`: {{Name: "n", Type: graph.T(graph.F32, -1)}},
	} {
		err := Write(path, nil, ts)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v\nwant %s", err, want)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: the file is there", want)
		}
	}
}

func TestUnknownTypeIsListed(t *testing.T) {
	f, err := open(t, file(`{"a":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}`, 4))
	require.NoError(t, err)
	if x := f.Tensors[0]; x.Stored != "I16" || !slices.Equal(x.Type.Shape, []int{2}) || len(x.Mem) != 4 {
		t.Errorf("%+v", x)
	}
	if _, err := f.Tensors[0].Array(); err == nil || !strings.Contains(err.Error(), `tensor "a": element type I16, which gomoe does not calculate with`) {
		t.Errorf("error %v", err)
	}
}

func TestSet(t *testing.T) {
	dir := t.TempDir()
	index := filepath.Join(dir, IndexName)
	list := func() string {
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		var names []string
		for _, f := range files {
			names = append(names, f.Name())
		}
		return strings.Join(names, " ")
	}
	require.NoError(t, WriteSet(dir, nil, sources(t), 20))
	require.Equal(t, "model-00001-of-00003.safetensors model-00002-of-00003.safetensors model-00003-of-00003.safetensors model.safetensors.index.json", list())
	files, err := OpenSet(index)
	require.NoError(t, err)
	require.Len(t, Tensors(files), 5)
	for _, f := range files {
		require.NoError(t, f.Close())
	}

	text, err := os.ReadFile(index)
	require.NoError(t, err)
	for _, c := range [][3]string{
		{`"small": "model-00001`, `"small": "model-00002`, `tensor "small" is in model-00001-of-00003.safetensors, want it in "model-00002-of-00003.safetensors", as the index says`},
		{`"small":`, `"smoll":`, `tensor "small" is in model-00001-of-00003.safetensors and not in the index`},
		{`"small":`, `"more": "model-00003-of-00003.safetensors", "small":`, `tensor "more" is not in model-00003-of-00003.safetensors, where the index says it is`},
		{`"one": "model-00003`, `"one": "../model-00003`, `file "../model-00003-of-00003.safetensors", want a name without folders`},
		{`"one": "model-00003`, `"one": "model-00004`, `model-00004-of-00003.safetensors: no such file`},
		{`{`, `[`, `index: `},
	} {
		require.NoError(t, os.WriteFile(index, []byte(strings.Replace(string(text), c[0], c[1], 1)), 0o666))
		if _, err := OpenSet(index); err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("error %v\nwant %s", err, c[2])
		}
	}
	require.NoError(t, os.WriteFile(index, append([]byte("\ufeff"), text...), 0o666)) // with a byte order mark
	files, err = OpenSet(index)
	require.NoError(t, err)
	require.Len(t, Tensors(files), 5)
	for _, f := range files {
		require.NoError(t, f.Close())
	}

	// A smaller set, and then a single file, leave nothing of what was there before.
	require.NoError(t, WriteSet(dir, nil, sources(t)[:4], 20))
	require.Equal(t, "model-00001-of-00002.safetensors model-00002-of-00002.safetensors model.safetensors.index.json", list())
	require.NoError(t, WriteSet(dir, nil, sources(t), 1<<30))
	require.Equal(t, "model.safetensors", list())
	require.NoError(t, WriteSet(dir, nil, sources(t), 20))

	// A set that is not finished is none.
	broken := append(sources(t), tensor.Source{Name: "late", Type: graph.T(graph.F32, 9), Write: sources(t)[0].Write})
	require.ErrorContains(t, WriteSet(dir, nil, broken, 20), "late")
	if _, err := os.Stat(index); err == nil {
		t.Error("the index is there")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"k":"v"}}`, 8))
	f.Add(file(`{"a":{"dtype":"F4","shape":[2,0],"data_offsets":[0,0]}}`, 0))
	f.Fuzz(func(t *testing.T, mem []byte) {
		h, err := parse(mem)
		if err != nil {
			return
		}
		at := h.bytes
		for _, e := range h.entries {
			if at != h.bytes+e.begin || e.end < e.begin {
				t.Fatalf("%+v does not follow byte %d", e, at)
			}
			at = h.bytes + e.end
			if d, _ := byName(e.dtype); d.d != graph.NoDType {
				if n := (graph.Type{DType: d.d, Shape: e.shape}).Bytes(); n != e.end-e.begin {
					t.Fatalf("%+v has %d bytes", e, n)
				}
			}
		}
		if at != int64(len(mem)) {
			t.Fatal(fmt.Sprint(at, " of ", len(mem)))
		}
	})
}

// The file is one of Hugging Face's own library; testdata/make.py has written it.
func TestPython(t *testing.T) {
	f, err := Open("testdata/python.safetensors")
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, map[string]string{"format": "np"}, f.Metadata)
	got := map[string]string{}
	for _, x := range f.Tensors {
		if a, err := x.Array(); err == nil {
			got[x.Name] = strings.Join(strings.Fields(fmt.Sprint(a)), " ")
		} else {
			got[x.Name] = x.Stored
		}
	}
	for name, want := range map[string]string{
		"f64": "f64[3] [0 0.25 0.5]", "f32": "f32[2,3] [[-2 -1 0] [ 1 2 3]]", "f16": "f16[4,1] [[0] [1] [2] [3]]",
		"i64": "i64[] -7", "i32": "i32[2] [0 1]", "i16": "I16", "u8": "u8[5] [0 1 2 3 4]", "bool": "bool[3] [true false true]",
		"empty": "f32[0,4] []", `name "with" é`: "f32[1] [1]",
	} {
		if got[name] != want {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	require.Len(t, got, 10)
}
