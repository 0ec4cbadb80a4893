// Package toy has what tests of the engines run: small primitives with all
// rules, primitives whose kernel or derivative the test gives, and a shortcut
// from a program to an open session. The engines do not import package primitives, and
// neither do their tests.
package toy
