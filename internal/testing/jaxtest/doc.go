// Package jaxtest compares primitives with JAX's functions of the same names. It holds
// tests only.
//
// testdata/make_fixtures.py runs JAX and writes testdata/*.json: programs in our text
// form, their inputs, and JAX's results, derivatives included. Run it again after adding
// cases; the files record the versions of JAX and its libraries.
package jaxtest
