package watch

import (
	"time"

	"github.com/gomoe/gomoe/jaccl/link"
)

// asking holds both sides of the question about ranks' current operations. The watch's
// lock guards it.
type asking struct {
	answer  func() link.Waiting  // this rank's whereabouts; nil until Answer is called
	answers map[int]link.Waiting // other ranks' answers to Ask; nil if no Ask is in progress
	news    chan struct{}        // buffers one signal: a rank has answered, or is gone
}

// answered wakes Ask: a rank has answered or is gone. The watch's lock is held.
func (a *asking) answered() {
	select {
	case a.news <- struct{}{}:
	default: // Ask has not seen the last news yet, or no Ask is in progress
	}
}

// Answer implements link.Whereabouts.
func (w *Watch) Answer(f func() link.Waiting) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

// Ask implements link.Whereabouts. One goroutine at a time may call it.
func (w *Watch) Ask(d time.Duration) map[int]link.Waiting {
	timer := time.NewTimer(d)
	defer timer.Stop()
	w.mu.Lock()
	w.answers, w.news = map[int]link.Waiting{}, make(chan struct{}, 1)
	news := w.news
	for _, p := range w.others() {
		p.send(typeAsk, nil)
	}
	w.mu.Unlock()
	for waiting := true; waiting; {
		w.mu.Lock()
		waiting = false
		for _, p := range w.others() {
			_, ok := w.answers[p.rank]
			waiting = waiting || !ok && !p.left && !p.gone
		}
		w.mu.Unlock()
		if !waiting {
			break
		}
		select {
		case <-news:
		case <-timer.C:
			waiting = false
		case <-w.down:
			waiting = false
		case <-w.quit:
			waiting = false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.answers
	w.answers, w.news = nil, nil
	return all
}
