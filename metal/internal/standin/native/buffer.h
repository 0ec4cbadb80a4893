// MTLBuffer and MTLHeap.
#pragma once
#include <sys/mman.h>
#include <unistd.h>
#include "foundation.h"

static const unsigned char poison = 0xFF;  // NaN as floats, -1 as integers
static uint64_t allocated;                 // bytes of all buffers and heaps that exist

static size_t page() { return (size_t)sysconf(_SC_PAGESIZE); }

static const size_t guard = 16 << 20;  // bytes of address space, which take no memory

// Region is memory at the end of its pages, between two inaccessible guards. An access past the end
// faults, or falls into the few bytes of slack, which are checked after a dispatch.
struct Region {
  unsigned char* map = nullptr;
  size_t mapped = 0, size = 0, slack = 0;
  unsigned char* bytes = nullptr;

  bool allocate(size_t n, size_t align) {
    size_t p = page(), room = (n + p - 1) & ~(p - 1), rounded = (n + align - 1) & ~(align - 1);
    mapped = room + 2 * guard;
    void* m = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) return false;
    map = (unsigned char*)m;
    mprotect(map + guard, room, PROT_READ | PROT_WRITE);
    bytes = map + guard + room - rounded;
    size = n, slack = rounded - n;
    memset(map + guard, poison, room);
    return true;
  }
  void unmap() {
    if (map) munmap(map, mapped);
    map = nullptr;
  }
  bool overrun() const {
    for (size_t i = size; i < size + slack; i++)
      if (bytes[i] != poison) return true;
    return false;
  }
  bool has(uint64_t address) const { return map && address - (uint64_t)map < mapped; }
};

struct Heap : Object {
  Region region;
  size_t size = 0, used = 0;
  std::map<size_t, size_t> taken;  // lengths by offset
  String* label = nullptr;
  static const char* class_name() { return "MTLHeap"; }
  void finished() {
    allocated -= size;
    region.unmap();
    release(label);
    label = nullptr;
  }
  // find returns an offset at which n bytes fit, or -1, and the size of the largest gap.
  long find(size_t n, size_t align, size_t* most) const {
    size_t at = 0;
    long found = -1;
    *most = 0;
    auto gap = [&](size_t end) {
      if (end > at && end - at > *most) *most = end - at;
      if (found < 0 && end >= at && end - at >= n) found = (long)at;
    };
    for (auto& t : taken) {
      gap(t.first);
      at = (t.first + t.second + align - 1) & ~(align - 1);
    }
    gap(size);
    return found;
  }
};

struct Buffer : Object {
  unsigned char* bytes = nullptr;
  size_t size = 0;
  bool foreign = false;  // the memory belongs to the caller of newBufferWithBytesNoCopy
  Region region;
  Heap* heap = nullptr;
  size_t offset = 0;  // in the heap
  String* label = nullptr;
  static const char* class_name() { return "MTLBuffer"; }
  void finished() {
    if (region.map) {
      if (region.overrun()) violation(format("a buffer of %zu bytes was written past its end", size));
      allocated -= size;
    }
    region.unmap();
    if (heap) {
      memset(bytes, poison, size);
      heap->used -= heap->taken[offset];
      heap->taken.erase(offset);
      release(heap);
    }
    bytes = nullptr;
    release(label);
    label = nullptr;
  }
  // mapped reports whether the memory is still mapped: the owner of foreign memory may unmap it too soon.
  bool mapped() const { return !foreign || msync(bytes, size, MS_ASYNC) == 0; }
};

struct HeapDescriptor : Object {
  Word size = 0, storage = 2, hazards = 0;  // private storage is the default
  static const char* class_name() { return "MTLHeapDescriptor"; }
  void finished() {}
};

static const size_t heap_align = 256;

static bool take(uint64_t n) {
  if (n > settings.memory - allocated) return false;
  allocated += n;
  return true;
}

static Object* device_buffer(Object*, SEL, Word n, Word options) {
  Lock lock(mu);
  if (n == 0 || options != 0) {
    violation(format("newBufferWithLength:options: %lu bytes with options %#lx, want some bytes, shared", (unsigned long)n, (unsigned long)options));
    return nullptr;
  }
  if (!take(n)) return nullptr;
  Buffer* b = make<Buffer>();
  b->size = n;
  if (!b->region.allocate(n, 16)) {
    release(b);
    return nullptr;
  }
  b->bytes = b->region.bytes;
  return b;
}

static Object* device_buffer_over(Object*, SEL, void* p, Word n, Word options, void* deallocator) {
  Lock lock(mu);
  const char* what = "newBufferWithBytesNoCopy:length:options:deallocator:";
  if (!p || !n || (Word)p % page() || n % page()) {
    violation(format("%s %p, %lu bytes: want multiples of the page, %zu bytes", what, p, (unsigned long)n, page()));
    return nullptr;
  }
  if (options != 0 || deallocator) {
    violation(format("%s options %#lx and a deallocator at %p, want shared storage and none", what, (unsigned long)options, deallocator));
    return nullptr;
  }
  Buffer* b = make<Buffer>();
  b->bytes = (unsigned char*)p, b->size = n, b->foreign = true;
  if (!b->mapped()) {
    violation(format("%s %p, %lu bytes: not all of it is mapped", what, p, (unsigned long)n));
    release(b);
    return nullptr;
  }
  return b;
}

struct SizeAndAlign {
  Word size, align;
};

static SizeAndAlign device_heap_size(Object*, SEL, Word n, Word) { return {(n + heap_align - 1) & ~(heap_align - 1), heap_align}; }

static void descriptor_size(HeapDescriptor* d, SEL, Word n) { d->size = n; }
static void descriptor_storage(HeapDescriptor* d, SEL, Word n) { d->storage = n; }
static void descriptor_hazards(HeapDescriptor* d, SEL, Word n) { d->hazards = n; }

static Object* device_heap(Object*, SEL, HeapDescriptor* d) {
  Lock lock(mu);
  if (!d || !d->size || d->storage != 0 || d->hazards != 2) {
    violation("newHeapWithDescriptor: want a size, shared storage and tracked hazards");
    return nullptr;
  }
  if (!take(d->size)) return nullptr;
  Heap* h = make<Heap>();
  h->size = d->size;
  if (!h->region.allocate(d->size, heap_align)) {
    release(h);
    return nullptr;
  }
  return h;
}

static Object* heap_buffer(Heap* h, SEL, Word n, Word options) {
  Lock lock(mu);
  if (n == 0 || options != 0) {
    violation(format("heap: newBufferWithLength:options: %lu bytes with options %#lx, want some bytes, shared", (unsigned long)n, (unsigned long)options));
    return nullptr;
  }
  size_t room = (n + heap_align - 1) & ~(heap_align - 1), most;
  long at = h->find(room, heap_align, &most);
  if (at < 0) return nullptr;
  h->taken[(size_t)at] = room;
  h->used += room;
  Buffer* b = make<Buffer>();
  b->bytes = h->region.bytes + at, b->size = n, b->heap = h, b->offset = (size_t)at;
  retain(h);
  memset(b->bytes, poison, room);
  return b;
}

static Word heap_used(Heap* h, SEL) {
  Lock lock(mu);
  return h->used;
}

static Word heap_available(Heap* h, SEL, Word align) {
  Lock lock(mu);
  size_t most;
  h->find(SIZE_MAX, align, &most);
  return most;
}

static void* buffer_contents(Buffer* b, SEL) { return b->bytes; }
static Word buffer_length(Buffer* b, SEL) { return b->size; }
