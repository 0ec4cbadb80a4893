// objc_msgSend: finds the method of a receiver's class and jumps to it, with all
// registers of arguments as they were.
#pragma once
#include "object.h"

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

// standin_lookup returns the method for a message, or nothing if there is none, which is
// a violation: Apple's runtime would end the process. Tables of methods do not change
// once the library is open, and are read without the lock.
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

#if defined(__x86_64__)
asm(R"(
.text
.globl objc_msgSend
.type objc_msgSend,@function
objc_msgSend:
  testq %rdi, %rdi
  jz 1f
  pushq %rbp
  movq %rsp, %rbp
  subq $64, %rsp
  movq %rdi, -8(%rbp)
  movq %rsi, -16(%rbp)
  movq %rdx, -24(%rbp)
  movq %rcx, -32(%rbp)
  movq %r8, -40(%rbp)
  movq %r9, -48(%rbp)
  movsd %xmm0, -56(%rbp)
  call standin_lookup
  movq %rax, %r11
  movq -8(%rbp), %rdi
  movq -16(%rbp), %rsi
  movq -24(%rbp), %rdx
  movq -32(%rbp), %rcx
  movq -40(%rbp), %r8
  movq -48(%rbp), %r9
  movsd -56(%rbp), %xmm0
  leave
  jmp *%r11
1:
  xorl %eax, %eax
  xorl %edx, %edx
  xorps %xmm0, %xmm0
  ret
.size objc_msgSend,.-objc_msgSend
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl objc_msgSend
.type objc_msgSend,%function
objc_msgSend:
  cbz x0, 1f
  stp x29, x30, [sp, #-96]!
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str d0, [sp, #80]
  bl standin_lookup
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr d0, [sp, #80]
  ldp x29, x30, [sp], #96
  br x16
1:
  mov x1, #0
  fmov d0, xzr
  ret
.size objc_msgSend,.-objc_msgSend
)");
#endif
