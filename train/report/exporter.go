package report

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Exporter serves the last step of a run, and totals of this process, to Prometheus. Unlike the other types of this
// package, it is safe for concurrent use, because requests arrive at any time.
//
// The metrics: gomoe_train_step, _steps (of the whole run), _loss, _held_out_loss (once measured), _balance_loss,
// _learning_rate, _gradient_norm, _step_seconds, _part_seconds{part} (compute, exchange and waiting),
// _tokens_per_second (of the last step), _expert_load{expert} (its share of the tokens' choices), and the totals
// _tokens_total and _dropped_total. A non-finite number is NaN, +Inf or -Inf.
type Exporter struct {
	handler                                                    http.Handler
	step, steps, loss, held, balance, rate, norm, seconds, tps prometheus.Gauge
	load, parts                                                *prometheus.GaugeVec
	tokens, dropped                                            prometheus.Counter
	registry                                                   *prometheus.Registry
	measured                                                   bool // the held-out loss is registered
}

// NewExporter returns an Exporter for a run without steps.
func NewExporter() *Exporter {
	e := &Exporter{registry: prometheus.NewRegistry()}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "gomoe_train_" + name, Help: help})
		if name != "held_out_loss" {
			e.registry.MustRegister(g)
		}
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "gomoe_train_" + name, Help: help})
		e.registry.MustRegister(c)
		return c
	}
	e.step, e.steps = gauge("step", "Steps done, with those of earlier runs."), gauge("steps", "Steps of the whole run.")
	e.loss, e.held = gauge("loss", "Loss of the last step."), gauge("held_out_loss", "The last loss on what is not trained on.")
	e.balance = gauge("balance_loss", "Load-balancing loss of the last step.")
	e.rate, e.norm = gauge("learning_rate", "Of the last step."), gauge("gradient_norm", "2-norm of the gradient before clipping.")
	e.seconds, e.tps = gauge("step_seconds", "How long the last step took."), gauge("tokens_per_second", "Of the last step, over all ranks.")
	e.load = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gomoe_train_expert_load", Help: "Share of the tokens' choices, mean over layers."}, []string{"expert"})
	e.parts = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gomoe_train_part_seconds", Help: "What the last step's time went to, mean over the ranks of this process."}, []string{"part"})
	e.registry.MustRegister(e.load, e.parts)
	e.tokens, e.dropped = counter("tokens_total", "Tokens trained on by this process's run."), counter("dropped_total", "Choices beyond the experts' capacity.")
	e.handler = promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{})
	return e
}

// Step sets the values to serve. It must not be called concurrently with itself.
func (e *Exporter) Step(s Step) {
	e.step.Set(float64(s.Index))
	e.steps.Set(float64(s.Total))
	e.loss.Set(s.Loss)
	e.balance.Set(s.Aux)
	e.rate.Set(s.LR)
	e.norm.Set(s.Norm)
	e.seconds.Set(s.Elapsed.Seconds())
	e.parts.WithLabelValues("compute").Set(s.Compute.Seconds())
	e.parts.WithLabelValues("exchange").Set(s.Exchange.Seconds())
	e.parts.WithLabelValues("waiting").Set(s.Waiting.Seconds())
	if s.Elapsed > 0 {
		e.tps.Set(float64(s.Tokens) / s.Elapsed.Seconds())
	}
	for i, x := range s.Load {
		e.load.WithLabelValues(strconv.Itoa(i)).Set(x)
	}
	e.tokens.Add(float64(s.Tokens))
	e.dropped.Add(float64(s.Drops))
	if s.HeldOut != 0 {
		e.held.Set(s.HeldOut)
		if !e.measured {
			e.measured = true
			e.registry.MustRegister(e.held)
		}
	}
}

// ServeHTTP implements http.Handler.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.handler.ServeHTTP(w, r) }
