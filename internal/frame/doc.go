// Package frame is the format of all data that ranks send each other except the caller's
// buffers: a header of fixed size, a short head protected by a checksum, and, if the
// header announces it, data without a checksum.
//
//	offset  bytes  what
//	0       4      "gmoe"
//	4       1      Version
//	5       1      type, chosen by the protocol
//	6       2      0
//	8       4      sequence number
//	12      4      bytes of the head
//	16      8      bytes of data after the head
//	24      4      CRC-32C of the 24 bytes above and the head
//
// Numbers are big-endian. A reader limits the size of the head and never allocates more,
// whatever a stranger sends.
package frame
