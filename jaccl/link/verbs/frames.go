package verbs

import "github.com/gomoe/gomoe/jaccl/link"

// A message is a whole buffer of one of eight sizes, and at most two of a queue pair
// and direction are with the device at once: JACCL's protocol, whose numbers these
// are. Thunderbolt moves frames of 4 KiB and holds a message back until a buffer of
// as many frames is posted for it, which is only sound for a few of them.
const (
	frame    = 4 << 10
	classes  = 8 // 4 KiB to 512 KiB
	depth    = 2
	slabSize = frame * (1<<classes - 1) * depth
)

// The head of an exchange takes at most so many frames; see link.go.
const headFrames = link.MaxHead / frame

// classOf returns the size class of the messages that carry n bytes: the largest that
// n fills, so that both sides of a connection, which know n, post equal buffers.
func classOf(n int) int {
	k := classes - 1
	for k > 0 && n < classBytes(k) {
		k--
	}
	return k
}

func classBytes(k int) int { return frame << k }

// messages returns how many messages of a class carry n bytes.
func messages(n, class int) int { return (n + classBytes(class) - 1) / classBytes(class) }

// slot returns where in a slab the buffer of a class for the messages of that parity
// begins.
func slot(class, parity int) int { return frame*(1<<class-1)*depth + parity*classBytes(class) }
