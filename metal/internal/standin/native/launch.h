// Dispatches, run on the emulated GPU.
#pragma once
#include <memory>
#include <stdlib.h>
#include "encode.h"
#include "residency.h"

static std::vector<Region> spare;  // regions of a page each, for the bytes of setBytes

struct Launch {
  Pipeline* pipeline;
  std::vector<Encoder::Bound> bound;
  std::vector<size_t> memory;
  Size groups, threads;
  std::vector<Region> regions;  // for the bytes of setBytes, by index

  std::string run();
  std::string gather(void** bufs);
  std::string blame(const msl_fault& f);
};

// place puts bytes at the end of a page followed by a guard. If the kernel's structure is longer
// than the bytes, reading it faults.
static unsigned char* place(Region& r, const std::string& bytes) {
  size_t align = 16;  // a type's size is a multiple of its alignment
  while (bytes.size() % align) align /= 2;
  unsigned char* at = r.bytes + r.size - bytes.size();
  memset(r.bytes, poison, r.size);
  memcpy(at, bytes.data(), bytes.size());
  return at;
}

// gather finds the addresses of the arguments.
std::string Launch::gather(void** bufs) {
  regions.resize(bound.size());
  for (const Argument& a : pipeline->arguments) {
    if (a.memory) continue;
    Encoder::Bound& b = bound[a.index];
    if (b.buffer) {
      if (!b.buffer->mapped()) return format("buffer %d (%s): its memory was unmapped before the GPU was done", a.index, a.text.c_str());
      bufs[a.index] = b.buffer->bytes + b.offset;
      continue;
    }
    Lock lock(mu);
    Region& r = regions[a.index];
    if (!spare.empty()) {
      r = spare.back();
      spare.pop_back();
    } else if (!r.allocate(4096, 4096)) {
      return "no memory";
    }
    bufs[a.index] = place(r, b.bytes);
  }
  return "";
}

// blame names the argument next to a bad address.
std::string Launch::blame(const msl_fault& f) {
  for (const Argument& a : pipeline->arguments) {
    if (a.memory || !f.signal) continue;
    const Encoder::Bound& b = bound[a.index];
    const Region& r = b.buffer ? b.buffer->heap ? b.buffer->heap->region : b.buffer->region : regions[a.index];
    if (!r.has(f.address)) continue;
    size_t size = b.buffer ? b.buffer->size : b.bytes.size();
    long at = (long)(f.address - (uint64_t)(b.buffer ? b.buffer->bytes : r.bytes + r.size - b.bytes.size()));
    return format("; that is byte %ld of buffer %d (%s), which has %zu", at, a.index, a.text.c_str(), size);
  }
  return "";
}

// Counter counts a launch's work, if kernels are built for counting.
class Counter {
  Launch* launch;
  std::unique_ptr<msl_counts> c;

 public:
  Counter(Launch* l, void** bufs) : launch(l) {
    if (!settings.count) return;
    c.reset(new msl_counts());
    for (const Argument& a : l->pipeline->arguments) {
      if (a.memory || !bufs[a.index]) continue;
      const Encoder::Bound& b = l->bound[a.index];
      msl_counted& t = c->buffers[a.index];
      t.begin = (uint64_t)bufs[a.index];
      t.size = b.buffer ? b.buffer->size - b.offset : b.bytes.size();
      t.seen = (uint32_t*)calloc(t.size + 1, sizeof(uint32_t));
    }
  }
  ~Counter() {
    for (int i = 0; c && i < 31; i++) free(c->buffers[i].seen);
  }
  msl_counts* counts() { return c.get(); }
  void add(uint64_t groups) {
    Lock lock(mu);
    done.threadgroups += groups;
    if (!c) return;
    for (const Argument& a : launch->pipeline->arguments) {
      if (a.memory) continue;
      auto& to = a.text.compare(0, 8, "constant") == 0 ? done.constants : done.device;
      const msl_counted& t = c->buffers[a.index];
      to.loaded += t.loads, to.read += t.read, to.once += t.once, to.written += t.written;
    }
    done.memory_read += c->memory_read, done.memory_written += c->memory_written, done.tables += c->tables;
    done.products16 += c->products16, done.products32 += c->products32, done.operations += c->operations;
    done.products_tensor += c->products_tensor;
    done.simd_operations += c->simd_operations, done.thread_barriers += c->barriers;
  }
};

