package serve

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/generate"
)

// allocated returns the bytes that f allocates, on all goroutines.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A text that cannot fit is refused before it is encoded, which takes 50 times its bytes, wherever it stands in a request.
func TestLongTexts(t *testing.T) {
	h, s, _ := start(t, generate.Options{Room: 20, Sequences: 1, Queue: 8}, Config{})
	require.Equal(t, leastText, s.text)
	long := strings.Repeat("!", 2<<20)
	for _, c := range []struct{ path, body, code, message string }{
		{"completions", `{"prompt": "` + long + `"}`, "context_length_exceeded", "a text of 2097152 bytes, and with room for 20 positions want at most 65536 bytes"},
		{"completions", `{"prompt": ["!", "` + long + `"]}`, "context_length_exceeded", "a text of 2097152 bytes"},
		{"completions", `{"prompt": "` + long + `", "slide": true, "max_tokens": 1}`, "context_length_exceeded", "a text of 2097152 bytes"},
		{"completions", `{"prompt": [` + strings.Repeat("1,", 1<<20) + `1]}`, "context_length_exceeded", "a prompt of 1048577 tokens"},
		{"completions", `{"prompt": [` + strings.Repeat("1,", 1<<20) + `1], "slide": true, "max_tokens": 1}`, "context_length_exceeded", "a prompt of 1048577 tokens"},
		{"completions", `{"prompt": [[1], [` + strings.Repeat("1,", 1<<20) + `1]]}`, "context_length_exceeded", "a prompt of 1048577 tokens"},
		{"completions", `{"prompt": "!", "stop": "` + long + `"}`, "", "text 0 at which to stop has 2097152 bytes, want 65536 at most"},
		{"completions", `{"prompt": ["!"` + strings.Repeat(`,"!"`, 1<<18) + `]}`, "", "more than 64 prompts"},
		{"completions", `{"prompt": ["!","!","!","!","!"], "n": 2}`, "", "10 texts in one request, want at most 9"},
		{"chat/completions", `{"messages": [{"role": "user", "content": "` + long + `"}]}`, "context_length_exceeded", "bytes, and with room for 20 positions"},
		{"chat/completions", `{"messages": [{"role": "user", "content": "!"}], "tools": [{"a": "` + long + `"}]}`, "context_length_exceeded", "bytes, and with room for 20 positions"},
		{"chat/completions", `{"messages": [{"role": "user", "content": "!"}], "chat_template_kwargs": {"more": "` + long + `"}}`, "context_length_exceeded", "bytes, and with room for 20 positions"},
		{"chat/completions", `{"messages": [{"role": "user", "content": "!"}], "n": 10}`, "", "10 texts in one request, want at most 9"},
	} {
		var status int
		var answer string
		took := allocated(func() { status, _, answer = post(t, h.URL+"/v1/"+c.path, c.body) })
		name := fmt.Sprintf("%s %.40s…%s", c.path, c.body, c.body[len(c.body)-20:])
		require.Equal(t, 400, status, name)
		require.Contains(t, answer, c.message, name)
		require.Less(t, len(answer), 1000, name)
		if c.code != "" {
			require.Contains(t, answer, `"code":"`+c.code+`"`, name)
		}
		if most := uint64(1<<20 + 40*len(c.body)); took > most {
			t.Errorf("%s: %d bytes were allocated for a body of %d bytes, want at most %d", name, took, len(c.body), most)
		}
	}
}

