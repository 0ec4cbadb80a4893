// Package policy holds the module's sources to its rules: which package may
// import which, no cgo, no init functions, no mutable package variables, and no
// files that have grown too long. It is all tests.
package policy
