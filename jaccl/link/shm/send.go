//go:build linux || darwin

package shm

import (
	"encoding/binary"
	"fmt"

	"github.com/gomoe/gomoe/jaccl/link"
)

// sender is the sending half of exchanges with a peer.
type sender struct {
	ring producer
	read uint64 // bytes of this rank's arena that the peer was told to read since the link began

	// Of the exchange in progress.
	front []byte   // records with their bodies, still to be put
	space []byte   // the array of front, kept for the next exchange
	parts [][]byte // data still to be put; nil if the peer reads it in the arena
	done  int      // bytes of parts[0] that have been put
	seen  uint64   // the part of read that the peer has read
}

// begin queues the head and the data of exchange seq for the peer.
func (s *sender) begin(l *transport, seq uint64, head []byte, parts [][]byte) {
	s.space = s.space[:0]
	if head != nil {
		s.space = appendRecord(s.space, record{kind: kindHead, seq: seq, bytes: uint64(len(head))}, head, l.table)
	}
	s.parts, s.done = nil, 0
	if total := sum(parts); total > 0 {
		r := record{kind: kindData, seq: seq, bytes: total}
		if places := l.placesOf(parts, total); places != nil {
			r.kind, r.places = kindView, uint64(len(places)/placeBytes)
			s.read += total
			s.space = appendRecord(s.space, r, places, l.table)
		} else {
			s.parts = parts
			s.space = appendRecord(s.space, r, nil, l.table)
		}
	}
	s.front = s.space
}

// finished reports whether everything has been sent, so that the peer no longer needs the
// caller's buffers.
func (s *sender) finished() bool {
	return len(s.front) == 0 && len(s.parts) == 0 && s.seen == s.read
}

// step puts the rest of the records, and then up to chunk bytes of data, into the ring
// and publishes them to the peer. It reports whether it has put anything, recording the
// bytes of data in x.
func (s *sender) step(x *link.Exchange, i int, chunk int) (bool, error) {
	for len(s.front) > 0 {
		n, err := s.ring.put(s.front)
		if err != nil {
			return false, err
		}
		if s.front = s.front[n:]; n == 0 {
			break
		}
	}
	if len(s.front) == 0 {
		sent := 0
		for sent < chunk && len(s.parts) > 0 {
			p := s.parts[0][s.done:]
			n, err := s.ring.put(p[:min(len(p), chunk-sent)])
			if err != nil {
				return false, err
			}
			sent += n
			if s.done += n; s.done == len(s.parts[0]) {
				s.parts, s.done = s.parts[1:], 0
			} else if n == 0 {
				break
			}
		}
		if sent > 0 {
			x.Sent(i, sent)
		}
	}
	moved := s.ring.show()
	return moved, nil
}

// account records in x the amount of data in this rank's arena that the peer has read.
func (s *sender) account(x *link.Exchange, i int, read uint64) (bool, error) {
	if read == s.seen {
		return false, nil
	}
	if read-s.seen > s.read-s.seen {
		return false, fmt.Errorf("has read %d bytes of the %d it was given", read, s.read)
	}
	x.Sent(i, int(read-s.seen))
	s.seen = read
	return true, nil
}

// placesOf returns the body of a record of kindView. It returns nil if the data has to go
// through the ring: if some of it is not in the arena, if it is little data, or if it is in
// too many places.
func (l *transport) placesOf(parts [][]byte, total uint64) []byte {
	if total < viewFrom {
		return nil
	}
	l.places = l.places[:0]
	for _, p := range parts {
		if len(p) == 0 {
			continue
		}
		at, ok := l.Locate(p)
		if !ok || len(l.places) == placeBytes*maxPlaces {
			return nil
		}
		l.places = binary.LittleEndian.AppendUint64(l.places, uint64(at))
		l.places = binary.LittleEndian.AppendUint64(l.places, uint64(len(p)))
	}
	return l.places
}

// sum returns the number of bytes of parts.
func sum(parts [][]byte) uint64 {
	n := uint64(0)
	for _, p := range parts {
		n += uint64(len(p))
	}
	return n
}
