// Package shm links the ranks of one machine through memory that they share.
//
// # Segments
//
// Each rank makes one segment and maps those of all others. On Linux a segment is
// memory without a name (memfd), which peers open as /proc/PID/fd/FD: nothing can
// be left behind, whatever dies when, and it is sealed, so that its size stays and
// no peer's mapping can be cut off. Passing the descriptor through a socket would
// do the same and need a name for the socket. On darwin, or where Options names a
// folder, a segment is a file, 0600 with a name that can not be guessed, which
// loses its name as soon as all ranks have mapped it. Files that a killed process
// has left before that are removed by the next rank that makes one there; their
// names say whose they are. A file can not be sealed: a process of the same user
// that cuts it off ends this one.
//
// A segment is as large as it will ever be from the beginning, and sparse: an
// arena of many GiB costs addresses until Alloc gives it out. So offsets are plain,
// peers see what is given out later without another mapping, and nothing has to be
// announced but how much that is. Alloc takes the pages at once and returns an
// error where there are none, since a write to a page that the system can not
// supply is a signal.
//
// # Data
//
// Between each two ranks there are two rings, one each way, each with one writer
// and one reader. An exchange is a head in a record with a checksum, then the data.
// Data in the sender's arena stays there and its receiver copies it, once. Other
// data goes through the ring, in two copies, of which the second finds it in the
// cache. That is faster than one copy by the kernel (process_vm_readv), which was
// tried: 22 against 35 µs for 512 KiB each way, 0.6 to 0.8 against 1.1 to 1.2 ms
// for 8 MiB, 15 against 23 ms for 64 MiB. The goroutine that calls Exchange
// moves all bytes, in turns of small pieces with each peer, so that ranks which
// send to each other never wait for each other.
//
// What is read from memory that a peer can write is checked before it is used. A
// peer that is broken costs an error.
//
// # Waiting
//
// A rank that finds nothing to do looks again at once for some microseconds, unless
// there are more ranks than processors, then lets other threads have the processor
// between two looks, then sleeps in the kernel (futex on Linux) until a peer rings.
// A sleep is bounded: a peer that has ended without a word is found out within 50 ms,
// by its process's number and start time, and is a *link.PeerError. Contexts and
// Close wake a sleeper. While it sleeps or looks it holds one thread; other
// goroutines go on.
//
// # Who may take part
//
// The ranks are processes of one user in one name space of processes, and each lets
// the others open its descriptors, as processes do unless they have changed
// identity or made themselves undumpable; or they share a folder (Options.Dir).
// Connect returns an error on every rank if one can not.
package shm
