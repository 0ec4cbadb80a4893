package array

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gomoe/gomoe/graph"
	"github.com/sbinet/npyio/npy"
	"github.com/stretchr/testify/require"
)

func TestReadNumpysFiles(t *testing.T) {
	x := []float64{0, 1, 2, 3, 4, 100}
	seq := func(n int) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = float64(i)
		}
		return s
	}
	for _, c := range []struct {
		file string
		t    graph.Type
		want []float64
	}{
		{"bool", graph.T(graph.Bool, 2, 3), []float64{0, 1, 1, 1, 1, 1}},
		{"u8", graph.T(graph.U8, 2, 3), x},
		{"u32", graph.T(graph.U32, 2, 3), x},
		{"i32", graph.T(graph.I32, 2, 3), x},
		{"i64", graph.T(graph.I64, 2, 3), x},
		{"f16", graph.T(graph.F16, 2, 3), x},
		{"bf16", graph.T(graph.BF16, 2, 3), x},
		{"f8_e4m3", graph.T(graph.F8_E4M3, 2, 3), []float64{0, 1, 2, 3, 4, 96}},
		{"f8_e5m2", graph.T(graph.F8_E5M2, 2, 3), []float64{0, 1, 2, 3, 4, 96}},
		{"f32", graph.T(graph.F32, 2, 3), x},
		{"f64", graph.T(graph.F64, 2, 3), x},
		{"scalar", graph.T(graph.F32), []float64{2.5}},
		{"vector", graph.T(graph.I32, 3), seq(3)},
		{"empty", graph.T(graph.F32, 3, 0, 2), nil},
		{"fortran", graph.T(graph.I32, 2, 3, 4), seq(24)},
		{"void", graph.T(graph.BF16, 2), []float64{1, 2}},
		{"version2", graph.T(graph.F64, 4), seq(4)},
		{"version3", graph.T(graph.F64, 4), seq(4)},
	} {
		path := filepath.Join("testdata", c.file+".npy")
		a, err := ReadFile(path)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if !a.Type.Equal(c.t) || !slices.Equal(a.Float64s(), c.want) {
			t.Errorf("%s is %s %v, want %s %v", c.file, a.Type, a.Float64s(), c.t, c.want)
		}
		// We write the same bytes as numpy did in version 1.0 and C order.
		if slices.Contains([]string{"fortran", "void", "version2", "version3"}, c.file) {
			continue
		}
		file, err := os.ReadFile(path)
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, WriteNPY(&b, a))
		if !bytes.Equal(b.Bytes(), file) {
			t.Errorf("%s is written as\n%q, numpy wrote\n%q", c.file, b.Bytes(), file)
		}
	}
}

// raw returns a .npy file of version 1.0.
func raw(dict, data string) string {
	return npyMagic + "\x01\x00" + string([]byte{byte(len(dict)), byte(len(dict) >> 8)}) + dict + data
}

