// Package doctor examines what a job of several processes will run on, without running
// it: the hostfile and its matrix of devices, the machines' libraries and permissions,
// their addresses, whether they reach each other, and their clocks. Every finding
// names the host or the pair of hosts that it is about, and the remedy.
//
// The package asks machines through a Prober; SSH is the real one. Begin with Check.
package doctor
