//go:build peers

package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomoe/gomoe/generate"
)

// peer returns the program of a variable of the environment.
func peer(t *testing.T, variable, what string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s is not set, want %s", variable, what)
	}
	return path
}

// OpenAI's own client gets what it asks for, a hundred of them at once too, and errors of its own kinds.
func TestOpenAI(t *testing.T) {
	python := peer(t, "GOMOE_TEST_OPENAI", "a python that has openai")
	s, g := openTemplate(t, `{% for m in messages %}{{ m.content }}{% endfor %}!`, generate.Options{Room: 60, Sequences: 8, Queue: 200}, Config{Key: "secret"})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	said, err := exec.CommandContext(t.Context(), python, "testdata/client.py", h.URL, "secret").CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.Empty(t, string(said))
	becomes(g, 0, 0)
}

// browser is a Chromium without a window, which is told what to do over a pipe.
type browser struct {
	t       *testing.T
	to      *os.File
	from    *bufio.Reader
	session string
	calls   int
	wrong   []string // what the page's console has of errors, but for answers that are some
}

// browse starts a browser with a page.
func browse(t *testing.T, url string) *browser {
	t.Helper()
	in, to, err := os.Pipe()
	require.NoError(t, err)
	from, out, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(peer(t, "GOMOE_TEST_CHROMIUM", "Chromium's program"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{in, out} // 3 and 4, as the flag says
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Start())
	require.NoError(t, in.Close())
	require.NoError(t, out.Close())
	b := &browser{t: t, to: to, from: bufio.NewReader(from)}
	t.Cleanup(func() {
		b.call("Browser.close", nil)
		_ = cmd.Wait()
		to.Close()
		from.Close()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	target := b.call("Target.createTarget", map[string]any{"url": "about:blank"})
	b.session, _ = b.call("Target.attachToTarget", map[string]any{"targetId": target["targetId"], "flatten": true})["sessionId"].(string)
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		b.call(domain+".enable", nil)
	}
	b.call("Page.navigate", map[string]any{"url": url})
	b.until(`document.readyState === "complete" && document.getElementById("text") !== null`)
	return b
}

// call has the browser do something and returns what comes of it.
func (b *browser) call(method string, params map[string]any) map[string]any {
	b.t.Helper()
	b.calls++
	message := map[string]any{"id": b.calls, "method": method}
	if params != nil {
		message["params"] = params
	}
	if b.session != "" && method != "Browser.close" {
		message["sessionId"] = b.session
	}
	text, err := json.Marshal(message)
	require.NoError(b.t, err)
	_, err = b.to.Write(append(text, 0))
	require.NoError(b.t, err)
	for {
		text, err := b.from.ReadBytes(0)
		require.NoError(b.t, err)
		var answer struct {
			ID             int
			Method         string
			Result, Params map[string]any
			Error          *struct{ Message string }
		}
		require.NoError(b.t, json.Unmarshal(text[:len(text)-1], &answer))
		switch {
		case answer.Method == "Runtime.exceptionThrown", answer.Method == "Log.entryAdded" && strings.Contains(string(text), `"level":"error"`) && !strings.Contains(string(text), `"source":"network"`):
			b.wrong = append(b.wrong, string(text[:len(text)-1]))
		case answer.ID == b.calls:
			require.Nil(b.t, answer.Error, method)
			return answer.Result
		}
	}
}

// value returns the value of an expression of the page.
func (b *browser) value(expression string) any {
	b.t.Helper()
	r := b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	require.Nil(b.t, r["exceptionDetails"], expression)
	return r["result"].(map[string]any)["value"]
}

// until waits until an expression of the page is true.
func (b *browser) until(expression string) {
	b.t.Helper()
	for b.value(expression) != true {
		time.Sleep(5 * time.Millisecond)
	}
}

// write has a person write a text and press Enter.
func (b *browser) write(at, text string) {
	b.t.Helper()
	b.value(fmt.Sprintf("document.getElementById(%q).focus()", at))
	b.call("Input.insertText", map[string]any{"text": text})
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.call("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})
	}
}

// press has a person press a button.
func (b *browser) press(id string) {
	b.t.Helper()
	b.value(fmt.Sprintf("document.getElementById(%q).click()", id))
}

// texts returns the texts of the messages of a kind.
func (b *browser) texts(kind string) (texts []string) {
	b.t.Helper()
	for _, x := range b.value(fmt.Sprintf(`[...document.querySelectorAll(".message.%s")].map(p => p.textContent)`, kind)).([]any) {
		texts = append(texts, x.(string))
	}
	return texts
}

const idle = `document.getElementById("send").textContent === "Send"`

// The page asks for the key, talks, stops an answer, begins again, and shows errors, in a browser. It runs no script of a message.
func TestBrowser(t *testing.T) {
	s, g := openTemplate(t, `{% for m in messages %}{{ m.content }}{% endfor %}!`, generate.Options{Room: 90, Sequences: 2}, Config{Key: "secret"})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	b := browse(t, h.URL)
	b.write("text", "#")
	b.until(`document.querySelector(".message.error") !== null && ` + idle)
	require.Contains(t, b.texts("error")[0], "API key")
	require.Equal(t, "gomoe", b.value("document.title"))
	b.write("key", "secret")
	b.until(`document.title === "m"`)

	b.press("new")
	require.Empty(t, b.texts("user"))
	b.write("text", "#$")
	b.until(`document.querySelectorAll(".message.assistant").length === 1 && ` + idle)
	require.Equal(t, []string{"#$"}, b.texts("user"))
	first := b.texts("assistant")
	require.Len(t, first, 1)
	require.NotEmpty(t, first[0])
	require.Empty(t, b.texts("error"))

	// What a person writes is text, also in an error: the model has no such tokens.
	b.press("new")
	b.value(`window.onerror = () => { document.title = "wrong" }; 0`)
	b.write("text", `<b>"&`)
	b.until(`document.querySelectorAll(".message.user").length === 1 && ` + idle)
	require.Equal(t, []string{`<b>"&`}, b.texts("user"))
	require.Len(t, b.texts("error"), 1)
	require.Contains(t, b.texts("error")[0], "token 0 of the prompt is 60, want one of 0 to 39")
	require.Equal(t, "m", b.value("document.title"))
	require.Empty(t, b.wrong)
	becomes(g, 0, 0)
}

// A page of a model without a template continues a text, which a person stops.
func TestBrowserStops(t *testing.T) {
	s, g := openTemplate(t, "", generate.Options{Room: 90, Sequences: 1}, Config{})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	b := browse(t, h.URL)
	b.until(`document.title === "m" && document.getElementById("text").placeholder.startsWith("A text, which")`)
	// Another client has the only place, so the answer waits until it is stopped.
	r := begin(t, t.Context(), h.URL, endless)
	b.write("text", "!#")
	b.until(`document.getElementById("send").textContent === "Stop"`)
	becomes(g, 1, 1)
	b.press("send")
	b.until(idle)
	becomes(g, 1, 0)
	require.Empty(t, b.texts("error"))
	require.NoError(t, r.Body.Close())
	becomes(g, 0, 0)
	b.write("text", "!#")
	b.until(`document.querySelectorAll(".message.assistant").length === 1 && ` + idle)
	require.Len(t, strings.Split(b.texts("assistant")[0], ""), 200)
	require.Empty(t, b.wrong)
}
