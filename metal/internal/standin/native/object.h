// Classes, objects, their reference counts, and the reports about them.
#pragma once
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

typedef uintptr_t Word;     // the type of integer arguments and results
enum Bool : uintptr_t {};   // a register with a BOOL, of which only the low byte counts
typedef const char* SEL;    // a selector is its interned name
typedef void (*IMP)();      // a method, of whatever type it has
typedef std::unique_lock<std::mutex> Lock;

struct Class;

// Head is the start of classes and objects. It distinguishes them from other memory.
struct Head {
  uint64_t magic;
  Class* isa;
};
static const uint64_t class_magic = 0x7373616c63206c6dull, object_magic = 0x7463656a626f6c6dull, zombie_magic = 0x2064656573616c72ull;

struct Class : Head {
  std::string name;
  std::unordered_map<SEL, IMP> methods;
  long live = 0;
};

// Object is the start of all instances. finish releases the references held by the object. Its
// memory stays until destroy, as a zombie reporting every use.
struct Object : Head {
  long refs = 1;
  void (*finish)(Object*);
  void (*destroy)(Object*);
};

// The state of a stand-in. One lock guards all of it but autorelease pools, which belong to
// threads. changed is notified whenever some work has run.
static std::mutex mu;
static std::condition_variable changed;
static std::map<std::string, Class*> classes;
static std::map<std::string, SEL> selectors;
static std::deque<Object*> zombies;
static const size_t most_zombies = 1 << 15;
static std::vector<std::string> violations;
static const size_t most_violations = 1000;
static long outside_pools;

struct Settings {
  uint32_t order;      // the order of fibres, and of dispatches that may run in any order
  uint32_t eager;      // command buffers run when they are committed
  uint32_t absent;     // there is no device
  uint32_t stall;      // milliseconds for which the GPU waits for an event before it gives up
  uint32_t limit;      // milliseconds for which a kernel may run
  uint32_t system;     // the major version of macOS
  uint32_t width;      // threads of a simdgroup that pipelines report
  int32_t family;      // the greatest MTLGPUFamilyApple<n>, -1 if there is none
  uint64_t seed;
  uint64_t memory;     // bytes of buffers and heaps that the device has
  uint32_t count;      // sources are built to count
};
static Settings settings;

// Counted is the work of the stand-in. The fields from loaded to threadgroups are for kernels built
// for counting: see msl_counts in abi.h.
static struct {
  uint64_t dispatches, barriers, commits, waits, debug_groups;
  struct {
    uint64_t loaded, read, once, written;
  } device, constants;
  uint64_t memory_read, memory_written, tables, products16, products32, products_tensor, operations, simd_operations, thread_barriers, threadgroups;
  uint64_t not_resident;  // buffers of dispatches that are not in the queue's residency set
} done;

static std::string format(const char* f, ...) __attribute__((format(printf, 1, 2)));
static std::string format(const char* f, ...) {
  char text[1024];
  va_list a;
  va_start(a, f);
  vsnprintf(text, sizeof text, f, a);
  va_end(a);
  return text;
}

// violation records a violation of Metal's rules.
static void violation(const std::string& s) {
  if (violations.size() < most_violations) violations.push_back(s);
}

static Class* class_named(const char* name) {
  Class*& c = classes[name];
  if (!c) {
    Class* meta = new Class;
    meta->magic = class_magic, meta->isa = meta, meta->name = name;
    c = new Class;
    c->magic = class_magic, c->isa = meta, c->name = name;
  }
  return c;
}

template <class T>
static T* make() {
  T* o = new T;
  o->magic = object_magic;
  o->isa = class_named(T::class_name());
  o->finish = [](Object* x) { static_cast<T*>(x)->finished(); };
  o->destroy = [](Object* x) { delete static_cast<T*>(x); };
  o->isa->live++;
  return o;
}

static void retain(Object* o) {
  if (o) o->refs++;
}

static void release(Object* o) {
  if (!o || --o->refs > 0) return;
  o->isa->live--;
  o->finish(o);
  o->magic = zombie_magic;
  zombies.push_back(o);
  if (zombies.size() > most_zombies) {
    zombies.front()->destroy(zombies.front());
    zombies.pop_front();
  }
}

// Pools are the autorelease pools of a thread, innermost last. Pools is freed when its last pool
// ends, so that nothing is left to destroy when the thread ends.
struct Pools {
  std::vector<std::vector<Object*>> list;
};
static thread_local Pools* pools;

static bool in_pool() { return pools != nullptr; }

template <class T>
static T* autorelease(T* o) {
  if (!in_pool()) outside_pools++;  // the object leaks, because no pool will release it
  else if (o) pools->list.back().push_back(o);
  return o;
}

// temporary makes an object like the ones autoreleased by Metal itself while encoding.
static void temporary() {
  if (!in_pool()) outside_pools++;
}

EXPORT void* objc_autoreleasePoolPush() {
  if (!pools) pools = new Pools;
  pools->list.emplace_back();
  return (void*)pools->list.size();
}

EXPORT void objc_autoreleasePoolPop(void* token) {
  Lock lock(mu);
  size_t depth = pools ? pools->list.size() : 0;
  if (!token || (size_t)token > depth) {
    violation("autorelease pool: popped on another thread than it was pushed, or twice");
    return;
  }
  while (pools->list.size() >= (size_t)token) {
    auto objects = std::move(pools->list.back());
    pools->list.pop_back();
    for (auto o = objects.rbegin(); o != objects.rend(); ++o) {
      if ((*o)->magic == zombie_magic)
        violation("over-release: a pool releases a " + (*o)->isa->name + " that was released already");
      else
        release(*o);
    }
  }
  if (pools->list.empty()) {
    delete pools;
    pools = nullptr;
  }
}