// Bodies whose end is held back have a bounded number of bytes together, and give way to others.
func TestUnfinishedBodies(t *testing.T) {
	const body = 256 << 10
	s, _ := open(t, generate.Options{Room: 20, Sequences: 2}, Config{Body: body})
	addr, _, _ := serving(t, s)
	var all []net.Conn
	for range 3 * bodies {
		all = append(all, dial(t, addr, fmt.Sprintf(head, body)+`{"prompt": "`+strings.Repeat("!", body-100)))
	}
	// The first ones have been told to come again; the last ones are still received.
	text := readAll(all[0])
	require.Contains(t, text, "429 Too Many Requests")
	require.Contains(t, text, "Connection: close")
	require.Contains(t, text, "all the memory for requests")
	s.intake.mu.Lock()
	held, most := s.intake.held, s.intake.most
	s.intake.mu.Unlock()
	require.LessOrEqual(t, held, most)
	status, _, answer := post(t, "http://"+addr+"/v1/completions", `{"prompt": "!", "max_tokens": 1}`)
	require.Equal(t, 200, status, answer)
	long := `{"prompt": "!", "max_tokens": 1, "user": "` + strings.Repeat("!", body/2) + `"}`
	status, _, answer = post(t, "http://"+addr+"/v1/completions", long)
	require.Equal(t, 200, status, answer)
	for _, c := range all {
		c.Close()
	}
	for held = 1; held > 0; { // until the server has seen it
		s.intake.mu.Lock()
		held = s.intake.held
		s.intake.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	require.Empty(t, s.intake.arriving)
}

// A request that is longer than allowed by its own words is refused before it is sent, and one without its length while it is.
func TestLongBodies(t *testing.T) {
	s, _ := open(t, generate.Options{Room: 20}, Config{Body: 1000})
	addr, _, _ := serving(t, s)
	require.Contains(t, readAll(dial(t, addr, fmt.Sprintf(head, 1001))), "413 Request Entity Too Large")
	chunked := "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	chunk := func(n int) string { return fmt.Sprintf("%x\r\n%s\r\n", n, strings.Repeat(" ", n)) }
	require.Contains(t, readAll(dial(t, addr, chunked+chunk(900)+chunk(101))), "413 Request Entity Too Large")
	object := `{"prompt": "!", "max_tokens": 1}`
	c := dial(t, addr, chunked+chunk(1000-len(object))+fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(object), object))
	b := make([]byte, 15)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200 OK", string(b))
}

// One large body is parsed at a time. Small ones do not wait for it. More than the generator has places for may not wait.
func TestTurns(t *testing.T) {
	in := newIntake(Config{Body: 1 << 20, Receive: time.Minute}, generate.Stats{Sequences: 1, Queue: 2})
	read := func(ctx context.Context, n int, parse func([]byte) error) error {
		r := httptest.NewRequest("POST", "/", strings.NewReader(strings.Repeat(" ", n)))
		return in.read(ctx, httptest.NewRecorder(), r, parse)
	}
	parsing, ends := make(chan bool), make(chan bool)
	var wait sync.WaitGroup
	var first, second error
	wait.Go(func() {
		first = read(context.Background(), 1<<20, func(text []byte) error {
			close(parsing)
			<-ends
			return nil
		})
	})
	<-parsing
	ctx, cancel := context.WithCancel(context.Background())
	wait.Go(func() {
		second = read(ctx, smallBody+1, func(text []byte) error {
			t.Error("a large body is parsed beside another one")
			return nil
		})
	})
	small := 0
	require.NoError(t, read(context.Background(), smallBody, func(text []byte) error { small = len(text); return nil }))
	require.Equal(t, smallBody, small)
	for n := 0; n < 2; {
		in.mu.Lock()
		n = in.parsing
		in.mu.Unlock()
	}
	require.NoError(t, read(context.Background(), 1, func([]byte) error {
		require.ErrorIs(t, read(context.Background(), 1, func([]byte) error { return nil }), generate.ErrBusy)
		return nil
	}))
	cancel()
	for n := 2; n > 1; {
		in.mu.Lock()
		n = in.parsing
		in.mu.Unlock()
	}
	close(ends)
	wait.Wait()
	require.NoError(t, first)
	require.ErrorIs(t, second, context.Canceled)
	require.Equal(t, []int64{0, 0}, []int64{in.held, int64(in.parsing)})
	require.True(t, in.large.TryAcquire(1<<20))
}

