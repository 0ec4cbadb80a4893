//go:build linux && (amd64 || arm64)

package standin

import (
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/clangtest"
	"github.com/gomoe/gomoe/metal/internal/machine"
)

// methods are C. The receiver's first word is the method that it wants; standin_lookup
// writes the second, and spoils all registers of arguments.
const methods = `
typedef unsigned long Word;
typedef struct { Word width, height, depth; } Size;

double sum(Word* self, Word cmd, Size a, Word b, Size c, double d, Word e) {
  return (double)(long)(self[1] + cmd + a.width + a.height + a.depth + b + c.width + c.height + c.depth + e) + d;
}
Word integers(Word* self, Word a, Word b, Word c, Word d, Word e, Word f, Word g, Word h, Word i) {
  return self[1] + a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}
static void spoil(void) {
#if defined(__x86_64__)
  __asm__ volatile("mov $-1, %%rdi; mov %%rdi, %%rsi; mov %%rdi, %%rdx; mov %%rdi, %%rcx; mov %%rdi, %%r8; mov %%rdi, %%r9; xorps %%xmm0, %%xmm0"
                   : : : "rdi", "rsi", "rdx", "rcx", "r8", "r9", "xmm0");
#else
  __asm__ volatile("mov x0, #-1; mov x1, x0; mov x2, x0; mov x3, x0; mov x4, x0; mov x5, x0; mov x6, x0; mov x7, x0; fmov d0, xzr"
                   : : : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "d0");
#endif
}
__attribute__((visibility("hidden"), used, noinline)) void* standin_lookup(Word* self, Word cmd) {
  self[1] = cmd;
  Word method = self[0];
  spoil();
  return (void*)method;
}
`

func TestTrampoline(t *testing.T) {
	c := clangtest.Compiler(t)
	asm, err := files.ReadFile("native/trampoline.h")
	require.NoError(t, err)
	code, err := machine.Load(t.Context(), c.Path, methods+string(asm))
	require.NoError(t, err)
	defer code.Close()
	send, err := code.Function("objc_msgSend")
	require.NoError(t, err)
	type size struct{ width, height, depth uint }
	var sum func(self unsafe.Pointer, cmd uint, a size, b uint, c size, d float64, e uint) float64
	purego.RegisterFunc(&sum, send)
	self := new([2]uintptr)
	self[0], err = code.Function("sum")
	require.NoError(t, err)
	if got := sum(unsafe.Pointer(self), 1, size{2, 3, 4}, 5, size{6, 7, 8}, 0.5, 10); got != 1+1+2+3+4+5+6+7+8+0.5+10 {
		t.Errorf("a method of structures and a double returned %v, want 47.5", got)
	}
	self[0], err = code.Function("integers")
	require.NoError(t, err)
	got, _, _ := purego.SyscallN(send, uintptr(unsafe.Pointer(self)), 1, 2, 3, 4, 5, 6, 7, 8, 9)
	if got != 1+1+4+9+16+25+36+49+64+81 {
		t.Errorf("a method of ten integers returned %d, want 286", got)
	}
	if got := sum(nil, 1, size{2, 3, 4}, 5, size{6, 7, 8}, 0.5, 10); got != 0 {
		t.Errorf("a message to nil returned %v, want 0", got)
	}
	r1, r2, _ := purego.SyscallN(send, 0, 1, 2, 3)
	if r1 != 0 || r2 != 0 {
		t.Errorf("a message to nil returned %d, %d, want zeros", r1, r2)
	}
}
