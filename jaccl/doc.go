// Package jaccl declares the collectives among the ranks of a job: the operations of Group,
// and the errors of all of them. It does not say what carries the data.
//
// Package engine implements them: Local for ranks that are goroutines of one process,
// Connect for ranks that a link joins. A link (package link) moves bytes between processes;
// the transports are the packages below it. Packages below mlx speak MLX's own protocols
// and implement Communicator themselves. Packages below job find the processes of a job,
// connect them and watch them.
//
// RequestQueue runs any of the operations asynchronously.
//
// Begin with Communicator and Group. Models do not call them: the collectives of a plan are
// called by package runtime.
package jaccl
