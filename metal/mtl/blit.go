package mtl

// Blit encodes copies and fills, each of which sees what those before have written. It
// is used by one goroutine, until End.
type Blit struct {
	object
	cb *CommandBuffer
}

// Blit opens an encoder of copies and fills.
func (cb *CommandBuffer) Blit() *Blit {
	b := &Blit{cb: cb}
	b.rt = cb.rt
	cb.begin(&b.object, "blit encoder", cb.rt.sel.blitEncoder)
	return b
}

// open reports whether the encoder can be used, and keeps the mistake if not.
func (b *Blit) open(what string) bool {
	if b.cb.encoder != &b.object {
		b.cb.fail("%s: the encoder has ended", what)
	}
	return b.cb.err == nil
}

// within keeps the mistake if n bytes from offset on are not all in x.
func (b *Blit) within(what string, x *Buffer, offset, n int) {
	if x == nil {
		b.cb.fail("%s: the buffer is nil", what)
	} else if x.id.Load() == 0 {
		b.cb.fail("%s: the buffer is closed", what)
	} else if offset < 0 || n <= 0 || offset > len(x.bytes) || n > len(x.bytes)-offset {
		b.cb.fail("%s: bytes %d to %d, want some of the buffer's %d", what, offset, offset+n, len(x.bytes))
	}
}

// Copy copies n bytes from one buffer to another, or to other bytes of the same.
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
		// An NSRange has two words: it goes in two registers, as they would.
		b.rt.msg(b.id.Load(), b.rt.sel.fillBuffer, x.id.Load(), uintptr(offset), uintptr(n), uintptr(value))
	}
}

// End ends the encoder, whether there was a mistake or not. Ending it twice is none.
func (b *Blit) End() {
	if b.cb.encoder == &b.object {
		b.cb.endEncoder()
	}
}
