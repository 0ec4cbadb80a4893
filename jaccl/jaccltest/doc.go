// Package jaccltest tests implementations of lowering.Communicator, as
// testing/fstest tests file systems. Conformance states what every
// implementation does, whatever carries its data: results bit for bit, buffers
// that belong to the caller again, groups that do not disturb each other, and
// errors that name the rank at fault.
package jaccltest
