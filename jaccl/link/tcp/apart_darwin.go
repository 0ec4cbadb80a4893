package tcp

import "time"

// apart does nothing: a thread cannot be moved.
func (p *poller) apart([]*peer, time.Time) {}
