// Package collective declares the collectives that a plan needs from the ranks of a job:
// a Communicator gives Groups of ranks, with methods that exchange data. A Call names
// each exchange, so that diverging ranks are detected.
//
// The package has no code. Package jaccl implements the interfaces over links between
// processes; package runtime calls them and knows no transport. Begin with Group.
package collective
