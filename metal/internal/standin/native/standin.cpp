// A stand-in for Apple's Objective-C runtime and Metal: the classes and methods that
// package mtl sends messages to, over kernels that are compiled for the emulated GPU.
#include "blit.h"
#include "launch.h"
#include "residency.h"

struct Device : Object {
  static const char* class_name() { return "MTLDevice"; }
  void finished() {}
};
static Device* device;

EXPORT Object* MTLCreateSystemDefaultDevice() {
  Lock lock(mu);
  if (settings.absent) return nullptr;
  retain(device);
  if (device->refs == 2) device->isa->live++;  // the first reference of a program
  temporary();
  return device;
}

static void device_release(Object* o, SEL) {
  Lock lock(mu);
  if (o->refs == 1) return violation("over-release: release was sent to an MTLDevice that was released already");
  if (--o->refs == 1) o->isa->live--;
}

static Object* device_name(Object*, SEL) {
  Lock lock(mu);
  return autorelease(string("emulated GPU"));
}

static Word device_id(Object*, SEL) { return 1; }
static Bool device_true(Object*, SEL) { return (Bool)0xABCDEF01; }  // only the low byte is the BOOL
static Bool device_family(Object*, SEL, Word family) {
  return (Bool)(0xABCDEF00 | ((family > 1000 && (long)family <= 1000 + settings.family) || family == 5001));
}
static Word device_memory(Object*, SEL) { return most_memory; }
static Word device_working_set(Object*, SEL) { return settings.memory; }
static Word device_allocated(Object*, SEL) {
  Lock lock(mu);
  return allocated;
}

// types is the type of a method: its result, then its arguments after the receiver and the
// selector. p is a pointer or an object, w an integer of a register, c one of a byte, b a BOOL,
// d a double, r a structure of two words and s one of three.
template <class T>
static char letter() {
  if (std::is_void<T>::value) return 'v';
  if (std::is_pointer<T>::value) return 'p';
  if (std::is_same<T, Bool>::value) return 'b';
  if (std::is_same<T, double>::value) return 'd';
  if (std::is_same<T, uint8_t>::value) return 'c';
  if constexpr (std::is_class<T>::value) return sizeof(T) == 16 ? 'r' : 's';
  return 'w';
}

template <class R, class Self, class... A>
static std::string types(R (*)(Self, SEL, A...)) {
  return {letter<R>(), letter<A>()...};
}

static std::vector<std::string> methods;  // of Foundation and Metal: class, selector, types

template <class F>
static void add_method(Class* c, const char* name, F f) {
  c->methods[sel_registerName(name)] = (IMP)f;
}

template <class F>
static void method(const char* of, const char* name, F f) {
  add_method(class_named(of), name, f);
  methods.push_back(std::string(of) + " -" + name + " " + types(f));
}

template <class F>
static void class_method(const char* of, const char* name, F f) {
  add_method(class_named(of)->isa, name, f);
  methods.push_back(std::string(of) + " +" + name + " " + types(f));
}

template <class T>
static void every() {
  Class* c = class_named(T::class_name());
  add_method(c, "retain", object_retain);
  add_method(c, "release", object_release);
  add_method(c, "init", object_init);
}

template <class T>
static void labelled() {
  method(T::class_name(), "setLabel:", set_label<T>);
}

static void foundation_methods() {
  every<String>(), every<Error>(), every<Array>(), every<ProcessInfo>();
  class_method("NSProcessInfo", "processInfo", process_info);
  method("NSProcessInfo", "isOperatingSystemAtLeastVersion:", process_at_least);
  class_method("NSString", "stringWithUTF8String:", string_with);
  method("NSString", "UTF8String", string_text);
  method("NSError", "localizedDescription", error_text);
  method("NSError", "domain", error_domain);
  method("NSError", "code", error_code);
  method("NSArray", "count", array_count);
  method("NSArray", "objectAtIndex:", array_at);
}

