// Package frame is the form in which ranks send each other what is not a
// buffer of the caller's: a header of fixed size, a short head under a checksum
// and, where the header says so, data without one.
//
//	offset  bytes  what
//	0       4      "gmoe"
//	4       1      Version
//	5       1      type, which the protocols choose
//	6       2      0
//	8       4      sequence number
//	12      4      bytes of the head
//	16      8      bytes of data after the head
//	24      4      CRC-32C of the 24 bytes above and the head
//
// Numbers are big-endian. A reader states the longest head that it takes, and
// nothing longer is allocated, whatever a stranger sends.
package frame
