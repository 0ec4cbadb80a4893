package meet

import (
	"os"
)

// machine identifies resources that ranks may share. Ranks compare their machines to find
// the shared ones.
type machine struct {
	// boot identifies the running kernel; "" if it cannot be identified.
	boot string
	// memory identifies the file system of shared memory and the name space of processes
	// within the kernel; "" if there is no shared memory.
	memory string
	// network identifies the name space of addresses, within which loopback is the same.
	network string
}

// shares reports whether two ranks can share memory.
func (m machine) shares(o machine) bool {
	return m.boot != "" && m.memory != "" && m.boot == o.boot && m.memory == o.memory
}

// near reports whether the two have the same loopback addresses.
func (m machine) near(o machine) bool {
	return m.network == o.network && m.boot == o.boot
}

// hostname returns the machine's name, which errors show with the rank. It also
// identifies the machine if there is nothing better.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unnamed"
	}
	return name
}