static void device_methods() {
  every<Device>();
  add_method(class_named("MTLDevice"), "release", device_release);
  method("MTLDevice", "name", device_name);
  method("MTLDevice", "registryID", device_id);
  method("MTLDevice", "hasUnifiedMemory", device_true);
  method("MTLDevice", "supportsFamily:", device_family);
  method("MTLDevice", "maxThreadgroupMemoryLength", device_memory);
  method("MTLDevice", "recommendedMaxWorkingSetSize", device_working_set);
  method("MTLDevice", "maxBufferLength", device_working_set);
  method("MTLDevice", "currentAllocatedSize", device_allocated);
  method("MTLDevice", "newCommandQueue", device_queue);
  method("MTLDevice", "newSharedEvent", device_event);
  method("MTLDevice", "newBufferWithLength:options:", device_buffer);
  method("MTLDevice", "newBufferWithBytesNoCopy:length:options:deallocator:", device_buffer_over);
  method("MTLDevice", "heapBufferSizeAndAlignWithLength:options:", device_heap_size);
  method("MTLDevice", "newHeapWithDescriptor:", device_heap);
  method("MTLDevice", "newResidencySetWithDescriptor:error:", device_residency);
  method("MTLDevice", "newLibraryWithSource:options:error:", device_library);
  method("MTLDevice", "newComputePipelineStateWithFunction:error:", device_pipeline);
}

static void memory_methods() {
  every<Buffer>(), every<Heap>(), every<HeapDescriptor>();
  labelled<Buffer>(), labelled<Heap>();
  method("MTLBuffer", "contents", buffer_contents);
  method("MTLBuffer", "length", buffer_length);
  method("MTLHeap", "newBufferWithLength:options:", heap_buffer);
  method("MTLHeap", "usedSize", heap_used);
  method("MTLHeap", "maxAvailableSizeWithAlignment:", heap_available);
  add_method(class_named("MTLHeapDescriptor")->isa, "alloc", class_alloc<HeapDescriptor>);
  method("MTLHeapDescriptor", "setSize:", descriptor_size);
  method("MTLHeapDescriptor", "setStorageMode:", descriptor_storage);
  method("MTLHeapDescriptor", "setHazardTrackingMode:", descriptor_hazards);
}

static void residency_methods() {
  every<ResidencySet>(), every<ResidencyDescriptor>();
  add_method(class_named("MTLResidencySetDescriptor")->isa, "alloc", class_alloc<ResidencyDescriptor>);
  method("MTLResidencySet", "addAllocation:", residency_add);
  method("MTLResidencySet", "removeAllocation:", residency_remove);
  method("MTLResidencySet", "commit", residency_commit);
  method("MTLResidencySet", "requestResidency", residency_request);
  method("MTLCommandQueue", "addResidencySet:", queue_residency);
}

static void library_methods() {
  every<Library>(), every<CompileOptions>(), every<Constants>(), every<Function>(), every<Pipeline>();
  add_method(class_named("MTLCompileOptions")->isa, "alloc", class_alloc<CompileOptions>);
  method("MTLCompileOptions", "setLanguageVersion:", options_language);
  method("MTLCompileOptions", "setFastMathEnabled:", options_fast);
  method("MTLLibrary", "functionNames", library_names);
  method("MTLLibrary", "newFunctionWithName:", library_function);
  method("MTLLibrary", "newFunctionWithName:constantValues:error:", library_function_constants);
  add_method(class_named("MTLFunctionConstantValues")->isa, "alloc", class_alloc<Constants>);
  method("MTLFunctionConstantValues", "setConstantValue:type:atIndex:", constants_set);
  method("MTLComputePipelineState", "maxTotalThreadsPerThreadgroup", pipeline_threads);
  method("MTLComputePipelineState", "threadExecutionWidth", pipeline_width);
  method("MTLComputePipelineState", "staticThreadgroupMemoryLength", pipeline_memory);
}

static void command_methods() {
  every<Queue>(), every<CommandBuffer>(), every<Event>();
  labelled<Queue>(), labelled<CommandBuffer>(), labelled<Event>();
  method("MTLSharedEvent", "signaledValue", event_value);
  method("MTLSharedEvent", "setSignaledValue:", event_set);
  method("MTLSharedEvent", "waitUntilSignaledValue:timeoutMS:", event_wait);
  method("MTLCommandQueue", "commandBuffer", queue_buffer);
  method("MTLCommandBuffer", "computeCommandEncoder", buffer_compute);
  method("MTLCommandBuffer", "computeCommandEncoderWithDispatchType:", buffer_compute_of);
  method("MTLCommandBuffer", "blitCommandEncoder", buffer_blit);
  method("MTLCommandBuffer", "encodeSignalEvent:value:", buffer_signal);
  method("MTLCommandBuffer", "encodeWaitForEvent:value:", buffer_wait);
  method("MTLCommandBuffer", "commit", buffer_commit);
  method("MTLCommandBuffer", "waitUntilCompleted", buffer_complete);
  method("MTLCommandBuffer", "status", buffer_status);
  method("MTLCommandBuffer", "error", buffer_error);
  method("MTLCommandBuffer", "GPUStartTime", buffer_start);
  method("MTLCommandBuffer", "GPUEndTime", buffer_end);
}

