// MTLLibrary, MTLFunction, function constants and MTLComputePipelineState, over shared
// objects of kernels that were compiled for the emulated GPU.
#pragma once
#include <dlfcn.h>
#define MSL_ABI_TYPES_ONLY
#include "abi.h"
#include "foundation.h"

// compile is a function in Go, compiling source for the stand-in with the given number. It writes
// the path of a shared object to out and returns 0, or writes the compiler's text and returns 1.
typedef Word (*Compile)(Word number, const char* source, Word length, Word language, Word fast, char* out, Word room);
static Compile compile;
static Word number;

// The locks belong to the process, because two stand-ins using the same shared object share its
// function constants.
static pthread_mutex_t* locks;
static const size_t lock_count = 64;

// Kernels is a shared object. It is never closed, because it has installed a signal handler.
struct Kernels {
  msl_kernel* kernels;
  msl_constant* constants;
  void* (*worker_new)();
  int (*run)(void*, msl_dispatch*, uint64_t, uint64_t);
  const char* (*worker_err)(void*);
  void (*worker_free)(void*);
  void (*worker_stop)(void*);
  void (*worker_fault)(void*, msl_fault*);
  pthread_mutex_t* lock;
  std::vector<void*> idle;  // workers

  void* worker() {
    if (idle.empty()) return worker_new();
    void* w = idle.back();
    idle.pop_back();
    return w;
  }
  const msl_constant* constant(int index) const {
    for (msl_constant* c = constants; c->name; c++)
      if (c->index == index) return c;
    return nullptr;
  }
  bool has_constants() const { return constants->name != nullptr; }
};
static std::map<std::string, Kernels*> loaded;

static Kernels* load_kernels(const std::string& path, std::string* why) {
  Kernels*& k = loaded[path];
  if (k) return k;
  void* h = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!h) {
    *why = dlerror();
    return nullptr;
  }
  Kernels n;
  struct {
    const char* name;
    void** to;
  } wanted[] = {{"msl_kernels", (void**)&n.kernels}, {"msl_fcs", (void**)&n.constants}, {"msl_worker_new", (void**)&n.worker_new}, {"msl_run", (void**)&n.run},
                {"msl_worker_err", (void**)&n.worker_err}, {"msl_worker_free", (void**)&n.worker_free}, {"msl_worker_stop", (void**)&n.worker_stop}, {"msl_worker_fault", (void**)&n.worker_fault}};
  for (auto& w : wanted)
    if (!(*w.to = dlsym(h, w.name))) {
      *why = dlerror();
      return nullptr;
    }
  n.lock = &locks[((Word)h >> 6) % lock_count];
  return k = new Kernels(n);
}

struct Library : Object {
  Kernels* kernels = nullptr;
  static const char* class_name() { return "MTLLibrary"; }
  void finished() {}
};

struct CompileOptions : Object {
  bool fast = true;
  Word language = 0;  // 0 if none is set: the version then depends on how the program was linked
  static const char* class_name() { return "MTLCompileOptions"; }
  void finished() {}
};

static void options_fast(CompileOptions* o, SEL, Bool fast) { o->fast = (uint8_t)fast != 0; }

static void options_language(CompileOptions* o, SEL, Word language) { o->language = language; }

// language_since returns the first macOS version having a version of the language. It returns 0 for
// a version that is unknown or has no bfloat.
static Word language_since(Word language) { return language == 0x30001 ? 14 : language == 0x30002 ? 15 : language == 0x40000 ? 26 : 0; }

static const char* library_domain = "MTLLibraryErrorDomain";
enum { library_unsupported = 1, library_compile_failure = 3, library_function_not_found = 5 };

static Object* device_library(Object*, SEL, String* source, CompileOptions* options, Object** failure) {
  if (!options || !options->language) {
    Lock lock(mu);
    violation("newLibraryWithSource:options:error: no language version is set; the default depends on the SDK that the program was linked against");
    return nullptr;
  }
  Word since = language_since(options->language);
  if (!since || since > settings.system) {
    Lock lock(mu);
    set_error(failure, library_domain, library_unsupported, format("invalid language version %#lx on macOS %u", (unsigned long)options->language, settings.system));
    return nullptr;
  }
  std::string text(1 << 16, 0);
  Word failed = compile(number, source->text.c_str(), source->text.size(), options->language, options->fast, &text[0], text.size());
  text.resize(strlen(text.c_str()));
  Lock lock(mu);
  std::string why;
  Kernels* k = failed ? nullptr : load_kernels(text, &why);
  if (!k) {
    set_error(failure, library_domain, library_compile_failure, failed ? text : why);
    return nullptr;
  }
  Library* l = make<Library>();
  l->kernels = k;
  return l;
}

static Object* library_names(Library* l, SEL) {
  Lock lock(mu);
  Array* a = make<Array>();
  for (msl_kernel* k = l->kernels->kernels; k->name; k++) a->items.push_back(string(k->name));
  return autorelease(a);
}

// Constants is an MTLFunctionConstantValues.
struct Value {
  Word type;
  uint64_t bits;
};

