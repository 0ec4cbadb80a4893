//go:build linux && (amd64 || arm64)

package standin

import (
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/metal/internal/clangtest"
)

// raw sends messages as a driver does that knows no rules.
type raw struct {
	*testing.T
	*Standin
	send, getClass, register, push, pop, create uintptr
	device                                      uintptr
}

type size struct{ width, height, depth uint }

const kernels = `
#include <metal_stdlib>
using namespace metal;
kernel void twice(device const float4* in [[buffer(0)]], device float4* out [[buffer(1)]], threadgroup float* part [[threadgroup(0)]], uint i [[thread_position_in_grid]]) {
  part[0] = 2;
  out[i] = in[i] * part[0];
}
`

func rawly(t *testing.T, o Options) *raw {
	t.Helper()
	c := clangtest.Compiler(t)
	runtime.LockOSThread() // pools belong to threads
	t.Cleanup(runtime.UnlockOSThread)
	s, err := Open(t.Context(), c, o)
	require.NoError(t, err)
	r := &raw{T: t, Standin: s}
	t.Cleanup(func() { r.Standin.Close() })
	for name, to := range map[string]*uintptr{
		"objc_msgSend": &r.send, "objc_getClass": &r.getClass, "sel_registerName": &r.register,
		"objc_autoreleasePoolPush": &r.push, "objc_autoreleasePoolPop": &r.pop, "MTLCreateSystemDefaultDevice": &r.create,
	} {
		*to, err = purego.Dlsym(s.Handle(), name)
		require.NoError(t, err)
	}
	return r
}

func (r *raw) name(fn uintptr, s string) uintptr {
	b := append([]byte(s), 0)
	p, _, _ := purego.SyscallN(fn, uintptr(unsafe.Pointer(&b[0])))
	return p
}

func (r *raw) class(s string) uintptr { return r.name(r.getClass, s) }

//go:uintptrescapes
func (r *raw) msg(self uintptr, selector string, args ...uintptr) uintptr {
	all := append([]uintptr{self, r.name(r.register, selector)}, args...)
	p, _, _ := purego.SyscallN(r.send, all...)
	return p
}

func (r *raw) string(s string) uintptr {
	b := append([]byte(s), 0)
	return r.msg(r.class("NSString"), "stringWithUTF8String:", uintptr(unsafe.Pointer(&b[0])))
}

// pipeline is that of twice.
func (r *raw) pipeline() uintptr {
	r.Helper()
	failure := new(uintptr)
	options := r.msg(r.msg(r.class("MTLCompileOptions"), "alloc"), "init")
	r.msg(options, "setLanguageVersion:", 0x30001)
	library := r.msg(r.device, "newLibraryWithSource:options:error:", r.string(kernels), options, uintptr(unsafe.Pointer(failure)))
	r.msg(options, "release")
	require.NotZero(r, library)
	function := r.msg(library, "newFunctionWithName:", r.string("twice"))
	require.NotZero(r, function)
	p := r.msg(r.device, "newComputePipelineStateWithFunction:error:", function, uintptr(unsafe.Pointer(failure)))
	require.NotZero(r, p)
	r.msg(function, "release")
	r.msg(library, "release")
	return p
}

func (r *raw) dispatchThreadgroups(encoder uintptr, groups, threads size) {
	var f func(self, cmd uintptr, groups, threads size)
	purego.RegisterFunc(&f, r.send)
	f(encoder, r.name(r.register, "dispatchThreadgroups:threadsPerThreadgroup:"), groups, threads)
}

