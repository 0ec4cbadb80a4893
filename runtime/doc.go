// Package runtime runs plans: it keeps arrays on their ranks, executes every
// rank's instructions in order, and reports failures with the rank, the
// instruction and the user's line. It sees ranks only through a Communicator.
package runtime
