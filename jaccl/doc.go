// Package jaccl declares the collectives among the ranks of a job: Communicator, the
// operations of Group, and their errors. It is independent of the transport.
//
// Package engine implements these interfaces: Local for ranks that are goroutines of one
// process, Connect for ranks joined by a link. A link (package link) moves bytes between
// processes; the transports are the packages below link. The packages below mlx speak
// MLX's own protocols and implement Communicator themselves. The packages below job find
// the processes of a job, connect them and watch them.
//
// Begin with Communicator and Group. Models do not call their methods: package runtime
// calls the collectives of a plan.
package jaccl
