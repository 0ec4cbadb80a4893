package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// reply writes the answer to a request: an object, a stream of events, or a problem.
type reply struct {
	w      http.ResponseWriter
	wait   time.Duration // timeout for sending a part of the answer
	stream bool          // events have been sent

	sent   int           // bytes of events sent
	waited time.Duration // total time of sending them
}

// slowest is the minimum rate, in bytes per second, at which a client must receive a stream while the server waits
// for it. Otherwise a client receiving a byte now and then could occupy a slot indefinitely.
const slowest = 1 << 10

// counted returns a handler that refuses requests while the server is stopping, answers with h's error, and counts
// requests.
func (s *Server) counted(endpoint string, h func(*reply, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, status := time.Now(), http.StatusOK
		out := &reply{w: w, wait: s.c.Send}
		err := errStopping
		if !s.ends() {
			err = h(out, r)
		}
		if err != nil {
			p := problemOf(err)
			status = p.Status
			out.fail(p)
		}
		s.metrics.request(endpoint, status, time.Since(began))
	})
}

// limit sets the deadline for the next write.
func (o *reply) limit() {
	left := o.wait + time.Duration(o.sent)*time.Second/slowest - o.waited
	// This fails only for connections in tests, which have no deadlines.
	_ = http.NewResponseController(o.w).SetWriteDeadline(time.Now().Add(min(o.wait, left)))
}

// object answers with an object.
func (o *reply) object(v any) {
	o.limit()
	writeJSON(o.w, http.StatusOK, v)
}

// event sends an event of a stream. An error means that the client has disconnected, or does not read.
func (o *reply) event(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return o.line(string(text))
}

// line sends the data of an event, which must be a single line.
func (o *reply) line(data string) error {
	o.limit()
	if !o.stream {
		o.stream = true
		o.w.Header().Set("Content-Type", "text/event-stream")
		o.w.Header().Set("Cache-Control", "no-store")
	}
	began := time.Now()
	n, err := io.WriteString(o.w, "data: "+data+"\n\n")
	if err == nil {
		err = http.NewResponseController(o.w).Flush()
	}
	o.sent, o.waited = o.sent+n, o.waited+time.Since(began)
	if err != nil {
		return &problem{Status: statusGone, Message: err.Error()}
	}
	return nil
}

// fail answers with a problem, as an event if a stream has begun. The event [DONE] is then missing.
func (o *reply) fail(p *problem) {
	switch {
	case p.Status == statusGone:
	case o.stream:
		_ = o.event(p.body())
	default:
		o.limit()
		refuse(o.w, p)
	}
}

// until returns a request's context that also ends with the server.
func (s *Server) until(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.serving, func() { cancel(context.Cause(s.serving)) })
	return ctx, func(err error) {
		stop()
		cancel(err)
	}
}
