package tcp

import "time"

// apart does nothing: a thread can not be moved.
func (p *poller) apart([]*peer, time.Time) {}
