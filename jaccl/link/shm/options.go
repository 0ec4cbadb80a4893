package shm

// Options of a link. The zero value is right for most jobs.
type Options struct {
	// Ring is the size, in bytes, of the buffer from this rank to each other one: a
	// power of two, 4 KiB to 16 MiB. Zero chooses by the number of ranks.
	Ring int
	// Reserve is the most bytes that Alloc gives out in total. It costs only address
	// space, here and on every peer. Zero is the size of the machine's memory.
	Reserve int64
	// Dir is a folder for files that hold the shared memory, preferably one in memory,
	// such as /dev/shm. Empty means memory without a name on Linux, os.TempDir() on darwin.
	Dir string
}
