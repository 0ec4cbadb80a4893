// Package msl reads the Metal Shading Language at the level of tokens: which
// kernels a source has and what their parameters are, and a rewriting that
// makes C++ of it which clang++ compiles against the emulated GPU's headers.
//
// It is no compiler. It knows the few places where the language is not C++
// that macros cannot bridge:
//
//   - kernels and their parameters, [[buffer(n)]] and the rest, explicit
//     instantiations of kernel templates with [[host_name("x")]], and function
//     constants, from which it writes the tables that a library exports;
//   - `threadgroup T a[N];` in a kernel's body, which becomes a reference into
//     the threadgroup's memory;
//   - float4(a, b), (half4)x and casts of pointers, which become calls;
//   - 0.5, which is a float in Metal: the language has no double.
//
// What a file of Metal may not have although C++ has it, it reports as an
// [Error] with the line of the source: double, goto, exceptions, memory
// allocation, virtual functions, and threadgroup arrays outside of kernels.
//
// Lines are kept as they are, with the preprocessor's #line markers, so
// whatever a C++ compiler says later is about the line in the .metal file.
package msl
