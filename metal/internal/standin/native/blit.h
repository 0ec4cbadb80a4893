// MTLBlitCommandEncoder.
#pragma once
#include "encode.h"

struct Range {
  Word location, length;
};

static bool inside(const Buffer* b, Word at, Word n) { return b && n && at <= b->size && n <= b->size - at; }

static void blit_fill(Encoder* e, SEL, Buffer* b, Range r, uint8_t value) {
  Lock lock(mu);
  if (!usable(e, "fillBuffer:range:value:")) return;
  if (!inside(b, r.location, r.length))
    return violation(format("fillBuffer: bytes %lu and %lu more of %zu", (unsigned long)r.location, (unsigned long)r.length, b ? b->size : 0));
  e->commands->hold(b);
  add(e, [=]() -> std::string {
    if (!b->mapped()) return "fillBuffer: its memory was unmapped before the GPU was done";
    memset(b->bytes + r.location, value, r.length);
    return "";
  });
}

static void blit_copy(Encoder* e, SEL, Buffer* from, Word from_offset, Buffer* to, Word to_offset, Word n) {
  Lock lock(mu);
  if (!usable(e, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:")) return;
  bool overlap = from == to && from_offset < to_offset + n && to_offset < from_offset + n;
  if (!inside(from, from_offset, n) || !inside(to, to_offset, n) || overlap)
    return violation(format("copyFromBuffer: %lu bytes from %lu of %zu to %lu of %zu%s", (unsigned long)n, (unsigned long)from_offset, from ? from->size : 0, (unsigned long)to_offset,
                            to ? to->size : 0, overlap ? ", which overlap" : ""));
  e->commands->hold(from);
  e->commands->hold(to);
  add(e, [=]() -> std::string {
    if (!from->mapped() || !to->mapped()) return "copyFromBuffer: memory was unmapped before the GPU was done";
    memcpy(to->bytes + to_offset, from->bytes + from_offset, n);
    return "";
  });
}