// A request that is refused for the number of its fields costs little more than reading it.
func TestManyFields(t *testing.T) {
	h, _, _ := start(t, generate.Options{Room: 20}, Config{})
	many := func(prefix string, n int, value string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%s%d":%s,`, prefix, i, value)
		}
		return strings.TrimSuffix(b.String(), ",")
	}
	for _, c := range []struct{ body, want string }{
		{`{` + many("k", 129, "1") + `}`, "more than 128 fields"},
		{`{"metadata": {` + many("k", 20, "1") + `, "k7": 2}}`, `field \"k7\" is there twice`},
		{`{"metadata": {` + many("k", 20, "1") + `, "\u006b19": 2}}`, `field \"k19\" is there twice`},
		{`{"prompt": "!", "logit_bias": {` + many("", maxNames+1, "1") + `}}`, "more than 262144 fields"},
		{`{"prompt": "!", "logit_bias": {` + many("", 400, "1") + `}}`, "400 tokens with a bias, and there are"},
		{`{"prompt": "!", "user": {"a": {"b": [{"c": 1}, {"c": 1, "d": ":,{", "c": 2}]}}}`, `field \"c\" is there twice`},
		{`{"prompt": "!", "` + strings.Repeat("x", 1<<20) + `": 1}`, "unknown field"},
		{`{"prompt": "!", "max_tokens": ` + strings.Repeat("9", 1<<20) + `}`, `max_tokens: number 999999999999999999999999999999999…, want an integer`},
		{`{"prompt": "!", "model": "` + strings.Repeat("x", 1<<20) + `"}`, `there is no model \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"…`},
		{`{"prompt": "!", "n": "` + strings.Repeat("x", 1<<20) + `"}`, "n: string, want an integer"},
	} {
		status, _, answer := post(t, h.URL+"/v1/completions", c.body)
		require.Contains(t, []int{400, 404}, status, c.want)
		require.Contains(t, answer, c.want)
		require.Less(t, len(answer), 500)
	}
	status, _, answer := post(t, h.URL+"/v1/completions", `{"prompt": "!", "max_tokens": 1, "metadata": {"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}], "\\": "\"", "c": ","}}`)
	require.Equal(t, 200, status, answer)
}

// A token has one name, so that no bias is there twice.
func TestBiasTwice(t *testing.T) {
	h, _, _ := start(t, generate.Options{Room: 20}, Config{})
	for _, key := range []string{"05", "+5", "-0", "0x5", "5.0", " 5", "5e0", "٥", ""} {
		status, _, answer := post(t, h.URL+"/v1/completions", `{"prompt": "!", "max_tokens": 1, "logit_bias": {"5": -100, "`+key+`": 100}}`)
		require.Equal(t, 400, status, key)
		require.Contains(t, answer, "want its number")
	}
	status, _, answer := post(t, h.URL+"/v1/completions", `{"prompt": "!", "max_tokens": 1, "logit_bias": {"5": -100, "0": 100}}`)
	require.Equal(t, 200, status, answer)
}

// A text that slides ends, too.
func TestSlideEnds(t *testing.T) {
	h, s, g := start(t, generate.Options{Room: 20}, Config{Tokens: 50})
	body := `{"prompt": "!", "slide": true, "temperature": 0, "max_tokens": %d}`
	status, _, answer := post(t, h.URL+"/v1/completions", fmt.Sprintf(body, 51))
	require.Equal(t, 400, status)
	require.Contains(t, answer, "max_tokens")
	require.Contains(t, answer, "51 tokens at most, want at most 50")
	status, _, answer = post(t, h.URL+"/v1/completions", fmt.Sprintf(body, 50))
	require.Equal(t, 200, status, answer)
	require.Contains(t, answer, `"completion_tokens":50`)
	c := s.c
	c.Tokens = 0
	usual, err := New(g, c)
	require.NoError(t, err)
	require.Equal(t, 16*20, usual.c.Tokens)
	rec := httptest.NewRecorder()
	usual.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "http://localhost/v1/completions", strings.NewReader(fmt.Sprintf(body, 1<<62))))
	require.Equal(t, 400, rec.Code)
}
