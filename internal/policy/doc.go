// Package policy checks the module's sources against its rules: which package
// may import which, no cgo, no init functions, and no mutable package variables.
// It consists of tests only. Command size counts the module's packages.
package policy
