package serve

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/generate"
)

// endless asks for a text that does not end by itself.
const endless = `{"prompt": "!", "max_tokens": 1000000000, "slide": true, "stream": true}`

// begin sends a request and returns its answer once that has begun.
func begin(t *testing.T, ctx context.Context, url, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/completions", strings.NewReader(body))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// becomes waits until so many texts are generated, and so many wait.
func becomes(g *generate.Generator, running, waiting int) {
	for s := g.Stats(); s.Running != running || s.Waiting != waiting; s = g.Stats() {
		time.Sleep(time.Millisecond)
	}
}

// A client that goes away ends its text. Requests that the queue has no place for are told to come later.
func TestGone(t *testing.T) {
	h, _, g := start(t, generate.Options{Room: 20, Sequences: 1, Queue: 1}, Config{})
	ctx, leave := context.WithCancel(context.Background())
	begin(t, ctx, h.URL, endless)
	waiting, leaveToo := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(waiting, "POST", h.URL+"/v1/completions", strings.NewReader(strings.Replace(endless, `, "stream": true`, "", 1)))
		if err == nil {
			_, err = http.DefaultClient.Do(r)
		}
		ended <- err
	}()
	becomes(g, 1, 1)
	status, header, answer := post(t, h.URL+"/v1/completions", `{"prompt": "!"}`)
	require.Equal(t, 429, status)
	require.Equal(t, "1", header.Get("Retry-After"))
	require.Contains(t, answer, "the queue is full")
	leave()
	becomes(g, 1, 0) // the one that waited has the place
	leaveToo()
	require.ErrorIs(t, <-ended, context.Canceled)
	becomes(g, 0, 0)
	status, _, answer = post(t, h.URL+"/v1/completions", `{"prompt": "!"}`)
	require.Equal(t, 200, status, answer)
}

// small is a listener whose connections hold little of what is sent.
type small struct{ net.Listener }

func (l small) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(2048)
	}
	return c, err
}

