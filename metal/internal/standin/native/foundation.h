// NSString, NSError, NSArray.
#pragma once
#include "message.h"

struct String : Object {
  std::string text;
  static const char* class_name() { return "NSString"; }
  void finished() { text = "released"; }
};

static String* string(const std::string& s) {
  String* o = make<String>();
  o->text = s;
  return o;
}

struct Error : Object {
  std::string domain, text;
  long code = 0;
  static const char* class_name() { return "NSError"; }
  void finished() {}
};

static Error* error(const std::string& domain, long code, const std::string& text) {
  Error* e = make<Error>();
  e->domain = domain, e->code = code, e->text = text;
  return e;
}

// set_error stores an error for the caller, if the caller passed a pointer.
static void set_error(Object** to, const std::string& domain, long code, const std::string& text) {
  if (to) *to = autorelease(error(domain, code, text));
}

struct Array : Object {
  std::vector<Object*> items;
  static const char* class_name() { return "NSArray"; }
  void finished() {
    for (Object* o : items) release(o);
    items.clear();
  }
};

// ProcessInfo is the one NSProcessInfo of the process. It knows the version of macOS.
struct ProcessInfo : Object {
  static const char* class_name() { return "NSProcessInfo"; }
  void finished() {}
};

struct SystemVersion {
  long major, minor, patch;
};

static Object* process_info(Class*, SEL) {
  Lock lock(mu);
  return autorelease(make<ProcessInfo>());
}

static Bool process_at_least(Object*, SEL, SystemVersion v) { return (Bool)(0xABCDEF00 | ((long)settings.system >= v.major)); }

static Object* object_retain(Object* o, SEL) {
  Lock lock(mu);
  retain(o);
  return o;
}

static void object_release(Object* o, SEL) {
  Lock lock(mu);
  release(o);
}

static Object* object_init(Object* o, SEL) { return o; }

template <class T>
static Object* class_alloc(Class*, SEL) {
  Lock lock(mu);
  return make<T>();
}

static Object* string_with(Class*, SEL, const char* s) {
  Lock lock(mu);
  return autorelease(string(s));
}

static const char* string_text(String* s, SEL) { return s->text.c_str(); }

static Object* error_text(Error* e, SEL) {
  Lock lock(mu);
  return autorelease(string(e->text));
}

static Object* error_domain(Error* e, SEL) {
  Lock lock(mu);
  return autorelease(string(e->domain));
}

static Word error_code(Error* e, SEL) { return (Word)e->code; }

static Word array_count(Array* a, SEL) { return a->items.size(); }

static Object* array_at(Array* a, SEL, Word i) {
  Lock lock(mu);
  if (i < a->items.size()) return a->items[i];
  violation(format("NSArray: objectAtIndex: %lu, of %zu", (unsigned long)i, a->items.size()));
  return nullptr;
}
