package convert

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/models"
)

// heeded returns an error if the program that opens files of the layout would ignore a setting's value.
func (j *conversion) heeded() error {
	family := j.m.Family
	var name string
	var program models.Program
	switch j.o.Layout {
	case GGUF:
		name, program = "llama.cpp", family.LlamaCPP
	case MLX:
		name, program = "mlx-lm", family.MLX
	}
	if name == "" || j.o.Layout == GGUF && j.c.Format == checkpoint.GGUF {
		return nil
	}
	all := map[string]any{}
	for _, s := range j.m.Settings {
		if key := family.Spelled(s.Name); key != "" && (s.Value != nil || all[key] == nil) {
			all[key] = s.Value
		}
	}
	known := program.Known()
	for _, l := range program.Limits {
		known = append(known, l.Name)
		if !l.Heeds(all) {
			return fmt.Errorf("%s: %s is %s, and %s takes %s for %s whatever the file says; write a folder of Hugging Face's layout, or change the setting", j.c.Config.Path, l.Name, quoted.Value(j.stated(l.Name, all[l.Name])), name, l.Want, family.Name)
		}
	}
	for _, s := range j.m.Settings {
		key := family.Spelled(s.Name)
		object, _, _ := strings.Cut(key, ".")
		if j.o.Layout == MLX && key != "" && object != "quantization_config" && !s.Usual && !slices.Contains(known, key) && !slices.Contains(known, object) {
			return fmt.Errorf("%s: %s is %s, which %s does not read for %s; write a folder of Hugging Face's layout, or change the setting", j.c.Config.Path, key, quoted.Value(s.Value), name, family.Name)
		}
	}
	return nil
}

// grouped returns an error if mlx-lm may choose an expert outside the best groups. mlx-lm gives such experts the
// score 0, while transformers and llama.cpp use -∞, so scores made negative by an expert's bias may lose to them.
// No negative score is among the best if any choice of groups has enough experts with a bias of at least 0.
func (j *conversion) grouped() error {
	all := map[string]int{}
	for _, s := range j.m.Settings {
		if n, ok := s.Value.(int); ok {
			all[j.m.Family.Spelled(s.Name)] = n
		}
	}
	groups, best, chosen := all["n_group"], all["topk_group"], all["num_experts_per_tok"]
	if j.o.Layout != MLX || groups <= 1 || best >= groups {
		return nil
	}
	for _, p := range j.params {
		if !strings.HasSuffix(p.Name, ".e_score_correction_bias") {
			continue
		}
		x, err := p.w.Array()
		if err != nil {
			return err
		}
		biases := x.Float64s()
		safe := make([]int, groups)
		for e, b := range biases {
			if b >= 0 {
				safe[e*groups/len(biases)]++
			}
		}
		slices.Sort(safe)
		sum := 0
		for _, n := range safe[:best] {
			sum += n
		}
		if sum < chosen {
			return fmt.Errorf("%s: %s has negative biases, with which mlx-lm may choose experts outside of the %d best groups of %d: %d of their experts are sure to have a score above 0, want %d; write a folder of Hugging Face's layout",
				j.c.Path, p.Name, best, groups, sum, chosen)
		}
	}
	return nil
}

// stated returns a setting's value for an error's text. A value of 0 may come from the file or stand for absence.
func (j *conversion) stated(name string, v any) any {
	if _, ok := j.c.Config.Value(name); models.Absent(v) && (v == nil || !ok) {
		return "absent"
	}
	return v
}