// serving serves at a listener, and returns its address, what ends it, and what Serve returns then.
func serving(t *testing.T, s *Server) (addr string, end func(), ended chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	done := make(chan bool)
	go func() {
		ended <- s.Serve(ctx, small{l})
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l.Addr().String(), cancel, ended
}

// dial connects to a server and sends it a text.
func dial(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(2048))
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

// readAll returns what the server sends until it closes the connection, which it may also reset.
func readAll(c net.Conn) string {
	b, _ := io.ReadAll(c)
	return string(b)
}

const head = "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"

// drip is a response that is received slowly.
type drip struct {
	http.ResponseWriter
	takes    time.Duration
	deadline time.Time
}

func (d *drip) SetWriteDeadline(t time.Time) error { d.deadline = t; return nil }

func (d *drip) Flush() {}

func (d *drip) Write(b []byte) (int, error) {
	time.Sleep(d.takes)
	if !time.Now().Before(d.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

// A client that receives each part in time, but far slower than any network is, does not keep its place.
func TestDrips(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration // for an event of 1 KiB
		gone  bool
	}{{20 * time.Second, true}, {time.Second, false}, {3 * time.Second, true}} {
		synctest.Test(t, func(t *testing.T) {
			o := &reply{w: &drip{ResponseWriter: httptest.NewRecorder(), takes: c.takes}, wait: 30 * time.Second}
			var err error
			n := 0
			for ; err == nil && n < 100; n++ {
				err = o.line(strings.Repeat("x", 1<<10-8))
			}
			if gone := err != nil; gone != c.gone {
				t.Errorf("an event of 1 KiB in %v: after %d events %v, want gone %v", c.takes, n, err, c.gone)
			}
		})
	}
}

// A client that takes nothing of its answer is given up. Others do not notice.
func TestTakesNothing(t *testing.T) {
	s, g := open(t, generate.Options{Room: 20, Sequences: 2}, Config{Send: 50 * time.Millisecond})
	addr, _, _ := serving(t, s)
	dial(t, addr, fmt.Sprintf(head, len(endless))+endless)
	for s := g.Stats(); s.Requests < 1; s = g.Stats() {
		time.Sleep(time.Millisecond)
	}
	_, err := g.Generate(context.Background(), generate.Request{Prompt: []int32{1}, N: 19}, func(generate.Token) bool { return true })
	require.NoError(t, err)
	becomes(g, 0, 0)
}

// Clients that do not send what they began are given up.
func TestSendsNothing(t *testing.T) {
	s, _ := open(t, generate.Options{Room: 20}, Config{Receive: 50 * time.Millisecond})
	addr, _, _ := serving(t, s)
	// The header may be late, too, and then there is no answer.
	for !strings.Contains(readAll(dial(t, addr, fmt.Sprintf(head, 100)+`{"prompt"`)), "408 Request Timeout") {
	}
	readAll(dial(t, addr, "POST /v1/comp"))
	readAll(dial(t, addr, ""))
}

func TestHeaders(t *testing.T) {
	s, _ := open(t, generate.Options{Room: 20}, Config{Header: 1 << 10})
	addr, _, _ := serving(t, s)
	for text, want := range map[string]string{
		"GARBAGE\r\n\r\n": "400 Bad Request",
		"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n":                                                                             "403 Forbidden", // a name that only leads here
		"GET /health HTTP/1.1\r\nHost: localhost:8080\r\nConnection: close\r\n\r\n":                                                                "200 OK",
		"GET /health HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n":                                                                         "200 OK",
		"POST /v1/completions HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00": `"message":"Content-Encoding \"gzip\": want the request's JSON object as it is, without an encoding"`,
		"POST /v1/completions HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\nContent-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}":           `"param":"prompt"`,
	} {
		if got := readAll(dial(t, addr, text)); !strings.Contains(got, want) {
			t.Errorf("%.60q: %q, want %s", text, got, want)
		}
	}
	// The end of a connection with data that nobody has read can overtake the answer.
	for !strings.Contains(readAll(dial(t, addr, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "+strings.Repeat("x", 8<<10)+"\r\n\r\n")), "431 Request Header Fields Too Large") {
	}
}

// A client that closes its connection in the middle of a body, or of an answer, ends nothing but its request.
func TestBroken(t *testing.T) {
	s, g := open(t, generate.Options{Room: 20, Sequences: 2}, Config{})
	addr, _, _ := serving(t, s)
	for _, body := range []string{endless, endless[:20]} {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(endless), body)
		require.NoError(t, err)
		if body == endless {
			_, err = bufio.NewReader(c).ReadString('\n')
			require.NoError(t, err)
		}
		require.NoError(t, c.Close())
	}
	becomes(g, 0, 0)
	status, _, answer := post(t, "http://"+addr+"/v1/completions", `{"prompt": "!"}`)
	require.Equal(t, 200, status, answer)
}

// A server that is to end answers the requests that it has, and no others. Those that take too long get an error.
func TestEnds(t *testing.T) {
	s, _ := open(t, generate.Options{Room: 90, Sequences: 2}, Config{Grace: time.Hour})
	addr, end, ended := serving(t, s)
	r := begin(t, context.Background(), "http://"+addr, `{"prompt": "!", "max_tokens": 2000, "slide": true, "stream": true}`)
	end()
	for !s.ends() {
		time.Sleep(time.Millisecond)
	}
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(b), "data: [DONE]\n\n"))
	require.NoError(t, <-ended)
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the listener is open")
	}

	s, g := open(t, generate.Options{Room: 90, Sequences: 1}, Config{Grace: time.Millisecond})
	addr, end, ended = serving(t, s)
	r = begin(t, context.Background(), "http://"+addr, endless)
	waits := make(chan *http.Response)
	go func() {
		r, err := http.Post("http://"+addr+"/v1/completions", "", strings.NewReader(`{"prompt": "!"}`))
		if err != nil {
			t.Error(err)
		}
		waits <- r
	}()
	becomes(g, 1, 1)
	end()
	b, err = io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Contains(t, string(b), `data: {"error":{"message":"serve: the server is stopping"`)
	require.NotContains(t, string(b), "[DONE]")
	one := <-waits
	require.Equal(t, 503, one.StatusCode)
	require.Equal(t, "5", one.Header.Get("Retry-After"))
	require.NoError(t, one.Body.Close())
	require.NoError(t, <-ended)
}

