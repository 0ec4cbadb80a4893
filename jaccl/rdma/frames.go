package rdma

import "fmt"

// The numbers of JACCL's protocol. A message is a whole buffer of one of eight sizes. In
// each direction of a queue pair, the device has at most two messages at a time.
// Thunderbolt moves frames of 4 KiB and holds a message back until a buffer of as many
// frames is posted for it, which works only for a few messages at a time.
const (
	Frame    = 4 << 10
	classes  = 8 // 4 KiB to 512 KiB
	depth    = 2
	slabSize = Frame * (1<<classes - 1) * depth
)

// ClassOf returns the size class of the messages carrying n bytes: the largest class with
// a buffer that n bytes fill, or 0. Both sides of a connection know n, so they post
// buffers of equal size.
func ClassOf(n int) int {
	k := classes - 1
	for k > 0 && n < ClassBytes(k) {
		k--
	}
	return k
}

func ClassBytes(k int) int { return Frame << k }

// slot returns the offset in a slab of one of the two buffers of a class. The parity of a
// message's number selects the buffer.
func slot(class, parity int) int { return Frame*(1<<class-1)*depth + parity*ClassBytes(class) }

// framesOnlyOn reports whether macOS of that version moves messages of one frame only, which
// is so before 26.3. A version that cannot be read is taken for a newer one.
func framesOnlyOn(version string) bool {
	var major, minor int
	n, _ := fmt.Sscanf(version, "%d.%d", &major, &minor)
	return n > 0 && (major < 26 || major == 26 && minor < 3)
}
