package array

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unsafe"

	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/internal/infile"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/whole"
)

// The .npy format,
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html. This package
// does not use sbinet/npyio, which supports neither float16 nor bfloat16, writes slices
// and matrices only, and trusts the lengths in headers: a damaged file makes it panic or
// allocate gigabytes. The tests use npyio as a second reader.
const (
	npyMagic = "\x93NUMPY"
	// Largest header dictionary in bytes. numpy itself reads up to 10 000.
	npyHeader = 1 << 16
	// Largest number of dimensions; numpy's limit since 2.0.
	npyRank = 64
)

// npyCode returns the type code without the byte order, "" for types missing in the
// format. numpy has no bfloat16: numpy with ml_dtypes saves one as two bytes of "void",
// and loading such a file returns "void"; x.view(ml_dtypes.bfloat16) turns it into
// numbers again. It saves an f8_e4m3 as one byte of "void" and an f8_e5m2 as "f1", which
// numpy itself cannot load.
func npyCode(d graph.DType) string {
	return map[graph.DType]string{
		graph.Bool: "b1", graph.U8: "u1", graph.U32: "u4", graph.I32: "i4", graph.I64: "i8",
		graph.F8_E4M3: "V1", graph.F8_E5M2: "f1", graph.F16: "f2", graph.BF16: "V2", graph.F32: "f4", graph.F64: "f8",
	}[d]
}

// ReadNPY reads one array in numpy's .npy format, and no byte after it. It reads bool,
// u8, u32, i32, i64, f16, f32 and f64, "f1" as f8_e5m2, one byte of "void" as f8_e4m3 and
// two as bf16, in little-endian order; column-major data is transposed. It allocates at
// most twice as much as it has read, whatever the header says. Errors describe the fault
// in the file.
func ReadNPY(r io.Reader) (Array, error) {
	a, err := readNPY(r)
	if err != nil {
		return Array{}, fmt.Errorf("array: npy: %w", err)
	}
	return a, nil
}

// ReadFile reads an array from a .npy file; see ReadNPY. Like numpy, it ignores bytes
// after the array.
func ReadFile(path string) (Array, error) {
	return ReadFileIf(path, func(graph.Type) error { return nil })
}

// ReadFileIf is ReadFile for arrays of types accepted by accept. It returns accept's
// error unchanged, before reading the elements, which may be many.
func ReadFileIf(path string, accept func(graph.Type) error) (Array, error) {
	f, _, err := infile.Open(path)
	if err != nil {
		return Array{}, fmt.Errorf("array: %w", err)
	}
	defer f.Close()
	t, fortran, err := readNPYType(f)
	if err != nil {
		return Array{}, fmt.Errorf("array: %s: %w", path, err)
	}
	if err := accept(t); err != nil {
		return Array{}, err
	}
	a, err := readElements(f, t, fortran)
	if err != nil {
		return Array{}, fmt.Errorf("array: %s: %w", path, err)
	}
	return a, nil
}

// WriteNPY writes a in numpy's .npy format, version 1.0, row-major and little-endian. As
// in numpy with ml_dtypes, a bf16 is written as two bytes of "void", an f8_e4m3 as one
// byte of "void", and an f8_e5m2 as "f1".
func WriteNPY(w io.Writer, a Array) error {
	if err := writeNPY(w, a); err != nil {
		return fmt.Errorf("array: npy: %w", err)
	}
	return nil
}

// WriteFile writes a to a .npy file; see WriteNPY. After an error the file is unchanged.
// An existing file is replaced atomically.
func WriteFile(path string, a Array) error {
	if err := whole.Write(path, func(w io.Writer) error { return writeNPY(w, a) }); err != nil {
		return fmt.Errorf("array: %s: %w", path, err)
	}
	return nil
}

func writeNPY(w io.Writer, a Array) error {
	code := npyCode(a.Type.DType)
	if a.Type.DType.IsBlock() {
		return fmt.Errorf("%s is stored in blocks, which the format does not know; write it as f32", a.Type)
	}
	if code == "" {
		return fmt.Errorf("%s has no elements to write", a.Type)
	}
	order := "<"
	if d := a.Type.DType; d.Size() == 1 && !d.IsF8() { // ml_dtypes gives its one-byte types a byte order
		order = "|"
	}
	var shape strings.Builder
	for i, n := range a.Type.Shape {
		if i > 0 {
			shape.WriteByte(' ')
		}
		fmt.Fprintf(&shape, "%d,", n)
	}
	dims := shape.String()
	if a.Type.Rank() > 1 {
		dims = strings.TrimSuffix(dims, ",")
	}
	dict := fmt.Sprintf("{'descr': '%s%s', 'fortran_order': False, 'shape': (%s), }", order, code, dims)
	const fixed = len(npyMagic) + 4 // including version and length
	dict += strings.Repeat(" ", 63-(fixed+len(dict))%64) + "\n"
	if len(dict) >= npyHeader {
		return fmt.Errorf("%d dimensions, want at most %d", a.Type.Rank(), npyRank)
	}
	head := append([]byte(npyMagic), 1, 0)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(dict)))
	if _, err := w.Write(append(head, dict...)); err != nil {
		return err
	}
	_, err := w.Write(littleEndian(slices.Clip(a.Bytes()), a.Type.DType.Size(), true))
	return err
}

