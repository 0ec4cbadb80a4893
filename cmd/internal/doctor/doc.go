// Package doctor looks at what a job of several processes is to run on, without
// running it: the hostfile and its matrix of devices, the machines' libraries and
// permissions, their addresses, whether they reach each other, and their clocks. Every
// finding names the host or the pair of hosts that it is about, and the remedy.
//
// The package looks at the world through a Prober, of which SSH is the real one.
package doctor
