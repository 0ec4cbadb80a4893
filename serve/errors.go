package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/quoted"
)

// problem is an error as sent to clients.
type problem struct {
	Status  int    `json:"-"`
	Retry   string `json:"-"` // number of seconds until the client may retry; "" if it should not
	Close   bool   `json:"-"` // the rest of the request is not read
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"` // the offending field of the request
	Code    string `json:"code,omitempty"`
}

func (p *problem) Error() string { return p.Message }

// wrong returns the problem of an invalid field.
func wrong(field, message string) *problem {
	return &problem{Status: http.StatusBadRequest, Message: message, Param: field}
}

// problemOf converts an error to a problem.
func problemOf(err error) *problem {
	var p *problem
	var request *generate.RequestError
	var room *generate.RoomError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &room):
		return &problem{Status: http.StatusBadRequest, Message: room.Error(), Code: "context_length_exceeded"}
	case errors.As(err, &request):
		return &problem{Status: http.StatusBadRequest, Message: request.Error()}
	case errors.Is(err, generate.ErrBusy):
		return &problem{Status: http.StatusTooManyRequests, Retry: "1", Message: err.Error(), Type: "rate_limit_error", Code: "rate_limit_exceeded"}
	case errors.Is(err, errStopping), errors.Is(err, generate.ErrClosed):
		return &problem{Status: http.StatusServiceUnavailable, Retry: "5", Message: err.Error(), Type: "server_error"}
	case errors.Is(err, context.Canceled):
		return &problem{Status: statusGone, Message: "the client is gone"}
	}
	return &problem{Status: http.StatusInternalServerError, Message: quoted.Scoped(err.Error()), Type: "server_error"}
}

// statusGone is the status counted for requests of disconnected clients.
const statusGone = 499

// body returns the body of an answer, or the event of a stream, describing the problem.
func (p *problem) body() any {
	if p.Type == "" {
		p.Type = "invalid_request_error"
	}
	return map[string]any{"error": p}
}

// refuse answers a request with a problem.
func refuse(w http.ResponseWriter, p *problem) {
	if p.Retry != "" {
		w.Header().Set("Retry-After", p.Retry)
	}
	switch p.Status {
	case http.StatusRequestEntityTooLarge, http.StatusRequestTimeout, http.StatusServiceUnavailable:
		p.Close = true
	}
	if p.Close {
		w.Header().Set("Connection", "close")
	}
	writeJSON(w, p.Status, p.body())
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error here means that the client has disconnected.
	_ = json.NewEncoder(w).Encode(v)
}
