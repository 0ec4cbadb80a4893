// Selectors, classes by name, and the lookup of methods.
#pragma once
#include "object.h"
#include "trampoline.h"

EXPORT SEL sel_registerName(const char* name) {
  Lock lock(mu);
  SEL& s = selectors[name];
  if (!s) s = strdup(name);
  return s;
}

EXPORT Class* objc_getClass(const char* name) {
  auto c = classes.find(name);
  return c == classes.end() ? nullptr : c->second;
}

static Word nothing() { return 0; }

// standin_lookup returns the method for a message. If there is none, it returns null and reports a
// violation; Apple's runtime would end the process. The tables of methods do not change after
// opening the library, so they are read without the lock.
extern "C" __attribute__((visibility("hidden"))) IMP standin_lookup(Head* self, SEL selector) {
  if (self->magic == class_magic || self->magic == object_magic) {
    auto m = self->isa->methods.find(selector);
    if (m != self->isa->methods.end()) return m->second;
  }
  Lock lock(mu);
  if (self->magic == zombie_magic && !strcmp(selector, "release"))
    violation("over-release: release was sent to a " + self->isa->name + " that was released already");
  else if (self->magic == zombie_magic && !strcmp(selector, "retain"))
    violation("use after release: retain was sent to a " + self->isa->name + " that was released already");
  else if (self->magic == zombie_magic)
    violation("use after release: " + std::string(selector) + " was sent to a " + self->isa->name + " that was released");
  else if (self->magic == class_magic || self->magic == object_magic)
    violation(format("unrecognized selector %c[%s %s]", self->magic == class_magic ? '+' : '-', self->isa->name.c_str(), selector));
  else
    violation(format("%s was sent to %p, which is no object", selector, (void*)self));
  return (IMP)nothing;
}
