// Package jaxtest compares primitives with the functions of JAX that they are
// named after. It holds tests only.
//
// testdata/make_fixtures.py runs JAX and writes testdata/*.json: programs in
// our text form, their inputs, and JAX's results, derivatives included. Run it again
// after adding cases; the files state the versions of what it ran.
package jaxtest
