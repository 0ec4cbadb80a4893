package mtl

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/standin"
)

func TestLibrary(t *testing.T) {
	b := stand(t, standin.Options{})
	want := []string{"add", "divergent", "endless", "multiply", "overrun", "positions", "sums"}
	if got := b.library.Functions(); !slices.Equal(got, want) {
		t.Errorf("functions %v, want %v", got, want)
	}
	again, err := b.device.Library(kernels, Options{})
	require.NoError(t, err)
	if again != b.library {
		t.Error("the same text makes another library")
	}
	fast, err := b.device.Library(kernels, Options{FastMath: true})
	require.NoError(t, err)
	if fast == b.library {
		t.Error("other options give the same library")
	}
}

// A compile error has the compiler's text and the source's line, each time.
func TestCompileError(t *testing.T) {
	b := stand(t, standin.Options{})
	const source = "#include <metal_stdlib>\nusing namespace metal;\nkernel void broken(device float* x [[buffer(0)]]) { x[0] = undeclared; }\n"
	for range 2 {
		_, err := b.device.Library(source, Options{})
		var failure *Error
		require.ErrorAs(t, err, &failure)
		require.Contains(t, failure.Text, "undeclared")
		require.Contains(t, failure.Text, "3:")
		if failure.Domain != "MTLLibraryErrorDomain" || failure.Code != 3 || failure.Op != "library" {
			t.Errorf("error %+v", failure)
		}
	}
}

func TestPipeline(t *testing.T) {
	b := stand(t, standin.Options{})
	p := b.pipeline("add")
	if p.Function() != "add" || p.Facts() != (PipelineFacts{MaxThreads: 1024, Width: 32}) {
		t.Errorf("pipeline %s %+v", p.Function(), p.Facts())
	}
	if b.pipeline("add") != p {
		t.Error("the same function makes another pipeline")
	}
	_, err := b.device.Pipeline(b.library, "nonesuch")
	require.EqualError(t, err, "mtl: pipeline nonesuch: the library has no such function, it has add, divergent, endless, multiply, overrun, positions, sums")
	var failure *Error
	_, err = b.device.Pipeline(b.library, "nonesuch", Constant{0, int32(1)})
	require.ErrorAs(t, err, &failure)
	_, err = b.device.Pipeline(b.library, "multiply", Constant{0, uint64(1)})
	require.ErrorAs(t, err, &failure)
	require.Contains(t, failure.Text, "has 4 bytes and was set to a value of 8")
	_, err = b.device.Pipeline(b.library, "multiply", Constant{0, int32(1)}, Constant{0, int32(2)})
	require.ErrorContains(t, err, "constant 0 is given twice")
	_, err = b.device.Pipeline(nil, "multiply")
	require.ErrorContains(t, err, "the library is nil")
	_, err = b.device.Pipeline(b.library, "multiply", Constant{0, 1.5})
	require.ErrorContains(t, err, "constant 0 is a float64")
	b.bad = []string{"function add: constant 77 is not in the library"}
	_, err = b.device.Pipeline(b.library, "add", Constant{77, true})
	require.NoError(t, err)
}

func TestConstantEncoding(t *testing.T) {
	for _, c := range []struct {
		value any
		kind  uintptr // MTLDataType
		bits  uint64
	}{
		{true, 53, 1}, {false, 53, 0}, {int8(-1), 45, 0xFF}, {uint8(200), 49, 200}, {int16(-2), 37, 0xFFFE}, {uint16(7), 41, 7},
		{int32(-3), 29, 0xFFFFFFFD}, {uint32(9), 33, 9}, {int64(-1), 81, 1<<64 - 1}, {uint64(5), 85, 5}, {float32(1.5), 3, 0x3FC00000},
	} {
		kind, bits, err := Constant{0, c.value}.encoded()
		require.NoError(t, err)
		if kind != c.kind || bits != c.bits {
			t.Errorf("%T %v is type %d, %#x; want %d, %#x", c.value, c.value, kind, bits, c.kind, c.bits)
		}
	}
}

// What was made from a closed device or queue says so.
func TestClosed(t *testing.T) {
	b := stand(t, standin.Options{})
	d, err := b.rt.Device()
	require.NoError(t, err)
	q, err := d.CommandQueue()
	require.NoError(t, err)
	l, err := d.Library(kernels, Options{})
	require.NoError(t, err)
	p, err := d.Pipeline(l, "add")
	require.NoError(t, err)
	q.Close()
	_, err = q.CommandBuffer("late")
	require.ErrorContains(t, err, "the queue is closed")
	d.Close()
	d.Close()
	for _, err := range []error{
		second(d.CommandQueue()), second(d.Buffer(4)), second(d.BufferOver(nil)), second(d.Heap(4)), second(d.SharedEvent()),
		second(d.Library(kernels, Options{})), second(d.Pipeline(l, "add")),
	} {
		require.ErrorContains(t, err, "the device is closed")
	}
	_, err = b.device.Pipeline(l, "add")
	require.ErrorContains(t, err, "the library is closed")
	_, err = b.queue.Encode("late", func(cb *CommandBuffer) error {
		e := cb.Compute(false)
		e.SetPipeline(p)
		e.End()
		return nil
	})
	require.ErrorContains(t, err, "set pipeline add: it is closed")
}

func second[T any](_ T, err error) error { return err }
