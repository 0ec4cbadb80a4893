package report

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What is served is the last step, with totals of all.
func TestExporter(t *testing.T) {
	e := NewExporter()
	serve := func() string {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return "\n" + w.Body.String()
	}
	e.Step(Step{Index: 3, Total: 9, Loss: 2.5, Tokens: 100, Elapsed: time.Second, Drops: 4, Load: []float64{0.25, 0.75}})
	if got := serve(); strings.Contains(got, "held_out") {
		t.Errorf("a held-out loss before it is measured:\n%s", got)
	}
	e.Step(Step{Index: 4, Total: 9, Loss: math.NaN(), HeldOut: 2.25, Aux: 1.5, LR: 0.125, Norm: 7, Tokens: 100, Elapsed: 2 * time.Second, Compute: time.Second, Exchange: 500 * time.Millisecond, Waiting: 250 * time.Millisecond, Drops: 1, Load: []float64{0.5, 0.5}})
	got := serve()
	for _, want := range []string{"step 4", "steps 9", "loss NaN", "held_out_loss 2.25", "balance_loss 1.5", "learning_rate 0.125", "gradient_norm 7", "step_seconds 2",
		"tokens_per_second 50", `part_seconds{part="compute"} 1`, `part_seconds{part="exchange"} 0.5`, `part_seconds{part="waiting"} 0.25`, `expert_load{expert="0"} 0.5`, `expert_load{expert="1"} 0.5`, "tokens_total 200", "dropped_total 5"} {
		if !strings.Contains(got, "\ngomoe_train_"+want+"\n") {
			t.Errorf("%q is not served:\n%s", want, got)
		}
	}
}
