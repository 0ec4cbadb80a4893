//go:build linux && native

package faults_test

// native says that this binary loads libraries of the system.
const native = true
