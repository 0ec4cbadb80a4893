// Package jaccl has the collectives among the ranks of a job: the operations of Group,
// whatever carries their data, and the errors of all of them.
//
// Package engine makes them: Local of ranks that are goroutines of one process, Connect
// of what a link carries. A link (package link) moves bytes between processes; the
// transports lie below it. Packages below mlx speak MLX's own protocols and make
// communicators by themselves. Packages below job find the processes of a job, have them
// meet and watch them.
//
// RequestQueue is the asynchronous form of all operations.
//
// Begin with Communicator and Group. Models do not call them: the collectives of a plan are
// called by package runtime.
package jaccl
