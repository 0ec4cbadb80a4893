package watch

import (
	"fmt"
	"time"
)

// Defaults of Options.
const (
	DefaultHeartbeat = 300 * time.Millisecond
	DefaultSilence   = 30 * time.Second
	DefaultSettle    = 50 * time.Millisecond
)

// Options are the settings of a watch. The zero Options are usable.
type Options struct {
	// Heartbeat is the time between two heartbeats; 0 means DefaultHeartbeat.
	Heartbeat time.Duration
	// Silence is the time without any message from a rank after which the rank counts as
	// lost; 0 means DefaultSilence. It should be the job's deadline, because a process
	// that is stopped for a while, in a debugger or to be moved, is not dead. It must be
	// at least three heartbeats.
	Silence time.Duration
	// Settle is the time that this rank waits for other ranks' notices after the first
	// one; 0 means DefaultSettle.
	Settle time.Duration
	// Dump is called with the number of a rank that has called RequestDump. It should
	// record the state of this rank. Calls are made one at a time, by a goroutine of the
	// watch; Close waits for a call in progress. Dump may be nil.
	Dump func(from int)
}

func (o Options) complete() (Options, error) {
	if o.Heartbeat < 0 || o.Silence < 0 || o.Settle < 0 {
		return o, fmt.Errorf("watch: heartbeat %v, silence %v, settle %v, want none below 0", o.Heartbeat, o.Silence, o.Settle)
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = DefaultHeartbeat
	}
	if o.Silence == 0 {
		o.Silence = DefaultSilence
	}
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	if o.Silence < 3*o.Heartbeat {
		return o, fmt.Errorf("watch: silence %v with a heartbeat every %v, want at least %v", o.Silence, o.Heartbeat, 3*o.Heartbeat)
	}
	return o, nil
}
