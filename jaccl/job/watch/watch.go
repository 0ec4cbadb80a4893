package watch

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomoe/gomoe/internal/frame"
	"github.com/gomoe/gomoe/jaccl/link"
)

// probes is the number of answers about the time that Start waits for from every rank.
const probes = 8

// Watch is a link.Watch.
type Watch struct {
	rank  int
	hosts []string
	o     Options
	peers []*peer // by rank, nil for this one

	down chan struct{}
	dump chan int
	quit chan struct{} // closed by Close
	wg   sync.WaitGroup
	once sync.Once

	mu      sync.Mutex
	best    *link.Notice // the most important failure so far; nil if there is none
	settled bool         // best is decided, and down is closed
	settle  *time.Timer  // calls decide; nil before the first notice
	leaving bool         // this rank has left
	asking               // the whereabouts of other ranks
	parting              // which groups other ranks have closed
}

var _ link.Watch = (*Watch)(nil)

// Start connects this rank's watch with the other ranks' watches. All ranks call it. It
// returns when their clocks have been compared for the first time, or when ctx ends.
// After Start has returned, ctx has no meaning.
func Start(ctx context.Context, site link.Site, opts Options) (*Watch, error) {
	o, err := opts.complete()
	if err != nil {
		return nil, err
	}
	conns, err := site.Dial(ctx, "watch")
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	w := &Watch{
		rank: site.Rank(), hosts: make([]string, site.Size()), o: o, peers: make([]*peer, site.Size()),
		down: make(chan struct{}), dump: make(chan int, 1), quit: make(chan struct{}),
	}
	for r := range w.hosts {
		w.hosts[r] = site.Host(r)
		if conns[r] != nil {
			w.peers[r] = newPeer(r, conns[r])
		}
	}
	for _, p := range w.others() {
		w.wg.Go(p.write)
		w.wg.Go(func() { w.listen(p) })
	}
	w.wg.Go(w.tend)
	w.wg.Go(w.dumps)
	if err := w.compare(ctx); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *Watch) others() []*peer {
	var ps []*peer
	for _, p := range w.peers {
		if p != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

// compare waits for the first estimates of all clocks.
func (w *Watch) compare(ctx context.Context) error {
	w.mu.Lock()
	for _, p := range w.others() {
		p.ask()
	}
	w.mu.Unlock()
	for _, p := range w.others() {
		select {
		case <-p.first:
		case <-w.down:
			n, _ := w.First()
			return fmt.Errorf("watch: %s", n.Text)
		case <-ctx.Done():
			return fmt.Errorf("watch: rank %d (%s) has not answered yet: %w", p.rank, w.Host(p.rank), context.Cause(ctx))
		}
	}
	return nil
}

// Host names the machine of a rank, "" if there is no such rank.
func (w *Watch) Host(rank int) string {
	if rank < 0 || rank >= len(w.hosts) {
		return ""
	}
	return w.hosts[rank]
}

// name names a rank in the texts of notices.
func (w *Watch) name(rank int) string { return fmt.Sprintf("rank %d (%s)", rank, w.hosts[rank]) }

// Announce implements link.Watch. It replaces the notice's From by this rank. The job is
// down after a delay for other ranks' notices; see the package's documentation. Announce
// does nothing if a failure is known or this rank has left.
func (w *Watch) Announce(n link.Notice) {
	n.From = w.rank
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.best == nil && !w.leaving {
		w.take(n)
	}
}

// take makes n the most important failure so far and tells all other ranks. w.mu is held.
func (w *Watch) take(n link.Notice) {
	n.Blame = append([]int(nil), n.Blame...)
	first := w.best == nil
	w.best = &n
	b := encodeNotice(n)
	alone := true
	for _, p := range w.others() {
		if !p.gone {
			alone = false
			p.send(typeNotice, b)
		}
	}
	switch {
	case alone:
		w.decide()
	case first:
		w.settle = time.AfterFunc(w.o.Settle, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decide()
		})
	}
}

// decide makes the most important failure so far final, and the job down. w.mu is held.
func (w *Watch) decide() {
	if !w.settled && w.best != nil {
		w.settled = true
		close(w.down)
	}
}

// Down implements link.Watch.
func (w *Watch) Down() <-chan struct{} { return w.down }

// First implements link.Watch.
func (w *Watch) First() (link.Notice, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.settled {
		return link.Notice{}, false
	}
	return *w.best, true
}

// Leave implements link.Watch. After it, Announce does nothing.
func (w *Watch) Leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaving {
		return
	}
	w.leaving = true
	for _, p := range w.others() {
		p.send(typeLeave, nil)
	}
}