struct Constants : Object {
  std::map<int, Value> values;
  static const char* class_name() { return "MTLFunctionConstantValues"; }
  void finished() {}
};

// type_size returns the size of an MTLDataType, 0 if function constants cannot have it here.
static size_t type_size(Word type) {
  switch (type) {
    case 45: case 49: case 53: return 1;  // char, uchar, bool
    case 16: case 37: case 41: return 2;  // half, short, ushort
    case 3: case 29: case 33: return 4;   // float, int, uint
    case 81: case 85: return 8;           // long, ulong
  }
  return 0;
}

static void constants_set(Constants* c, SEL, const void* value, Word type, Word index) {
  Lock lock(mu);
  size_t n = type_size(type);
  if (!n || !value) {
    violation(format("setConstantValue:type:atIndex: type %lu of constant %lu, want that of a number", (unsigned long)type, (unsigned long)index));
    return;
  }
  Value v = {type, 0};
  memcpy(&v.bits, value, n);
  c->values[(int)index] = v;
}

struct Function : Object {
  Library* library = nullptr;
  msl_kernel* kernel = nullptr;
  std::map<int, Value> constants;
  static const char* class_name() { return "MTLFunction"; }
  void finished() { release(library); }
};

static Function* find_function(Library* l, String* name) {
  for (msl_kernel* k = l->kernels->kernels; name && k->name; k++)
    if (name->text == k->name) {
      Function* f = make<Function>();
      f->library = l, f->kernel = k;
      retain(l);
      return f;
    }
  return nullptr;
}

static Object* library_function(Library* l, SEL, String* name) {
  Lock lock(mu);
  return find_function(l, name);
}

static Object* library_function_constants(Library* l, SEL, String* name, Constants* values, Object** failure) {
  Lock lock(mu);
  for (auto& v : values->values) {
    const msl_constant* c = l->kernels->constant(v.first);
    if (!c) {
      violation(format("function %s: constant %d is not in the library", name->text.c_str(), v.first));
    } else if (c->size != type_size(v.second.type)) {
      set_error(failure, library_domain, library_function_not_found, format("function constant %s has %u bytes and was set to a value of %zu", c->name, c->size, type_size(v.second.type)));
      return nullptr;
    }
  }
  Function* f = find_function(l, name);
  if (f)
    f->constants = values->values;
  else
    set_error(failure, library_domain, library_function_not_found, "no function is named " + name->text);
  return f;
}

// Argument is a kernel's requirement for the argument at an index.
struct Argument {
  bool memory;  // of the threadgroup
  int index;
  size_t align;  // the required alignment of its target
  std::string text;
};

// alignment returns the alignment of the vector type with that name, and at least 4.
static size_t alignment(const std::string& type) {
  static const struct {
    const char* name;
    size_t size;
  } scalars[] = {{"float", 4}, {"half", 2}, {"bfloat", 2}, {"int", 4}, {"uint", 4}, {"short", 2}, {"ushort", 2}, {"char", 1}, {"uchar", 1}, {"long", 8}, {"ulong", 8}};
  size_t most = 4;
  for (size_t at = 0; at < type.size();) {
    size_t end = type.find_first_of(" *&", at);
    if (end == std::string::npos) end = type.size();
    std::string word = type.substr(at, end - at);
    for (auto& s : scalars) {
      size_t n = strlen(s.name);
      if (word.compare(0, n, s.name)) continue;
      size_t size = word.size() == n ? s.size : word.size() == n + 1 && word[n] >= '2' && word[n] <= '4' ? s.size * (word[n] == '2' ? 2 : 4) : 0;
      if (size > most) most = size;
    }
    at = end + 1;
  }
  return most;
}

struct Pipeline : Object {
  Function* function = nullptr;
  std::vector<Argument> arguments;
  static const char* class_name() { return "MTLComputePipelineState"; }
  void finished() { release(function); }
  const char* name() const { return function->kernel->name; }
};

static Object* device_pipeline(Object*, SEL, Function* f, Object** failure) {
  Lock lock(mu);
  if (!f) {
    set_error(failure, "MTLPipelineErrorDomain", 1, "the function is nil");
    return nullptr;
  }
  Pipeline* p = make<Pipeline>();
  p->function = f;
  retain(f);
  const char* a = f->kernel->args;
  while (a && *a) {
    const char *end = strchr(a, ';'), *colon = strchr(a, ':');
    if (!end || !colon || colon > end) break;
    Argument g;
    g.memory = !strncmp(a, "tgmem", 5);
    g.index = atoi(a + (g.memory ? 5 : 3));
    g.text.assign(colon + 1, end);
    g.align = alignment(g.text);
    p->arguments.push_back(g);
    a = end + 1;
  }
  return p;
}

static const Word most_threads = 1024, most_memory = 32768;

static Word pipeline_threads(Object*, SEL) { return most_threads; }
static Word pipeline_width(Object*, SEL) { return settings.width; }
static Word pipeline_memory(Object*, SEL) { return 0; }
