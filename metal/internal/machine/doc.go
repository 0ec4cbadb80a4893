// Package machine compiles C functions for this architecture and loads them into a
// test. The test calls them to see how arguments are passed. Neither a linker nor C
// headers are needed, so that the package also works in a program that an emulator of
// another architecture runs.
package machine
