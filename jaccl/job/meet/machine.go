package meet

// machine is what ranks compare to learn what they share.
type machine struct {
	// boot is one running kernel; "" where that cannot be told.
	boot string
	// memory is the file system of shared memory and the name space of processes
	// within that kernel; "" where there is none.
	memory string
	// network is the name space of addresses, within which loopback is the same.
	network string
}

// shares reports whether two ranks can share memory.
func (m machine) shares(o machine) bool {
	return m.boot != "" && m.memory != "" && m.boot == o.boot && m.memory == o.memory
}

// near reports whether loopback addresses of the one are those of the other.
func (m machine) near(o machine) bool {
	return m.network == o.network && m.boot == o.boot
}
