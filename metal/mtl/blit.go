package mtl

// Blit encodes copies and fills. Each sees the writes of earlier ones. Only one goroutine may use
// it, until End.
type Blit struct {
	object
	cb *CommandBuffer
}

// Blit opens an encoder for copies and fills.
func (cb *CommandBuffer) Blit() *Blit {
	b := &Blit{cb: cb}
	b.rt = cb.rt
	cb.begin(&b.object, "blit encoder", cb.rt.sel.blitEncoder)
	return b
}

// open reports whether the encoder is usable. If not, it records the mistake in the command buffer.
func (b *Blit) open(what string) bool {
	if b.cb.encoder != &b.object {
		b.cb.fail("%s: the encoder has ended", what)
	}
	return b.cb.err == nil
}

// within checks that n bytes from offset on lie in x. If not, it records the mistake in the command
// buffer.
func (b *Blit) within(what string, x *Buffer, offset, n int) {
	if x == nil {
		b.cb.fail("%s: the buffer is nil", what)
	} else if x.id.Load() == 0 {
		b.cb.fail("%s: the buffer is closed", what)
	} else if offset < 0 || n <= 0 || offset > len(x.bytes) || n > len(x.bytes)-offset {
		b.cb.fail("%s: bytes %d to %d, want some of the buffer's %d", what, offset, offset+n, len(x.bytes))
	}
}

// Copy copies n bytes from one buffer to another, or to another place in the same
// buffer.
func (b *Blit) Copy(to *Buffer, toOffset int, from *Buffer, fromOffset, n int) {
	b.within("copy to", to, toOffset, n)
	b.within("copy from", from, fromOffset, n)
	if b.cb.err == nil && to == from && toOffset < fromOffset+n && fromOffset < toOffset+n {
		b.cb.fail("copy: bytes %d to %d and %d to %d of one buffer overlap", fromOffset, fromOffset+n, toOffset, toOffset+n)
	}
	if b.open("copy") {
		b.rt.msg(b.id.Load(), b.rt.sel.copyBuffer, from.id.Load(), uintptr(fromOffset), to.id.Load(), uintptr(toOffset), uintptr(n))
	}
}

// Fill sets n bytes of x to value.
func (b *Blit) Fill(x *Buffer, offset, n int, value byte) {
	b.within("fill", x, offset, n)
	if b.open("fill") {
		// An NSRange has two words, passed in two registers like two integers.
		b.rt.msg(b.id.Load(), b.rt.sel.fillBuffer, x.id.Load(), uintptr(offset), uintptr(n), uintptr(value))
	}
}

// End ends the encoder, also after a mistake. It may be called twice.
func (b *Blit) End() {
	if b.cb.encoder == &b.object {
		b.cb.endEncoder()
	}
}