func TestReadNPYErrors(t *testing.T) {
	f32 := func(shape string) string {
		return "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}"
	}
	for _, c := range []struct{ in, want string }{
		{"", "array: npy: the file ends in the magic and version, want 8 bytes: unexpected EOF"},
		{"\x93NUMPX\x01\x00", `magic "\x93NUMPX", want "\x93NUMPY": not a .npy file`},
		{"PK\x03\x04 an archive", "not a .npy file"},
		{npyMagic + "\x04\x00", "format version 4, want 1, 2 or 3"},
		{npyMagic + "\x01\x00\x10", "the file ends in the header length"},
		{npyMagic + "\x02\x00\xff\xff\xff\xff", "header of 4294967295 bytes, want at most 65536"},
		{npyMagic + "\x01\x00\x10\x00{}", "the file ends in the header, want 16 bytes"},
		{raw("", ""), `header: "", want "{"`},
		{raw("{}", ""), `header: no key "descr"`},
		{raw("{'descr': '<f4', 'shape': ()}", ""), `no key "fortran_order"`},
		{raw("{'descr': '<f4', 'descr': '<f4'}", ""), `key "descr" twice`},
		{raw("{'colour': 3}", ""), `key "colour", want descr`},
		{raw("{'descr", ""), "want a closing quote"},
		{raw("{descr: 3}", ""), "want a quoted string"},
		{raw("{'descr' '<f4'}", ""), `want ":"`},
		{raw("{'descr': '<f4' 'shape': ()}", ""), `want "}"`},
		{raw("{'fortran_order': 1}", ""), `want "False"`},
		{raw(f32("(1,)")+" extra", ""), `"extra" behind the dictionary`},
		{raw(f32("3"), ""), `want "("`},
		{raw(f32("(-1,)"), ""), "want a dimension from 0"},
		{raw(f32("(2"), ""), `want ")"`},
		{raw(f32("(99999999999999999999,)"), ""), "want a dimension from 0 to 2^63-1"},
		{raw(f32("(4294967296, 4294967296)"), ""), "more bytes than an int64 counts"},
		{raw(f32("(0, 4294967296, 4294967296)"), ""), "more bytes than an int64 counts"},
		{raw(f32("(1152921504606846976,)"), "1234"), "f32[1152921504606846976]: the file ends after 4 bytes of data, want 4611686018427387904: unexpected EOF"},
		{raw(f32("("+strings.Repeat("1,", 65)+")"), ""), "65 dimensions, want at most 64"},
		{raw(f32("(2,)"), "1234567"), "f32[2]: the file ends after 7 bytes of data, want 8"},
		{raw("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\x00\x01\x02"), "bool[3]: element 2 is byte 2, want 0 or 1"},
		{raw("{'descr': '<f', 'fortran_order': False, 'shape': (3,)}", ""), `element type "<f", want one of`},
		{raw("{'descr': '', 'fortran_order': False, 'shape': (3,)}", ""), `element type "", want one of`},
	} {
		a, err := ReadNPY(strings.NewReader(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "array: npy: ") {
			t.Errorf("%q is read as %s with error\n%v, want\n%s", c.in, a.Type, err, c.want)
		}
	}
	for name, want := range map[string]string{
		"bigendian": `array: testdata/bigendian.npy: element type ">f4" is big-endian, want little-endian; convert with x.astype('<f4')`,
		"object":    `array: testdata/object.npy: element type "|O": pickled Python objects are not read, want numbers`,
		"record":    "array: testdata/record.npy: header: records with named fields are not read, want plain numbers; save each field",
		"complex":   `array: testdata/complex.npy: element type "<c8", want one of b1 u1 u4 i4 i8 f2 f4 f8, V2 for bf16, V1 for f8_e4m3 or f1 for f8_e5m2; convert with x.astype`,
	} {
		if _, err := ReadFile("testdata/" + name + ".npy"); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
	}
	_, err := ReadFile("testdata/missing.npy")
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = ReadNPY(io.MultiReader(strings.NewReader(raw(f32("(2,)"), "1234")), iotest.ErrReader(errors.ErrUnsupported)))
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// Every file that is cut short is an error, and nothing behind it is read.
func TestReadNPYCut(t *testing.T) {
	whole, err := os.ReadFile("testdata/f64.npy")
	require.NoError(t, err)
	for n := range whole {
		if _, err := ReadNPY(bytes.NewReader(whole[:n])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%d of %d bytes: error %v, want an unexpected end", n, len(whole), err)
		}
	}
	two := iotest.OneByteReader(bytes.NewReader(append(slices.Clone(whole), whole...)))
	for range 2 {
		a, err := ReadNPY(two)
		require.NoError(t, err)
		require.Equal(t, []float64{0, 1, 2, 3, 4, 100}, a.Float64s())
	}
}

func TestWriteNPY(t *testing.T) {
	dir := t.TempDir()
	shapes := [][]int{{}, {0}, {1}, {7}, {2, 3}, {2, 0, 5}, {3, 1, 2, 2}, {100, 2000}}
	for _, d := range dtypes {
		for i, shape := range shapes {
			a := New(graph.T(d, shape...))
			for j := range a.mem {
				a.mem[j] = byte(j * 7)
				if d == graph.Bool {
					a.mem[j] &= 1
				}
			}
			path := filepath.Join(dir, fmt.Sprint(d, i, ".npy"))
			require.NoError(t, WriteFile(path, a))
			b, err := ReadFile(path)
			require.NoError(t, err)
			if !Equal(a, b) {
				t.Errorf("%s comes back as another %s", a.Type, b.Type)
			}
		}
	}
	// An array that cannot be written leaves the older file.
	old := filepath.Join(dir, "old.npy")
	require.NoError(t, WriteFile(old, Scalar(true)))
	require.Error(t, WriteFile(old, Array{}))
	back, err := ReadFile(old)
	require.NoError(t, err)
	require.True(t, Data[bool](back)[0])
	require.ErrorContains(t, WriteFile(filepath.Join(dir, "none.npy"), Array{}), "none[] has no elements")
	require.ErrorContains(t, WriteNPY(io.Discard, Array{}), "array: npy: ")
	require.ErrorIs(t, WriteFile(filepath.Join(dir, "no", "folder.npy"), Scalar(true)), os.ErrNotExist)
}

// sbinet/npyio reads what we write.
func TestWriteNPYForOthers(t *testing.T) {
	want := []float64{1, -2.5, math.Inf(1), 1e-300}
	var b bytes.Buffer
	require.NoError(t, WriteNPY(&b, of(t, want...)))
	var got []float64
	require.NoError(t, npy.Read(&b, &got))
	require.Equal(t, want, got)
}

func FuzzReadNPY(f *testing.F) {
	files, err := filepath.Glob("testdata/*.npy")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := ReadNPY(bytes.NewReader(data))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteNPY(&b, a); err != nil {
			t.Fatalf("%s was read but is not written: %v", a.Type, err)
		}
		c, err := ReadNPY(&b)
		if err != nil || !Equal(a, c) {
			t.Fatalf("%s comes back as %s, %v", a.Type, c.Type, err)
		}
	})
}

// A file whose header claims more than the file holds is refused before anything is read,
// and an array of a type that is not wanted before its elements are read.
func TestReadFileHeaderFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npy")
	a := struct{ Type graph.Type }{graph.T(graph.F32, 1<<28)} // 1 GiB
	f, err := os.Create(path)
	require.NoError(t, err)
	var head bytes.Buffer
	require.NoError(t, WriteNPY(&head, New(graph.T(graph.F32, 1))))
	text := strings.Replace(head.String()[:head.Len()-4], "(1,), }"+strings.Repeat(" ", len("268435456")-1), "(268435456,), }", 1)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(len(text))+a.Type.Bytes())) // sparse
	require.NoError(t, f.Close())
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	no := errors.New("another type is wanted")
	got := allocated(func() {
		_, err = ReadFileIf(path, func(got graph.Type) error {
			require.Equal(t, a.Type, got)
			return no
		})
	})
	if err != no || got > 1<<20 {
		t.Errorf("%v and %d bytes allocated, want the caller's error and few", err, got)
	}
	require.NoError(t, os.Truncate(path, int64(len(text))+a.Type.Bytes()-1))
	got = allocated(func() { _, err = ReadFile(path) })
	if err == nil || !strings.Contains(err.Error(), "f32[268435456]: the file ends after 1073741823 bytes of data, want 1073741824") || got > 1<<20 {
		t.Errorf("%v and %d bytes allocated, want that the file ends, and few", err, got)
	}
}
