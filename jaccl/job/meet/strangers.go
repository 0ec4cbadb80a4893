package meet

import (
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// fewStrangers are logged one by one; later ones are sampled, one in every
	// strangersEvery, with the number of the others.
	fewStrangers   = 5
	strangersEvery = 10 * time.Second
)

// strangers logs connections turned away at a door, at a limited rate.
type strangers struct {
	log func(net.Addr, string)

	mu      sync.Mutex
	count   int
	last    time.Time // when a stranger was logged last
	silent  int       // number of strangers since then that were not logged
	pending func()    // logs the last of those, with the number of the others
}

func (s *strangers) turned(who net.Addr, reason string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count++; s.count <= fewStrangers {
		s.last = now
		s.log(who, reason)
		return
	}
	since := s.last
	s.silent++
	s.pending = func() {
		if s.silent > 1 {
			reason = fmt.Sprintf("%s; and %d others within %v", reason, s.silent-1, now.Sub(since).Round(time.Second))
		}
		s.log(who, reason)
	}
	if now.Sub(since) >= strangersEvery {
		s.flush(now)
	}
}

// flush logs the strangers that have not been logged. The caller holds mu.
func (s *strangers) flush(now time.Time) {
	if s.pending != nil {
		s.pending()
	}
	s.silent, s.pending, s.last = 0, nil, now
}

// end logs the strangers that have not been logged.
func (s *strangers) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush(time.Now())
}
