// Package collective is what a plan asks of the ranks of a job: a Communicator gives
// Groups of ranks, whose methods exchange data, and a Call names each exchange so that
// ranks which diverge are told apart.
//
// The package has no code. Package jaccl implements the interfaces over links between
// processes; package runtime calls them and knows no transport. Begin with Group.
package collective
