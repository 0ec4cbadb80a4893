package serve

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
)

// page is a page to talk to the model, with all that it needs.
//
//go:embed page.html
var page string

// pagePolicy returns the page's content security policy: it may run its script, use its style, and call this
// server.
func pagePolicy() string {
	hash := func(tag string) string {
		_, text, _ := strings.Cut(page, "<"+tag+">")
		text, _, _ = strings.Cut(text, "</"+tag+">")
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; script-src " + hash("script") + "; style-src " + hash("style") + "; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// showPage answers GET /. The page itself asks for the key.
func showPage() http.Handler {
	policy := pagePolicy()
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", policy)
		// An error here means that the client has disconnected.
		_, _ = io.WriteString(w, page)
	})
}
