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

// Config says how a Server answers. Name and Tokenizer are needed; zeros of the others mean what stands beside them.
type Config struct {
	Name      string // of the model, for clients
	Tokenizer *tokenizer.Tokenizer
	Ends      map[int32]bool // tokens that end a text
	Hosts     []string       // names by which clients reach the server besides IP addresses, localhost and the machine's names
	Key       string         // that clients give, as "Authorization: Bearer Key"; "" asks for none
	Body      int64          // the longest body of a request in bytes; 8 MiB
	Header    int            // the longest header of a request in bytes; 64 KiB
	// Tokens is how many tokens a request with slide may have generated for each text; 16 times the generator's room.
	Tokens int
	// Receive is how long a client may take to send a request's header, and again for its body; 30 s.
	Receive time.Duration
	// Send is how long a client may take to receive a part of an answer; 30 s. All the time that the server waits for a client may
	// be that long, and a second longer for each KiB of its stream.
	Send time.Duration
	// Grace is how long requests may go on when the server is to end; 4 s, less than gomoe launch gives its ranks.
	Grace time.Duration
}

// Server answers requests with a Generator. It is an http.Handler, which many goroutines may call.
type Server struct {
	g       *generate.Generator
	c       Config
	began   time.Time
	key     [sha256.Size]byte
	handler http.Handler
	metrics *metrics
	intake  *intake
	text    int             // the most bytes of a text that is encoded
	serving context.Context // of all requests; its cause says why they end
	stop    context.CancelCauseFunc

	mu       sync.Mutex
	stopping bool
}

// errStopping is the error of requests that come while the server ends, or that do not end in time.
var errStopping = errors.New("serve: the server is stopping")

// New returns a Server for a Generator, which stays the caller's and has Options.Tokenizer.
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

// set sets a setting that is zero.
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
			key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			given := sha256.Sum256([]byte(key))
			if !ok || subtle.ConstantTimeCompare(given[:], s.key[:]) != 1 {
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

// unknown answers a request that no handler is for.
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

// health says whether the server takes requests.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	status, text := http.StatusOK, "ok"
	if s.ends() {
		status, text = http.StatusServiceUnavailable, "stopping"
	} else if err := s.g.Err(); err != nil {
		status, text = http.StatusServiceUnavailable, "failed"
	}
	writeJSON(w, status, map[string]string{"status": text})
}

// ends reports whether the server takes no more requests.
func (s *Server) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// errorsTake is how long clients may take to receive the errors of requests that did not end in time.
const errorsTake = 5 * time.Second

// Serve answers requests that come to a listener, until ctx ends or a step of the Generator fails. Then it takes no
// more requests, waits up to Config.Grace for those that it has, and ends the others with an error that their clients
// get. It closes the listener. It returns nil if ctx has ended, and otherwise what was wrong.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{
		Handler: s, ReadHeaderTimeout: s.c.Receive, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: s.c.Header,
		ErrorLog: log.New(io.Discard, "", 0), // what clients do wrong
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
