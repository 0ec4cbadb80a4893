// Package doctor examines the set-up of a job of several processes without running it: the hostfile
// and its matrix of devices, the machines' libraries and permissions, their addresses, whether they
// reach each other, and their clocks. Every finding names its host or pair of hosts, and the
// remedy.
//
// The package asks machines through a Prober; SSH is the real one. Begin with Check.
package doctor
