// Package policy checks the module's sources against its rules: which package
// may import which, no cgo, no init functions, no mutable package variables, and
// types of errors whose names end in Error.
// It consists of tests only. Command size counts the module's packages.
package policy
