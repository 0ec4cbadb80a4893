package shm

// Options are the settings of a link. The zero Options are right for most jobs.
type Options struct {
	// Ring is the size, in bytes, of the buffer from this rank to each other rank: a
	// power of two, 4 KiB to 16 MiB. 0 means a size depending on the number of ranks.
	Ring int
	// Reserve is the number of bytes that Alloc and Lease may give out in total.
	// Reserving costs only address space, here and on every peer. 0 means the size of the
	// machine's memory.
	Reserve int64
	// Dir is a folder for files holding the shared memory, preferably one in memory, such
	// as /dev/shm. Empty means memory without a name on Linux, os.TempDir() on darwin.
	Dir string
}
