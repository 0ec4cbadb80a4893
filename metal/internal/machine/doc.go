// Package machine compiles C functions for this architecture and loads them into a test, which
// calls them to see how arguments are passed. It needs neither a linker nor C headers, so that it
// also works in a program running under an emulator of another architecture.
package machine