// Left implements link.Watch. While a failure is settling it returns false for every other
// rank: a rank that fails announces the failure and then leaves.
func (w *Watch) Left(rank int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rank == w.rank {
		return w.leaving
	}
	settling := w.best != nil && !w.settled
	return rank >= 0 && rank < len(w.peers) && w.peers[rank].left && !settling
}

// RequestDump asks the other ranks to call their Options.Dump. It does not block.
func (w *Watch) RequestDump() {
	for _, p := range w.others() {
		p.send(typeDump, nil)
	}
}

// Offset returns a rank's clock minus this rank's, and its uncertainty: half the time of
// the fastest of the last answers. Both are 0 for this rank itself.
func (w *Watch) Offset(rank int) (offset, uncertainty time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rank < 0 || rank >= len(w.peers) || w.peers[rank] == nil {
		return 0, 0
	}
	return w.peers[rank].clock.estimate()
}

// Close calls Leave, sends outstanding frames, for half a second at most, and ends the
// watch's goroutines and connections. If a failure is settling, Close decides it at once,
// so that the job is down.
func (w *Watch) Close() error {
	w.once.Do(func() {
		w.Leave()
		close(w.quit)
		w.mu.Lock()
		if w.settle != nil {
			w.settle.Stop()
		}
		w.decide()
		w.mu.Unlock()
		for _, p := range w.others() {
			p.end()
			// The other side ends the connection after reading that this rank leaves.
			p.conn.SetReadDeadline(time.Now().Add(farewell))
		}
		w.wg.Wait()
		for _, p := range w.others() {
			p.conn.Close()
		}
	})
	return nil
}

// listen reads a peer's messages until its connection ends.
func (w *Watch) listen(p *peer) {
	err := p.read(func(typ uint8, head []byte) error { return w.handle(p, typ, head) })
	w.mu.Lock()
	defer w.mu.Unlock()
	p.gone = true
	defer w.answered()
	if p.left {
		p.end() // so that the peer need not wait for this side of the connection
		return
	}
	if w.leaving { // this rank announces nothing any more
		return
	}
	if w.best == nil {
		w.take(w.lost(p, ended(err)))
	}
}

func (w *Watch) lost(p *peer, how string) link.Notice {
	return link.Notice{From: w.rank, Blame: []int{p.rank}, Kind: link.KindLost, Text: w.name(p.rank) + " " + how}
}

