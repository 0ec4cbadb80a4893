// Package shm implements link.Shared for ranks of one machine, through memory that they
// share. Begin with Connect. Ranks of several machines need another link, or link.Mix.
//
// # Segments
//
// Each rank makes one segment and maps the segments of all others. On Linux a segment is
// memory without a name (memfd), which peers open as /proc/PID/fd/FD. Nothing is left
// over, whichever process dies and whenever. The memory is sealed, so its size never
// changes and no peer's mapping can be truncated. Passing the descriptor through a socket
// would do the same, but the socket would need a name. On darwin, or if Options names a
// folder, a segment is a file with mode 0600 and a name that cannot be guessed; the name
// is removed as soon as all ranks have mapped the file. A process killed before that
// leaves its file over. The next rank making a file in the folder removes it, because the
// name identifies the process. A file cannot be sealed: if a process of the same user
// truncates it, the ranks using it die of a signal.
//
// A segment has its final size from the beginning, and is sparse: an arena of many GiB
// costs only addresses until Alloc gives it out. So offsets never change, peers see
// memory given out later without another mapping, and a rank announces only the amount
// given out. Alloc takes the pages from the system at once and returns an error if there
// are none, because a write to a page that the system cannot supply would end the process
// by a signal.
//
// # Data
//
// Between every two ranks there are two rings, one in each direction, each with one
// writer and one reader. An exchange is a head in a record with a checksum, then the
// data. Data in the sender's arena stays there, and the receiver copies it, once. Other
// data, and data of less than 4 KiB, goes through the ring, in two copies; the second
// finds the data in the cache. That is faster than one copy by the kernel
// (process_vm_readv), which was tried: 22 against 35 µs for 512 KiB each way, 0.6 to 0.8
// against 1.1 to 1.2 ms for 8 MiB, 15 against 23 ms for 64 MiB. The goroutine calling
// Exchange moves all bytes, a small piece for each peer in turn, so that ranks sending to
// each other never wait for each other.
//
// Data read from memory that a peer can write is checked before being used, so a broken
// peer causes an error and nothing worse.
//
// # Waiting
//
// A rank without work polls for some microseconds, unless there are more ranks than
// processors. Then it yields the processor to other threads between polls. Then it sleeps
// in the kernel (futex on Linux) until a peer rings its bell. The end of a context and
// Close wake a rank that sleeps. A peer that has ended without notice is found by the
// job's watch, not by the link. A sleeping or polling rank holds one thread; other
// goroutines continue.
//
// # Who may take part
//
// The ranks are processes of one user in one name space of processes. Each lets the
// others open its descriptors, as processes do unless they have changed identity or made
// themselves undumpable; otherwise they need a folder that they share (Options.Dir). If
// one rank cannot take part, Connect returns an error on every rank.
package shm
