// MTLComputeCommandEncoder: arguments, and dispatches, which it checks like Metal's debug layer.
#pragma once
#include "commands.h"

struct Size {
  Word width, height, depth;
  Word count() const { return width * height * depth; }
};

struct Encoder : Object {
  CommandBuffer* commands = nullptr;  // held until it ends
  bool blit = false, concurrent = false;
  Pipeline* pipeline = nullptr;
  struct Bound {
    Buffer* buffer = nullptr;
    size_t offset = 0;
    std::string bytes;
    bool set() const { return buffer || !bytes.empty(); }
  };
  std::vector<Bound> bound = std::vector<Bound>(31);
  std::vector<size_t> memory = std::vector<size_t>(31);
  std::vector<Step> unordered;  // dispatches since the last barrier, which run in any order
  size_t barriers = 0;
  long groups = 0;

  bool ended() const { return !commands; }
  void finished() {
    if (!commands) return;
    violation(commands->name() + ": an encoder was released that has not ended");
    commands->open = nullptr;
    release(commands);
  }
};
struct ComputeEncoder : Encoder {
  static const char* class_name() { return "MTLComputeCommandEncoder"; }
};
struct BlitEncoder : Encoder {
  static const char* class_name() { return "MTLBlitCommandEncoder"; }
};

template <class T>
static Object* open_encoder(CommandBuffer* c, bool concurrent) {
  if (c->open) violation(c->name() + ": a second encoder is opened while one is open");
  if (c->status >= committed) violation(c->name() + ": an encoder is opened after commit");
  if (c->open || c->status >= committed) return nullptr;
  T* e = make<T>();
  e->commands = c;
  e->concurrent = concurrent;
  retain(c);
  c->open = e;
  return autorelease(e);
}

static Object* buffer_compute(CommandBuffer* c, SEL) {
  Lock lock(mu);
  return open_encoder<ComputeEncoder>(c, false);
}

static Object* buffer_compute_of(CommandBuffer* c, SEL, Word type) {
  Lock lock(mu);
  if (type > 1) violation(format("computeCommandEncoderWithDispatchType: %lu, want 0 or 1", (unsigned long)type));
  return open_encoder<ComputeEncoder>(c, type == 1);
}

static Object* buffer_blit(CommandBuffer* c, SEL) {
  Lock lock(mu);
  return open_encoder<BlitEncoder>(c, false);
}

// usable reports whether an encoder has not ended. It autoreleases an object, as Metal does while
// encoding.
static bool usable(Encoder* e, const char* what) {
  temporary();
  if (e->ended()) violation(std::string(what) + " after endEncoding");
  return !e->ended();
}

// flush arranges the dispatches allowed to run in any order according to the settings, so that a
// missing barrier shows.
static void flush(Encoder* e) {
  std::vector<Step>& u = e->unordered;
  if (settings.order == MSL_REVERSE)
    for (size_t i = 0, j = u.size(); i + 1 < j; i++) std::swap(u[i], u[--j]);
  if (settings.order == MSL_RANDOM) {
    uint64_t r = settings.seed * 6364136223846793005ull + e->commands->steps.size() + 1;
    for (size_t i = u.size(); i > 1; i--) {
      r ^= r << 13, r ^= r >> 7, r ^= r << 17;
      std::swap(u[i - 1], u[r % i]);
    }
  }
  for (Step& s : u) e->commands->steps.push_back(std::move(s));
  u.clear();
}

static void add(Encoder* e, std::function<std::string()> work) {
  e->unordered.push_back({std::move(work), nullptr, 0, false});
  if (!e->concurrent) flush(e);
}

static void encoder_end(Encoder* e, SEL) {
  Lock lock(mu);
  if (!usable(e, "endEncoding")) return;
  if (e->groups) violation(e->commands->name() + ": endEncoding with a debug group that is pushed and not popped");
  flush(e);
  CommandBuffer* c = e->commands;
  e->commands = nullptr;
  c->open = nullptr;
  release(c);
}

