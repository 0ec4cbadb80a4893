// Package machine loads C functions into a test, as a compiler for this architecture
// translates them: callees by which a test sees how arguments are passed, where no
// linker and no headers of C need to be there, as in a program that an emulator of
// another architecture runs.
package machine