static void encoder_methods() {
  every<ComputeEncoder>(), every<BlitEncoder>();
  method("MTLComputeCommandEncoder", "setComputePipelineState:", encoder_pipeline);
  method("MTLComputeCommandEncoder", "setBuffer:offset:atIndex:", encoder_buffer);
  method("MTLComputeCommandEncoder", "setBytes:length:atIndex:", encoder_bytes);
  method("MTLComputeCommandEncoder", "setThreadgroupMemoryLength:atIndex:", encoder_memory);
  method("MTLComputeCommandEncoder", "dispatchThreadgroups:threadsPerThreadgroup:", encoder_dispatch);
  method("MTLComputeCommandEncoder", "memoryBarrierWithScope:", encoder_barrier);
  for (const char* c : {"MTLComputeCommandEncoder", "MTLBlitCommandEncoder"}) {
    method(c, "pushDebugGroup:", encoder_push);
    method(c, "popDebugGroup", encoder_pop);
    method(c, "endEncoding", encoder_end);
  }
  method("MTLBlitCommandEncoder", "fillBuffer:range:value:", blit_fill);
  method("MTLBlitCommandEncoder", "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", blit_copy);
}

// standin_open makes the classes. It is called once, before anything else.
EXPORT void standin_open(const Settings* s, Word n, Compile c, void* process_locks) {
  settings = *s;
  number = n;
  compile = c;
  locks = (pthread_mutex_t*)process_locks;
  foundation_methods(), device_methods(), memory_methods(), residency_methods(), library_methods(), command_methods(), encoder_methods();
  device = make<Device>();
  device->isa->live = 0;  // counts from the first time that a program asks for the device
}

// standin_fail makes a command buffer fail, after the given number of others have begun.
EXPORT void standin_fail(Word after, const char* domain, Word code, const char* text) {
  Lock lock(mu);
  injected.after = (long)after, injected.domain = domain, injected.code = (long)code, injected.text = text;
}

// standin_method returns the i-th method, null after the last.
EXPORT const char* standin_method(Word i) { return i < methods.size() ? methods[i].c_str() : nullptr; }

EXPORT const char* standin_violation(Word i) {
  Lock lock(mu);
  return i < violations.size() ? violations[i].c_str() : nullptr;
}

// standin_live returns how many objects of the i-th class there are.
EXPORT Word standin_live(Word i, const char** name) {
  Lock lock(mu);
  for (auto& c : classes)
    if (i-- == 0) {
      *name = c.second->name.c_str();
      return (Word)c.second->live;
    }
  *name = nullptr;
  return 0;
}

// standin_counts writes what the stand-in has done, in the order of the fields.
EXPORT void standin_counts(uint64_t* out) {
  static_assert(sizeof done == 24 * sizeof *out, "the room that Standin.countsNow has");
  Lock lock(mu);
  memcpy(out, &done, sizeof done);
}

EXPORT Word standin_outside_pools() {
  Lock lock(mu);
  return (Word)outside_pools;
}

// standin_close frees what is left, except live objects, which are reported and leak.
EXPORT void standin_close() {
  close_watchdog();
  Lock lock(mu);
  for (Object* o : zombies) o->destroy(o);
  zombies.clear();
  methods.clear();
  for (Region& r : spare) r.unmap();
  spare.clear();
  for (auto& k : loaded) {
    for (void* w : k.second->idle) k.second->worker_free(w);
    delete k.second;
  }
  loaded.clear();
  delete device;
  device = nullptr;
  for (auto& c : classes) {
    delete c.second->isa;
    delete c.second;
  }
  classes.clear();
  for (auto& s : selectors) free((void*)s.second);
  selectors.clear();
}
