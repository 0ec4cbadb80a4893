// Package policy checks the module's sources against its rules: which package
// may import which, no cgo, no init functions, no mutable package variables,
// and no files that are too long. It consists of tests only.
package policy
