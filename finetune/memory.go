package finetune

import (
	"fmt"
	goruntime "runtime"

	"github.com/gomoe/gomoe/internal/memory"
)

// advice is what to change where memory does not suffice.
const advice = "fewer sequences (-batch) or shorter ones (-length), more ranks along ep or tp (-mesh), a smaller -rank, or a quantised model"

// tooLarge adds to an error of a program that is too large what to change.
func tooLarge(err error) error { return fmt.Errorf("%w; what changes it: %s", err, advice) }

// fits says what a rank takes, and returns an error if the ranks of this process take more than there is.
func (t *tuning) fits(r Result) error {
	m := t.run.Job.Plan().Report(goruntime.GOMAXPROCS(0)).Mem
	ranks := t.o.Mesh.Ranks()
	if t.o.World != nil {
		info, err := t.o.World.Info()
		if err != nil {
			return err
		}
		ranks = len(info.Local)
	}
	need, can := m.OfRanks(ranks), memory.Available()
	what := fmt.Sprintf("trains %d numbers in %d adapters beside %d of the model, which stay as they are", r.Trained, len(t.adapters), r.Count)
	if t.o.All {
		what = fmt.Sprintf("trains all %d numbers of the model", r.Trained)
	}
	if err := t.say("%s", what); err != nil {
		return err
	}
	err := t.say("a rank takes %s: weights, what is trained, its moments and the batch %s, the step %s", memory.Format(float64(m.OfRanks(1))), memory.Format(float64(m.Inputs)), memory.Format(float64(m.OfRanks(1)-m.Inputs)))
	if err == nil && need > can.Bytes {
		err = fmt.Errorf("%d ranks take %s in this process, and %s can be had (%s); what changes it: %s", ranks, memory.Format(float64(need)), memory.Format(float64(can.Bytes)), can.By, advice)
	}
	return err
}