// Each mistake that a driver can make is a violation, in these words, and no other.
func TestViolations(t *testing.T) {
	one := size{1, 1, 1}
	// encoder returns a command buffer and its encoder, which has what twice wants.
	encoder := func(r *raw, queue uintptr) (cb, e uintptr) {
		cb = r.msg(queue, "commandBuffer")
		e = r.msg(cb, "computeCommandEncoder")
		return cb, e
	}
	ready := func(r *raw, e uintptr) {
		p := r.pipeline()
		b := r.msg(r.device, "newBufferWithLength:options:", 64, 0)
		r.msg(e, "setComputePipelineState:", p)
		r.msg(e, "setBuffer:offset:atIndex:", b, 0, 0)
		r.msg(e, "setBuffer:offset:atIndex:", b, 0, 1)
		r.msg(e, "setThreadgroupMemoryLength:atIndex:", 16, 0)
		r.msg(b, "release") // the command buffer keeps them
		r.msg(p, "release")
	}
	end := func(r *raw, cb, e uintptr) {
		r.msg(e, "endEncoding")
		r.msg(cb, "commit")
		r.msg(cb, "waitUntilCompleted")
	}
	set := func(selector string, args ...uintptr) func(r *raw, queue uintptr) {
		return func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			ready(r, e)
			r.msg(e, selector, args...)
			end(r, cb, e)
		}
	}
	dispatch := func(groups, threads size, args ...uintptr) func(r *raw, queue uintptr) {
		return func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			ready(r, e)
			for i := 0; i+1 < len(args); i += 2 {
				b := r.msg(r.device, "newBufferWithLength:options:", 64, 0)
				r.msg(e, "setBuffer:offset:atIndex:", b, args[i+1], args[i])
				r.msg(b, "release")
			}
			r.dispatchThreadgroups(e, groups, threads)
			end(r, cb, e)
		}
	}
	for _, c := range []struct {
		name string
		want string
		f    func(r *raw, queue uintptr)
	}{
		{"nothing", "", dispatch(one, one)},
		{"wrong selector", "unrecognized selector -[MTLDevice newCommandQeue]", func(r *raw, queue uintptr) { r.msg(r.device, "newCommandQeue") }},
		{"wrong class selector", "unrecognized selector +[NSString alloc]", func(r *raw, queue uintptr) { r.msg(r.class("NSString"), "alloc") }},
		{"over-release", "over-release: release was sent to a MTLSharedEvent that was released already", func(r *raw, queue uintptr) {
			e := r.msg(r.device, "newSharedEvent")
			r.msg(e, "release")
			r.msg(e, "release")
		}},
		{"over-release by a pool", "over-release: a pool releases a NSString that was released already", func(r *raw, queue uintptr) {
			r.msg(r.string("autoreleased"), "release")
		}},
		{"use after release", "use after release: signaledValue was sent to a MTLSharedEvent that was released", func(r *raw, queue uintptr) {
			e := r.msg(r.device, "newSharedEvent")
			r.msg(e, "release")
			r.msg(e, "signaledValue")
		}},
		{"missing retain", "use after release: commit was sent to a MTLCommandBuffer that was released", func(r *raw, queue uintptr) {
			pool, _, _ := purego.SyscallN(r.push)
			cb := r.msg(queue, "commandBuffer") // autoreleased
			purego.SyscallN(r.pop, pool)
			r.msg(cb, "commit")
		}},
		{"late retain", "use after release: retain was sent to a MTLCommandBuffer", func(r *raw, queue uintptr) {
			pool, _, _ := purego.SyscallN(r.push)
			cb := r.msg(queue, "commandBuffer")
			purego.SyscallN(r.pop, pool)
			r.msg(cb, "retain")
		}},
		{"no object", "which is no object", func(r *raw, queue uintptr) {
			r.msg(uintptr(unsafe.Pointer(new([8]uintptr))), "release")
		}},
		{"pool twice", "popped on another thread than it was pushed, or twice", func(r *raw, queue uintptr) {
			pool, _, _ := purego.SyscallN(r.push)
			purego.SyscallN(r.pop, pool)
			purego.SyscallN(r.pop, pool)
		}},
		{"no bytes", "0 bytes with options 0, want some bytes, shared", func(r *raw, queue uintptr) { r.msg(r.device, "newBufferWithLength:options:", 0, 0) }},
		{"private buffer", "with options 0x20", func(r *raw, queue uintptr) { r.msg(r.device, "newBufferWithLength:options:", 4, 2<<4) }},
		{"misaligned memory", "want multiples of the page", func(r *raw, queue uintptr) {
			r.msg(r.device, "newBufferWithBytesNoCopy:length:options:deallocator:", 4096+64, 4096, 0, 0)
		}},
		{"misaligned length", "want multiples of the page", func(r *raw, queue uintptr) {
			r.msg(r.device, "newBufferWithBytesNoCopy:length:options:deallocator:", 4096, 100, 0, 0)
		}},
		{"memory that is not mapped", "not all of it is mapped", func(r *raw, queue uintptr) {
			r.msg(r.device, "newBufferWithBytesNoCopy:length:options:deallocator:", 4096, 4096, 0, 0)
		}},
		{"library without options", "no language version is set", func(r *raw, queue uintptr) {
			r.msg(r.device, "newLibraryWithSource:options:error:", r.string(kernels), 0, 0)
		}},
		{"library without a version", "no language version is set", func(r *raw, queue uintptr) {
			o := r.msg(r.msg(r.class("MTLCompileOptions"), "alloc"), "init")
			r.msg(r.device, "newLibraryWithSource:options:error:", r.string(kernels), o, 0)
			r.msg(o, "release")
		}},
		{"heap", "want a size, shared storage and tracked hazards", func(r *raw, queue uintptr) {
			d := r.msg(r.msg(r.class("MTLHeapDescriptor"), "alloc"), "init")
			r.msg(d, "setSize:", 4096)
			r.msg(r.device, "newHeapWithDescriptor:", d)
			r.msg(d, "release")
		}},
		{"second encoder", "a second encoder is opened while one is open", func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			r.msg(cb, "blitCommandEncoder")
			end(r, cb, e)
		}},
		{"commit with an open encoder", "commit while an encoder is open", func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			r.msg(cb, "commit")
			end(r, cb, e)
		}},
		{"encoder that does not end", "a command buffer: an encoder was released that has not ended", func(r *raw, queue uintptr) {
			pool, _, _ := purego.SyscallN(r.push)
			encoder(r, queue)
			purego.SyscallN(r.pop, pool)
		}},
		{"signal in an encoder", "encodeSignalEvent:value: while an encoder is open", func(r *raw, queue uintptr) {
			event := r.msg(r.device, "newSharedEvent")
			cb, e := encoder(r, queue)
			r.msg(cb, "encodeSignalEvent:value:", event, 1)
			end(r, cb, e)
			r.msg(event, "release")
		}},
		{"encode after commit", "an encoder is opened after commit", func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			end(r, cb, e)
			r.msg(cb, "computeCommandEncoder")
		}},
		{"commit twice", "commit after commit", func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			end(r, cb, e)
			r.msg(cb, "commit")
		}},
		{"wait before commit", "waitUntilCompleted before commit: this waits forever", func(r *raw, queue uintptr) {
			r.msg(r.msg(queue, "commandBuffer"), "waitUntilCompleted")
		}},
		{"message after the end", "setBytes:length:atIndex: after endEncoding", func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			end(r, cb, e)
			r.msg(e, "setBytes:length:atIndex:", uintptr(unsafe.Pointer(new(uint64))), 8, 0)
		}},
		{"bytes too long", "4100 bytes for index 0, want 1 to 4096", set("setBytes:length:atIndex:", uintptr(unsafe.Pointer(new([4100]byte))), 4100, 0)},
		{"bytes index", "31, want at most 30", set("setBytes:length:atIndex:", uintptr(unsafe.Pointer(new(uint64))), 8, 31)},
		{"buffer index", "31, want at most 30", set("setBuffer:offset:atIndex:", 0, 0, 31)},
		{"threadgroup memory", "want a multiple of 16", set("setThreadgroupMemoryLength:atIndex:", 24, 0)},
		{"pipeline nil", "setComputePipelineState: nil", set("setComputePipelineState:", 0)},
		{"debug groups", "popDebugGroup: none was pushed", set("popDebugGroup")},
		{"buffer not bound", "dispatch of twice: buffer 1 (device float4* out) is not bound", func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			ready(r, e)
			r.msg(e, "setBuffer:offset:atIndex:", 0, 0, 1)
			r.dispatchThreadgroups(e, one, one)
			end(r, cb, e)
		}},
		{"no threadgroup memory", "threadgroup memory 0 (threadgroup float* part) has no length", func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			ready(r, e)
			r.msg(e, "setThreadgroupMemoryLength:atIndex:", 0, 0)
			r.dispatchThreadgroups(e, one, one)
			end(r, cb, e)
		}},
		{"no pipeline", "dispatch of nothing: no pipeline is set", func(r *raw, queue uintptr) {
			cb, e := encoder(r, queue)
			r.dispatchThreadgroups(e, one, one)
			end(r, cb, e)
		}},
		{"offset of a vector", "buffer 0 (device const float4* in) has offset 8, want a multiple of 16", dispatch(one, one, 0, 8)},
		{"offset beyond", "offset 64 of buffer 0, which has 64 bytes", dispatch(size{0, 1, 1}, one, 0, 64)},
		{"no threads", "no threads", dispatch(size{0, 1, 1}, one)},
		{"too many threads", "1056 threads per threadgroup, want at most 1024", dispatch(one, size{33, 32, 1})},
		{"fill", "fillBuffer: bytes 60 and 8 more of 64", func(r *raw, queue uintptr) {
			b := r.msg(r.device, "newBufferWithLength:options:", 64, 0)
			cb := r.msg(queue, "commandBuffer")
			e := r.msg(cb, "blitCommandEncoder")
			r.msg(e, "fillBuffer:range:value:", b, 60, 8, 0)
			end(r, cb, e)
			r.msg(b, "release")
		}},
		{"overlapping copy", "which overlap", func(r *raw, queue uintptr) {
			b := r.msg(r.device, "newBufferWithLength:options:", 64, 0)
			cb := r.msg(queue, "commandBuffer")
			e := r.msg(cb, "blitCommandEncoder")
			r.msg(e, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", b, 0, b, 4, 8)
			end(r, cb, e)
			r.msg(b, "release")
		}},
		{"event that shrinks", "setSignaledValue: 3, after 4; values of an event grow", func(r *raw, queue uintptr) {
			e := r.msg(r.device, "newSharedEvent")
			r.msg(e, "setSignaledValue:", 4)
			r.msg(e, "setSignaledValue:", 3)
			r.msg(e, "release")
		}},
		{"event in vain", "an event was waited for until it had value 2, and nobody signalled more than 1", func(r *raw, queue uintptr) {
			e := r.msg(r.device, "newSharedEvent")
			r.msg(e, "setSignaledValue:", 1)
			if got := byte(r.msg(e, "waitUntilSignaledValue:timeoutMS:", 2, 1)); got != 0 {
				r.Errorf("the wait returned %d", got)
			}
			r.msg(e, "release")
		}},
		{"64 command buffers", "64 command buffers of the queue have not completed, and the first is not committed: this waits forever", func(r *raw, queue uintptr) {
			for range 65 {
				r.msg(queue, "commandBuffer")
			}
		}},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			r := rawly(t, Options{})
			pool, _, _ := purego.SyscallN(r.push)
			r.device, _, _ = purego.SyscallN(r.create)
			queue := r.msg(r.device, "newCommandQueue")
			c.f(r, queue)
			r.msg(queue, "release")
			r.msg(r.device, "release")
			purego.SyscallN(r.pop, pool)
			report := r.Standin.Close()
			got := report.Violations()
			switch {
			case c.want == "" && len(got) != 0:
				t.Errorf("violations %q, want none", got)
			case c.want != "" && (len(got) == 0 || !strings.Contains(got[0], c.want)):
				t.Errorf("violations %q, want first %q", got, c.want)
			}
			if len(report.Live()) != 0 {
				t.Errorf("left behind: %v", report.Live())
			}
		})
	}
}
