package rdma

import "encoding/binary"

// destination is the address of a queue pair. Ranks tell each other the destinations of
// their queue pairs.
type destination struct {
	lid, qpn, psn uint32
	gid           [16]byte
}

// DestinationSize is the size in bytes of JACCL's struct Destination, which Append writes:
// three int32, four bytes of padding, and the GID.
const DestinationSize = 32

func (d destination) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, d.lid)
	b = binary.LittleEndian.AppendUint32(b, d.qpn)
	b = binary.LittleEndian.AppendUint32(b, d.psn)
	b = append(b, 0, 0, 0, 0)
	return append(b, d.gid[:]...)
}

// ParseDestination returns the destination in the first DestinationSize bytes of b.
func ParseDestination(b []byte) destination {
	return destination{
		lid: binary.LittleEndian.Uint32(b),
		qpn: binary.LittleEndian.Uint32(b[4:]),
		psn: binary.LittleEndian.Uint32(b[8:]),
		gid: [16]byte(b[16:32]),
	}
}

// NoDestination returns the destination that a rank sends in its own place, without a
// queue pair.
func NoDestination() destination { return destination{lid: 1<<32 - 1} }

// isIPv4 reports whether a GID is an IPv4 address: ::ffff:a.b.c.d.
func isIPv4(gid [16]byte) bool {
	return [12]byte(gid[:12]) == [12]byte{10: 0xff, 11: 0xff}
}
