// Package toy has programs for tests of the engines: small primitives with all rules,
// primitives with a kernel or derivative given by the test, and a shortcut from a program
// to an open session. The engines do not import package primitives, and neither do their
// tests.
package toy
