package shm

// Options of a link. The zero value is right for most jobs.
type Options struct {
	// Ring is the size, in bytes, of the buffer from this rank to each other one: a
	// power of two, 4 KiB to 16 MiB. Zero chooses by the number of ranks.
	Ring int
	// Reserve is how many bytes Alloc gives out at most, in all. It costs address
	// space, here and on every peer, and nothing else. Zero is the machine's memory.
	Reserve int64
	// Dir is a folder for files that hold the shared memory, best one in memory, as
	// /dev/shm. Empty is memory without a name on Linux, os.TempDir() on darwin.
	Dir string
}