// Requests that come while the server ends are refused, and health says why.
func TestEnding(t *testing.T) {
	h, s, _ := start(t, generate.Options{Room: 20}, Config{})
	get := func() (int, string) {
		r, err := http.Get(h.URL + "/health")
		require.NoError(t, err)
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		return r.StatusCode, string(b)
	}
	status, text := get()
	require.Equal(t, 200, status, text)
	s.stopping = true
	status, text = get()
	require.Equal(t, 503, status)
	require.Contains(t, text, "stopping")
	status, header, _ := post(t, h.URL+"/v1/completions", `{"prompt": "!"}`)
	require.Equal(t, 503, status)
	require.Equal(t, "5", header.Get("Retry-After"))
}

// The key is needed for everything but health. Pages of other sites are refused.
func TestKey(t *testing.T) {
	h, _, _ := start(t, generate.Options{Room: 20}, Config{Key: "secret"})
	for _, c := range []struct {
		path, header, value string
		status              int
	}{
		{"/v1/models", "Authorization", "Bearer secret", 200},
		{"/v1/models", "Authorization", "bearer secret", 200}, // the scheme has no case
		{"/v1/models", "Authorization", "Bearer wrong", 401},
		{"/v1/models", "Authorization", "Basic secret", 401},
		{"/v1/models", "X", "", 401},
		{"/metrics", "X-Key", "secret", 401},
		{"/nothing", "X", "", 401},
		{"/health", "X", "", 200},
		{"/", "X", "", 200},
	} {
		r, err := http.NewRequest("GET", h.URL+c.path, nil)
		require.NoError(t, err)
		r.Header.Set(c.header, c.value)
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		answer.Body.Close()
		require.Equal(t, c.status, answer.StatusCode, c)
	}
	r, err := http.NewRequest("POST", h.URL+"/v1/completions", strings.NewReader(`{"prompt": "!"}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("Origin", "http://elsewhere.example")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	answer.Body.Close()
	require.Equal(t, 403, answer.StatusCode)
}

// The page has all that it needs, and a browser is told to run its script and no other.
func TestPage(t *testing.T) {
	h, _, _ := start(t, generate.Options{Room: 20}, Config{})
	r, err := http.Get(h.URL + "/")
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	text := string(b)
	require.Equal(t, "text/html; charset=utf-8", r.Header.Get("Content-Type"))
	for _, outside := range []string{"://", " src=", " href=", "@import", "url(", "innerHTML", "onclick"} {
		require.NotContains(t, text, outside)
	}
	policy := r.Header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'; ")
	for _, tag := range []string{"script", "style"} {
		require.Equal(t, 1, strings.Count(text, "<"+tag+">"))
		begin, end := strings.Index(text, "<"+tag+">")+len(tag)+2, strings.Index(text, "</"+tag+">")
		sum := sha256.Sum256([]byte(text[begin:end]))
		require.Contains(t, policy, tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	// What the script asks for is there.
	asks := regexp.MustCompile(`"(v1/[^"]+)"`).FindAllStringSubmatch(text, -1)
	require.Len(t, asks, 3)
	for _, m := range asks {
		answer, err := http.Get(h.URL + "/" + m[1])
		require.NoError(t, err)
		answer.Body.Close()
		require.NotEqual(t, 404, answer.StatusCode, m[1])
	}
}
