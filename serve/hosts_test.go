package serve

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/generate"
)

// A request is for a host by a name that nobody else can have lead here, on whatever address it comes, and so is the page that
// sends it.
func TestHosts(t *testing.T) {
	s, _ := open(t, generate.Options{Room: 20}, Config{Hosts: []string{"LLM.example.org.", "bücher.example"}})
	machine, err := os.Hostname()
	require.NoError(t, err)
	for _, c := range []struct {
		host, origin, site string
		status             int
	}{
		{"127.0.0.1:8080", "", "", 200},
		{"127.0.0.1", "", "", 200},
		{"192.0.2.2:8080", "", "", 200},
		{"[::1]:8080", "", "", 200},
		{"[2001:db8::1]", "", "", 200},
		{"[fe80::1%25eth0]:80", "", "", 200},
		{"localhost", "", "", 200},
		{"LocalHost.:1", "", "", 200},
		{"app.localhost:8080", "", "", 200},
		{machine + ":8080", "", "", 200},
		{strings.ToUpper(machine) + ".", "", "", 200},
		{"llm.example.org", "", "", 200},
		{"LLM.example.org.:443", "", "", 200},
		{"bücher.example", "", "", 200},
		{"", "", "", 200},

		{"evil.example", "", "", 403},
		{"evil.example:8080", "http://evil.example:8080", "same-origin", 403},
		{"evil.example.", "", "", 403},
		{"localhost.evil.example", "", "", 403},
		{"evillocalhost", "", "", 403},
		{"127.0.0.1.evil.example", "", "", 403},
		{"127.1", "", "", 403},
		{"0x7f000001", "", "", 403},
		{"llm.example.org.evil.example", "", "", 403},
		{"x.llm.example.org", "", "", 403},
		{"evil.example@127.0.0.1", "", "", 403},
		{"[127.0.0.1", "", "", 200},
		{"a b", "", "", 403},

		{"127.0.0.1:8080", "http://127.0.0.1:8080", "same-origin", 200},
		{"127.0.0.1:8080", "http://127.0.0.1:8080", "", 200},
		{"127.0.0.1:8080", "http://127.0.0.1:9090", "", 403},
		{"127.0.0.1:8080", "http://192.0.2.9", "cross-site", 403},
		{"127.0.0.1:8080", "http://evil.example", "", 403},
		{"127.0.0.1:8080", "http://evil.example", "same-origin", 403},
		{"127.0.0.1:8080", "null", "cross-site", 403},
		{"127.0.0.1:8080", "null", "", 403},
		{"127.0.0.1:8080", "%zz", "", 403},
		{"127.0.0.1:8080", "https://llm.example.org", "", 200}, // a proxy that names the server
		{"127.0.0.1:8080", "https://LLM.example.org:8443", "same-origin", 200},
		{"llm.example.org", "https://llm.example.org", "same-origin", 200},
		{"127.0.0.1:8080", "https://llm.example.org.evil.example", "", 403},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/completions", strings.NewReader(`{"prompt": "!", "max_tokens": 1}`))
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("host %q, origin %q, site %q: status %d, want %d: %s", c.host, c.origin, c.site, w.Code, c.status, w.Body)
		}
		if c.status == 200 {
			continue
		}
		for _, path := range []string{"/", "/v1/models", "/metrics", "/health"} { // nor does a page read anything
			r.Method, r.URL.Path = http.MethodGet, path
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if foreign := c.origin == "" || strings.Contains(c.origin, "evil"); foreign && w.Code != 403 {
				t.Errorf("host %q, origin %q: GET %s: status %d, want 403", c.host, c.origin, path, w.Code)
			}
		}
	}
	for _, name := range []string{"", "*", "*.example.org", "a:80", "http://a", "a/b", "a b", "a@b", "\x1b[31m"} {
		c := s.c
		c.Hosts = []string{name}
		_, err := New(s.g, c)
		require.ErrorContains(t, err, "want the name of a host without a port", "%q", name)
	}
}