// handle handles a frame from p. Its error ends the connection.
func (w *Watch) handle(p *peer, typ uint8, head []byte) error {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	p.heard = now
	switch typ {
	case typePing:
		if _, err := decodeTimes(head, 1); err != nil {
			return err
		}
		p.send(typePong, frame.Uint(head[:8:8], uint64(now.UnixNano())))
	case typePong:
		t, err := decodeTimes(head, 3)
		if err != nil {
			return err
		}
		p.asked--
		p.clock.sample(t[0], t[1], t[2], now.UnixNano())
		switch {
		case p.clock.n < probes:
			p.ask()
		case p.clock.n == probes:
			p.complete()
		}
	case typeNotice:
		n, err := decodeNotice(head, len(w.peers))
		if err != nil {
			return err
		}
		if !w.settled && (w.best == nil || before(n, *w.best)) {
			w.take(n)
		}
	case typeLeave:
		p.left = true
		p.complete() // compare need not wait for its answers
	case typeAsk:
		var a link.Waiting
		if w.answer != nil {
			a = w.answer()
		}
		p.send(typeWhere, encodeWaiting(a))
	case typeWhere:
		a, err := decodeWaiting(head, len(w.peers))
		if err != nil {
			return err
		}
		if w.answers != nil {
			w.answers[p.rank] = a
			w.answered()
		}
	case typePart:
		a, err := decodeParting(head)
		if err != nil {
			return err
		}
		w.told(p.rank, a)
	case typeDump:
		select {
		case w.dump <- p.rank:
		default: // a dump is about to be written
		}
	default:
		return fmt.Errorf("watch: frame of type %d, want %d to %d", typ, typePing, typePart)
	}
	return nil
}

// unanswered is the largest number of questions that may wait for a peer's answers. More
// of them would fill the buffers of a peer that is stopped, and the kernel would take its
// connection for dead.
const unanswered = 16

// ask asks a peer for its time. The watch's lock is held.
func (p *peer) ask() {
	if p.asked < unanswered {
		p.asked++
		p.send(typePing, nil)
	}
}

// complete ends compare's wait for this peer. The watch's lock is held.
func (p *peer) complete() {
	select {
	case <-p.first:
	default:
		close(p.first)
	}
}

// tend calls beat at every heartbeat until Close.
func (w *Watch) tend() {
	ticker := time.NewTicker(w.o.Heartbeat)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-w.quit:
			return
		case <-ticker.C:
			now := time.Now()
			w.beat(last, now)
			last = now
		}
	}
}

// beat sends one heartbeat to every peer, and announces a peer that has been silent for
// too long. last is the time of the previous heartbeat. A rank that was itself stopped
// since then has heard nothing, and must not blame the others for that.
func (w *Watch) beat(last, now time.Time) {
	asleep := now.Sub(last) > 3*w.o.Heartbeat
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.others() {
		if asleep {
			p.heard = now
		}
		if p.gone {
			continue
		}
		p.ask()
		if silent := now.Sub(p.heard); silent > w.o.Silence && !p.left && !w.leaving && w.best == nil {
			w.take(w.lost(p, fmt.Sprintf("does not answer: nothing has come from it for %v", silent.Round(time.Millisecond))))
		}
	}
}

// dumps calls Options.Dump for the ranks that have asked for it, until Close.
func (w *Watch) dumps() {
	for {
		select {
		case <-w.quit:
			return
		case from := <-w.dump:
			if w.o.Dump != nil {
				w.o.Dump(from)
			}
		}
	}
}

// Defaults of Options.
const (
	DefaultHeartbeat = 300 * time.Millisecond
	defaultSilence   = 30 * time.Second
	defaultSettle    = 50 * time.Millisecond
)

// Options are the settings of a watch. The zero Options are usable.
type Options struct {
	// Heartbeat is the time between two heartbeats; 0 means DefaultHeartbeat.
	Heartbeat time.Duration
	// Silence is the time without any message from a rank after which the rank counts as
	// lost; 0 means defaultSilence. It should be the job's deadline, because a process
	// that is stopped for a while, in a debugger or to be moved, is not dead. It must be
	// at least three heartbeats.
	Silence time.Duration
	// Settle is the time that this rank waits for other ranks' notices after the first
	// one; 0 means defaultSettle.
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
		o.Silence = defaultSilence
	}
	if o.Settle == 0 {
		o.Settle = defaultSettle
	}
	if o.Silence < 3*o.Heartbeat {
		return o, fmt.Errorf("watch: silence %v with a heartbeat every %v, want at least %v", o.Silence, o.Heartbeat, 3*o.Heartbeat)
	}
	return o, nil
}