static void encoder_barrier(Encoder* e, SEL, Word) {
  Lock lock(mu);
  if (!usable(e, "memoryBarrierWithScope:")) return;
  done.barriers++;
  flush(e);
}

static void encoder_push(Encoder* e, SEL, String* name) {
  Lock lock(mu);
  if (usable(e, "pushDebugGroup:")) e->groups++, done.debug_groups++;
  if (!name) violation("pushDebugGroup: nil");
}

static void encoder_pop(Encoder* e, SEL) {
  Lock lock(mu);
  if (usable(e, "popDebugGroup") && e->groups-- == 0) violation("popDebugGroup: none was pushed");
}

static void encoder_pipeline(Encoder* e, SEL, Pipeline* p) {
  Lock lock(mu);
  if (!usable(e, "setComputePipelineState:")) return;
  if (!p) violation("setComputePipelineState: nil");
  if (p) e->commands->hold(p);
  e->pipeline = p;
}

static void encoder_buffer(Encoder* e, SEL, Buffer* b, Word offset, Word index) {
  Lock lock(mu);
  if (!usable(e, "setBuffer:offset:atIndex:")) return;
  if (index >= e->bound.size()) return violation(format("setBuffer:offset:atIndex: %lu, want at most %zu", (unsigned long)index, e->bound.size() - 1));
  if (b && offset >= b->size) violation(format("setBuffer:offset:atIndex: offset %lu of buffer %lu, which has %zu bytes", (unsigned long)offset, (unsigned long)index, b->size));
  e->bound[index] = Encoder::Bound();
  if (!b || offset >= b->size) return;
  e->bound[index].buffer = b;
  e->bound[index].offset = offset;
  e->commands->hold(b);
}

static void encoder_bytes(Encoder* e, SEL, const char* p, Word n, Word index) {
  Lock lock(mu);
  if (!usable(e, "setBytes:length:atIndex:")) return;
  if (index >= e->bound.size()) return violation(format("setBytes:length:atIndex: %lu, want at most %zu", (unsigned long)index, e->bound.size() - 1));
  if (!p || !n || n > 4096) return violation(format("setBytes:length:atIndex: %lu bytes for index %lu, want 1 to 4096", (unsigned long)n, (unsigned long)index));
  e->bound[index] = Encoder::Bound();
  e->bound[index].bytes.assign(p, n);
}

static void encoder_memory(Encoder* e, SEL, Word n, Word index) {
  Lock lock(mu);
  if (!usable(e, "setThreadgroupMemoryLength:atIndex:")) return;
  if (index >= e->memory.size() || n % 16 || n > most_memory)
    return violation(format("setThreadgroupMemoryLength:atIndex: %lu bytes for index %lu, want a multiple of 16 up to %lu", (unsigned long)n, (unsigned long)index, (unsigned long)most_memory));
  e->memory[index] = n;
}

// missing returns the requirements that a dispatch lacks, "" if none.
static std::string missing(Encoder* e, Size groups, Size threads) {
  if (!e->pipeline) return "no pipeline is set";
  if (!groups.count() || !threads.count()) return "no threads";
  if (threads.count() > most_threads) return format("%lu threads per threadgroup, want at most %lu", (unsigned long)threads.count(), (unsigned long)most_threads);
  size_t memory = 0;
  for (const Argument& a : e->pipeline->arguments) {
    if (a.index < 0 || a.index >= 31) return format("argument %s has index %d, want at most 30", a.text.c_str(), a.index);
    if (a.memory) {
      if (!e->memory[a.index]) return format("threadgroup memory %d (%s) has no length", a.index, a.text.c_str());
      memory += e->memory[a.index];
      continue;
    }
    const Encoder::Bound& b = e->bound[a.index];
    if (!b.set()) return format("buffer %d (%s) is not bound", a.index, a.text.c_str());
    if (b.buffer && b.offset % a.align) return format("buffer %d (%s) has offset %zu, want a multiple of %zu", a.index, a.text.c_str(), b.offset, a.align);
  }
  if (memory > most_memory) return format("%zu bytes of threadgroup memory, want at most %lu", memory, (unsigned long)most_memory);
  return "";
}
