package serve

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gomoe/gomoe/generate"
)

// metrics holds the metrics shown by /metrics: the Generator's statistics, and the durations of requests.
type metrics struct {
	registry           *prometheus.Registry
	requests           *prometheus.CounterVec
	seconds            *prometheus.HistogramVec
	wait, first, token prometheus.Histogram
}

func newMetrics(g *generate.Generator) *metrics {
	short := prometheus.ExponentialBuckets(0.001, 2, 16) // 1 ms to 33 s
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: short})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gomoe_requests_total", Help: "Requests that were answered, by endpoint and status; 499 is a client that went away."}, []string{"endpoint", "status"}),
		seconds:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gomoe_request_seconds", Help: "How long requests took.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 20)}, []string{"endpoint"}),
		wait:     histogram("gomoe_wait_seconds", "How long texts waited for a place."),
		first:    histogram("gomoe_first_token_seconds", "How long the first token of a text took once it had a place."),
		token:    histogram("gomoe_token_seconds", "How long each further token of a text took."),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.wait, m.first, m.token, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, x := range []struct {
		name, help string
		value      func(generate.Stats) float64
	}{
		{"gomoe_running", "Texts that are generated now.", func(s generate.Stats) float64 { return float64(s.Running) }},
		{"gomoe_waiting", "Texts that wait for a place.", func(s generate.Stats) float64 { return float64(s.Waiting) }},
		{"gomoe_sequences", "Texts that can be generated at once.", func(s generate.Stats) float64 { return float64(s.Sequences) }},
		{"gomoe_queue", "Texts that may wait for a place.", func(s generate.Stats) float64 { return float64(s.Queue) }},
	} {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: x.name, Help: x.help}, func() float64 { return x.value(g.Stats()) }))
	}
	for _, x := range []struct {
		name, help string
		value      func(generate.Stats) float64
	}{
		{"gomoe_texts_total", "Texts that have got a place.", func(s generate.Stats) float64 { return float64(s.Requests) }},
		{"gomoe_prompt_tokens_total", "Tokens of prompts that were computed.", func(s generate.Stats) float64 { return float64(s.Prompt) }},
		{"gomoe_reused_tokens_total", "Tokens of prompts that were in caches.", func(s generate.Stats) float64 { return float64(s.Reused) }},
		{"gomoe_generated_tokens_total", "Tokens that were generated.", func(s generate.Stats) float64 { return float64(s.Generated) }},
		{"gomoe_guessed_tokens_total", "Guesses for the next tokens.", func(s generate.Stats) float64 { return float64(s.Guessed) }},
		{"gomoe_accepted_tokens_total", "Guesses that were generated.", func(s generate.Stats) float64 { return float64(s.Accepted) }},
		{"gomoe_steps_total", "Steps that were computed.", func(s generate.Stats) float64 { return float64(s.Steps) }},
		{"gomoe_busy_seconds_total", "How long steps ran.", func(s generate.Stats) float64 { return s.Busy.Seconds() }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: x.name, Help: x.help}, func() float64 { return x.value(g.Stats()) }))
	}
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// request counts an answered request.
func (m *metrics) request(endpoint string, status int, took time.Duration) {
	m.requests.WithLabelValues(endpoint, strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(endpoint).Observe(took.Seconds())
}

// generated counts a generated text.
func (m *metrics) generated(r generate.Result) {
	m.wait.Observe(r.Wait.Seconds())
	m.first.Observe(r.First.Seconds())
	if r.Tokens > 1 {
		m.token.Observe(r.Others.Seconds() / float64(r.Tokens-1))
	}
}