std::string Launch::run() {
  void* bufs[31] = {};
  uint64_t lens[31] = {};
  msl_dispatch d = {};
  std::string text = gather(bufs);
  for (const Argument& a : pipeline->arguments)
    if (a.memory) lens[a.index] = d.smem, d.smem += (uint32_t)memory[a.index];
  const Word tgs[3] = {groups.width, groups.height, groups.depth}, ntg[3] = {threads.width, threads.height, threads.depth};
  uint64_t total = 1;
  for (int i = 0; i < 3; i++) {
    d.tgs[i] = (uint32_t)tgs[i], d.ntg[i] = (uint32_t)ntg[i], d.grid[i] = d.tgs[i] * d.ntg[i];
    total *= tgs[i];
  }
  d.fn = pipeline->function->kernel->fn;
  d.bufs = bufs, d.lens = lens;
  d.order = settings.order, d.seed = settings.seed, d.poison = 1;
  Counter counter(this, bufs);
  d.counts = counter.counts();
  Kernels* k = pipeline->function->library->kernels;
  Lock lock(mu);
  void* worker = text.empty() ? k->worker() : nullptr;
  lock.unlock();
  if (text.empty() && !worker) text = "no memory for the threads' stacks";
  if (text.empty()) {
    bool shared = k->has_constants();
    if (shared) {
      pthread_mutex_lock(k->lock);
      for (msl_constant* c = k->constants; c->name; c++) {
        auto v = pipeline->function->constants.find(c->index);
        memset(c->value, 0, c->size);
        if (v != pipeline->function->constants.end()) memcpy(c->value, &v->second.bits, c->size);
      }
    }
    Watched watched(worker, k->worker_stop);
    if (k->run(worker, &d, 0, total)) {
      msl_fault f = {};
      k->worker_fault(worker, &f);
      text = k->worker_err(worker) + blame(f);
      if (watched.late()) text += format("; it ran for more than %u ms: Caused GPU Hang Error", settings.limit);
    }
    if (shared) pthread_mutex_unlock(k->lock);
  }
  counter.add(total);
  for (const Argument& a : pipeline->arguments) {
    const Buffer* b = a.memory ? nullptr : bound[a.index].buffer;
    if (text.empty() && b && b->region.map && b->region.overrun())
      text = format("wrote past the end of buffer %d (%s), which has %zu bytes", a.index, a.text.c_str(), b->size);
  }
  lock.lock();
  if (worker) k->idle.push_back(worker);
  for (Region& r : regions)
    if (r.map) spare.push_back(r);
  regions.clear();
  return text.empty() ? "" : std::string("kernel ") + pipeline->name() + ": " + text;
}

static void encoder_dispatch(Encoder* e, SEL, Size groups, Size threads) {
  Lock lock(mu);
  if (!usable(e, "dispatchThreadgroups:threadsPerThreadgroup:")) return;
  std::string what = missing(e, groups, threads);
  if (!what.empty()) return violation(std::string("dispatch of ") + (e->pipeline ? e->pipeline->name() : "nothing") + ": " + what);
  done.dispatches++;
  for (const Argument& a : e->pipeline->arguments)
    if (!a.memory && e->bound[a.index].buffer && !is_resident(e->commands->queue, e->bound[a.index].buffer)) done.not_resident++;
  Launch l = {e->pipeline, e->bound, e->memory, groups, threads, {}};
  add(e, [l]() mutable { return l.run(); });
}
