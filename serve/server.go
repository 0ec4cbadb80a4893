package serve

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/tokenizer"
)

// Config configures a Server. Name and Tokenizer are required; zero values of the others stand for the defaults
// given.
type Config struct {
	Name      string // of the model, as shown to clients
	Tokenizer *tokenizer.Tokenizer
	Ends      map[int32]bool // tokens ending a text
	Hosts     []string       // names by which clients reach the server, in addition to IP addresses, localhost and the machine's names
	Key       string         // required from clients as "Authorization: Bearer Key"; "" requires none
	Body      int64          // maximum length of a request's body in bytes; 8 MiB
	Header    int            // maximum length of a request's header in bytes; 64 KiB
	// Tokens is the maximum number of tokens generated for each text of a request with slide; 16 times the generator's
	// capacity.
	Tokens int
	// Receive is the time limit for receiving a request's header, and again for its body; 30 s.
	Receive time.Duration
	// Send is the time limit for sending a part of an answer; 30 s. It also limits the total time spent waiting for a
	// client, extended by a second for each KiB of its stream.
	Send time.Duration
	// Grace is the time that requests may take to finish when the server stops; 4 s, which is less than the grace
	// period of gomoe launch.
	Grace time.Duration
}

// Server answers requests using a Generator. It is an http.Handler and safe for concurrent use.
type Server struct {
	g       *generate.Generator
	c       Config
	began   time.Time
	key     [sha256.Size]byte
	handler http.Handler
	metrics *metrics
	intake  *intake
	text    int             // maximum number of bytes of a text to encode
	serving context.Context // parent of all requests' contexts; its cause tells why they end
	stop    context.CancelCauseFunc

	mu       sync.Mutex
	stopping bool
}

// errStopping is the error of requests arriving while the server stops, or not finished in time.
var errStopping = errors.New("serve: the server is stopping")

// New returns a Server using a Generator, which must have Options.Tokenizer. The caller keeps owning the Generator.
func New(g *generate.Generator, c Config) (*Server, error) {
	if c.Name == "" || c.Tokenizer == nil {
		return nil, errors.New("serve: Config without Name or Tokenizer, want both")
	}
	set(&c.Body, 8<<20)
	set(&c.Header, 64<<10)
	set(&c.Tokens, 16*g.Room())
	set(&c.Receive, 30*time.Second)
	set(&c.Send, 30*time.Second)
	set(&c.Grace, 4*time.Second)
	if c.Body < 0 || c.Header < 0 || c.Tokens < 0 || c.Receive < 0 || c.Send < 0 || c.Grace < 0 {
		return nil, errors.New("serve: a limit is below 0, want more, or 0 for the usual one")
	}
	allowed, err := newHosts(c.Hosts)
	if err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	s := &Server{g: g, c: c, began: time.Now(), key: sha256.Sum256([]byte(c.Key)), metrics: newMetrics(g),
		intake: newIntake(c, g.Stats()), text: longestText(g.Room(), c.Tokenizer)}
	s.serving, s.stop = context.WithCancelCause(context.Background())
	mux := http.NewServeMux()
	for pattern, h := range map[string]http.Handler{
		"POST /v1/completions":      s.counted("completions", s.completions),
		"POST /v1/chat/completions": s.counted("chat", s.chat),
		"GET /v1/models":            s.counted("models", s.models),
		"GET /v1/models/{id...}":    s.counted("models", s.model),
		"GET /metrics":              s.metrics.handler(),
		"GET /health":               http.HandlerFunc(s.health),
		"GET /{$}":                  showPage(),
	} {
		mux.Handle(pattern, h)
	}
	s.handler = allowed.guarded(s.guarded(mux))
	return s, nil
}

// set sets x to its default if it is zero.
func set[T comparable](x *T, usual T) {
	var zero T
	if *x == zero {
		*x = usual
	}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// guarded refuses requests without the key.
func (s *Server) guarded(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open := r.URL.Path == "/health" || r.URL.Path == "/"; s.c.Key != "" && !open {
			scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			given := sha256.Sum256([]byte(key))
			if !strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(given[:], s.key[:]) != 1 {
				w.Header().Set("WWW-Authenticate", "Bearer")
				refuse(w, &problem{Status: http.StatusUnauthorized, Type: "authentication_error", Code: "invalid_api_key", Message: "the API key is missing or wrong; give it as \"Authorization: Bearer KEY\""})
				return
			}
		}
		if _, pattern := mux.Handler(r); pattern == "" {
			s.unknown(w, r, mux)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// unknown answers a request without a handler.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		if other.Method = method; method == r.Method {
			continue
		}
		if _, pattern := mux.Handler(other); pattern != "" {
			w.Header().Set("Allow", method)
			refuse(w, &problem{Status: http.StatusMethodNotAllowed, Message: fmt.Sprintf("%s %s: want %s", quoted.Plain(r.Method), quoted.Plain(r.URL.Path), method)})
			return
		}
	}
	refuse(w, &problem{Status: http.StatusNotFound, Message: fmt.Sprintf("there is no %s; there are /v1/chat/completions, /v1/completions, /v1/models, /health and /metrics", quoted.Plain(r.URL.Path))})
}

// health reports whether the server accepts requests.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	status, text := http.StatusOK, "ok"
	if s.ends() {
		status, text = http.StatusServiceUnavailable, "stopping"
	} else if err := s.g.Err(); err != nil {
		status, text = http.StatusServiceUnavailable, "failed"
	}
	writeJSON(w, status, map[string]string{"status": text})
}

// ends reports whether the server accepts no more requests.
func (s *Server) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// errorsTake is the time for sending errors to clients of requests not finished in time.
const errorsTake = 5 * time.Second

// Serve answers requests arriving at a listener, until ctx ends or a step of the Generator fails. It then stops
// accepting requests, waits up to Config.Grace for pending ones, and ends the others with an error sent to their
// clients. It closes the listener. It returns nil if ctx has ended, and an error otherwise.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: s.c.Receive, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: s.c.Header,
		ErrorLog: log.New(io.Discard, "", 0), // discards errors caused by clients
	}
	served := make(chan error, 1)
	go func() { served <- h.Serve(l) }()
	var err error
	select {
	case err = <-served:
	case <-s.g.Failed():
		err = s.g.Err()
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	grace, cancel := context.WithTimeout(context.Background(), s.c.Grace)
	defer cancel()
	if h.Shutdown(grace) != nil {
		s.stop(errStopping)
		last, cancel := context.WithTimeout(context.Background(), errorsTake)
		defer cancel()
		if h.Shutdown(last) != nil {
			return errors.Join(err, h.Close())
		}
	}
	return err
}
