// MTLResidencySet: allocations that stay readable for the GPU without a request per command buffer.
// Available from macOS 15 on.
#pragma once
#include "commands.h"

struct ResidencyDescriptor : Object {
  static const char* class_name() { return "MTLResidencySetDescriptor"; }
  void finished() {}
};

struct ResidencySet : Object {
  std::map<Object*, bool> allocations;  // whether they are committed
  static const char* class_name() { return "MTLResidencySet"; }
  void finished() {
    residency_sets--;
    if (!allocations.empty()) violation(format("a residency set was released with %zu allocations", allocations.size()));
  }
};

static Object* device_residency(Object*, SEL, ResidencyDescriptor* d, Object**) {
  Lock lock(mu);
  if (!d || settings.system < 15) {
    violation(format("newResidencySetWithDescriptor:error: on macOS %u, want a descriptor and macOS 15", settings.system));
    return nullptr;
  }
  residency_sets++;
  return make<ResidencySet>();
}

// The set retains its allocations, so that one not removed is among the living objects.
static void residency_add(ResidencySet* s, SEL, Object* allocation) {
  Lock lock(mu);
  if (s->allocations.count(allocation)) return violation("addAllocation: the residency set has it");
  retain(allocation);
  s->allocations[allocation] = false;
}

static void residency_remove(ResidencySet* s, SEL, Object* allocation) {
  Lock lock(mu);
  if (!s->allocations.erase(allocation)) return violation("removeAllocation: the residency set does not have it");
  release(allocation);
}

static void residency_commit(ResidencySet* s, SEL) {
  Lock lock(mu);
  for (auto& a : s->allocations) a.second = true;
}

static void residency_request(ResidencySet* s, SEL) {
  Lock lock(mu);
  for (auto& a : s->allocations)
    if (!a.second) return violation("requestResidency: an allocation was added and not committed");
}

static void queue_residency(Queue* q, SEL, ResidencySet* s) {
  Lock lock(mu);
  if (q->resident == s) return violation("addResidencySet: the queue has it");
  retain(s);
  release(q->resident);
  q->resident = s;
}

// is_resident reports whether the set of a queue has a buffer.
static bool is_resident(Queue* q, Object* buffer) {
  ResidencySet* s = (ResidencySet*)q->resident;
  if (!s) return false;
  auto a = s->allocations.find(buffer);
  return a != s->allocations.end() && a->second;
}