// readNPYType reads the header. It returns whether the elements are in column-major order.
func readNPYType(r io.Reader) (t graph.Type, fortran bool, err error) {
	var start [len(npyMagic) + 2]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return t, false, short(err, "magic and version", len(start))
	}
	if magic := string(start[:len(npyMagic)]); magic != npyMagic {
		return t, false, fmt.Errorf("magic %s, want %q: not a .npy file", quoted.Text(magic), npyMagic)
	}
	size := make([]byte, 4)
	switch major := start[len(npyMagic)]; major {
	case 1:
		size = size[:2]
	case 2, 3:
	default:
		return t, false, fmt.Errorf("format version %d, want 1, 2 or 3", major)
	}
	if _, err := io.ReadFull(r, size); err != nil {
		return t, false, short(err, "header length", len(size))
	}
	n := binary.LittleEndian.Uint32(append(size[:len(size):len(size)], 0, 0)[:4])
	if n > npyHeader {
		return t, false, fmt.Errorf("header of %d bytes, want at most %d", n, npyHeader)
	}
	dict := make([]byte, n)
	if _, err := io.ReadFull(r, dict); err != nil {
		return t, false, short(err, "header", len(dict))
	}
	h, err := parseNPYHeader(string(dict))
	if err != nil {
		return t, false, fmt.Errorf("header: %w", err)
	}
	t, err = h.typed()
	return t, h.fortran, err
}

func readNPY(r io.Reader) (Array, error) {
	t, fortran, err := readNPYType(r)
	if err != nil {
		return Array{}, err
	}
	return readElements(r, t, fortran)
}

// readElements reads the elements after the header.
func readElements(r io.Reader, t graph.Type, fortran bool) (Array, error) {
	if err := inFile(r, t.Bytes()); err != nil {
		return Array{}, fmt.Errorf("%s: %w", t, err)
	}
	mem, err := readBytes(r, t.Bytes())
	if err != nil {
		return Array{}, fmt.Errorf("%s: %w", t, err)
	}
	if t.DType == graph.Bool {
		if i := slices.IndexFunc(mem, func(b byte) bool { return b > 1 }); i >= 0 {
			return Array{}, fmt.Errorf("%s: element %d is byte %d, want 0 or 1", t, i, mem[i])
		}
	}
	a := Over(t, littleEndian(mem, t.DType.Size(), false))
	if fortran && t.Rank() > 1 {
		a = a.Reshape(reversed(t.Shape)...).Transposed() // the first index changes fastest in the file
	}
	return a, nil
}

// inFile returns an error if r is a file ending before the next n bytes, before anything
// is read or allocated.
func inFile(r io.Reader, n int64) error {
	f, ok := r.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil // a pipe: its length shows only by reading
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	if got := info.Size() - at; got < n {
		return fmt.Errorf("the file ends after %d bytes of data, want %d: %w", max(got, 0), n, io.ErrUnexpectedEOF)
	}
	return nil
}

// short returns the error to report when io.ReadFull has failed with err.
func short(err error, what string, want int) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("the file ends in the %s, want %d bytes: %w", what, want, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// readBytes reads n bytes into 8-byte aligned memory. The memory grows as data arrives,
// because the n in a header may be false.
func readBytes(r io.Reader, n int64) ([]byte, error) {
	const first = 1 << 16 // words
	total := n/8 + (n%8+7)/8
	words := make([]uint64, min(total, first))
	at := int64(0)
	for {
		mem := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
		end := min(n, int64(len(mem)))
		got, err := io.ReadFull(r, mem[at:end])
		if at += int64(got); err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("the file ends after %d bytes of data, want %d: %w", at, n, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		if at == n {
			return mem[:n], nil
		}
		next := make([]uint64, min(total, 2*int64(len(words))))
		copy(next, words)
		words = next
	}
}

// littleEndian converts elements of the given size in bytes between the machine's byte order
// and little-endian. On nearly all machines these are the same, and it returns mem itself.
// Otherwise it returns a copy if keep is set, or else overwrites mem.
func littleEndian(mem []byte, size int, keep bool) []byte {
	if size == 1 || binary.NativeEndian.Uint16([]byte{1, 0}) == 1 {
		return mem
	}
	if keep {
		mem = slices.Clone(mem)
	}
	for i := 0; i < len(mem); i += size {
		slices.Reverse(mem[i : i+size])
	}
	return mem
}
