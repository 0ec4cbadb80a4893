// Package policy checks the module's sources against its rules: allowed imports between
// packages, no cgo, no init functions, no mutable package variables, and error types with
// names ending in Error. It consists of tests only. Command size counts the module's
// packages.
package policy
