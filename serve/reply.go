package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// reply is the answer to a request: an object, a stream of events, or a problem.
type reply struct {
	w      http.ResponseWriter
	wait   time.Duration // for a part of the answer to be received
	stream bool          // events have been sent
}

// counted returns a handler that refuses requests while the server ends, answers with h's error, and counts.
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

// limit gives the client time to receive what is sent next.
func (o *reply) limit() {
	// A connection without deadlines is one of a test.
	_ = http.NewResponseController(o.w).SetWriteDeadline(time.Now().Add(o.wait))
}

// object answers with an object.
func (o *reply) object(v any) {
	o.limit()
	writeJSON(o.w, http.StatusOK, v)
}

// event sends an event of a stream. An error says that the client is gone, or takes nothing.
func (o *reply) event(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return o.line(string(text))
}

// line sends the data of an event, which is one line.
func (o *reply) line(data string) error {
	o.limit()
	if !o.stream {
		o.stream = true
		o.w.Header().Set("Content-Type", "text/event-stream")
		o.w.Header().Set("Cache-Control", "no-store")
	}
	if _, err := io.WriteString(o.w, "data: "+data+"\n\n"); err != nil {
		return &problem{Status: statusGone, Message: err.Error()}
	}
	if err := http.NewResponseController(o.w).Flush(); err != nil {
		return &problem{Status: statusGone, Message: err.Error()}
	}
	return nil
}

// fail answers with a problem, as an event where a stream has begun. Then the client misses the event [DONE], too.
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

// read reads the object that a request consists of: see parse.
func (s *Server) read(w http.ResponseWriter, r *http.Request, v any) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.c.Receive))
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.c.Body))
	// After an error the deadline stays: net/http reads the rest of the body before the connection is used again.
	if err == nil {
		_ = control.SetReadDeadline(time.Time{}) // the client may now wait for as long as the answer takes
		return parse(text, v)
	}
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return &problem{Status: http.StatusRequestEntityTooLarge, Message: fmt.Sprintf("the request is longer than %d bytes", long.Limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{Status: http.StatusRequestTimeout, Message: fmt.Sprintf("the request did not come within %v", s.c.Receive)}
	}
	return wrong("", "the request is no complete JSON object")
}
