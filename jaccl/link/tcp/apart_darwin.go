package tcp

import "time"

// apart does nothing: darwin has no call moving a thread to another core.
func (p *poller) apart([]*peer, time.Time) {}
