// Package msl reads the Metal Shading Language at the level of tokens. [Reflect] finds the kernels
// of a source and their parameters. [Rewrite] also turns the source into C++ that clang++ compiles
// against the emulated GPU's headers.
//
// The package is not a compiler. It handles the few differences between the language and C++ that
// macros cannot bridge:
//
//   - kernels and their parameters, [[buffer(n)]] and the rest, explicit
//     instantiations of kernel templates with [[host_name("x")]], and function
//     constants, from which it writes the tables exported by a library;
//   - `threadgroup T a[N];` in a kernel's body, which becomes a reference into
//     the threadgroup's memory;
//   - float4(a, b), (half4)x and casts of pointers, which become calls;
//   - 0.5, which is a float in Metal: the language has no double.
//
// Features of C++ missing in Metal are reported as an [Error] with the line of the source: double,
// goto, exceptions, memory allocation, virtual functions, and threadgroup arrays outside of
// kernels.
//
// Lines and the preprocessor's #line markers are kept, so that a C++ compiler's later messages name
// the line in the .metal file.
package msl
