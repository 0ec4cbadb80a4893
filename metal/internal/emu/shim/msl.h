// The Metal Shading Language for clang++. After this header only Metal source follows: it defines the
// address spaces as macros.
#pragma once
#pragma clang system_header
#include "bind.h"
#ifdef MSL_TENSORS
#include "tensor.h"
#endif

#define kernel
#define thread
#ifdef MSL_LINT  // address spaces are distinct types: for type checking, never to run
#define device __attribute__((address_space(1)))
#define constant const __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define MSL_STORAGE(T, name) __attribute__((address_space(3))) T& name = *(__attribute__((address_space(3))) T*)16
#else
#define device
#define constant const
#define threadgroup
#define MSL_STORAGE(T, name)     \
  static char msl_site_##name;   \
  T& name = *(T*)msl::storage(&msl_site_##name, #name, sizeof(T), alignof(T))
#endif
