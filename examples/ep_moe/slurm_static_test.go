//go:build linux && !native

package main

func slurmCases() []slurmCase {
	return []slurmCase{{name: "tcp", transport: "tcp"}, {name: "auto", transport: "auto"}}
}
