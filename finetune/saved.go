package finetune

import (
	"strings"

	"github.com/gomoe/gomoe/checkpoint/parts"
	"github.com/gomoe/gomoe/checkpoint/peft"
	"github.com/gomoe/gomoe/convert"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	"github.com/gomoe/gomoe/train/snapshot"
)

// saved describes checkpoints as a model with all weights trained, or as an adapter.
func (t *tuning) saved(params []nn.Param) (m *snapshot.Model, err error) {
	m = &snapshot.Model{}
	name := peft.TensorName
	if t.o.All {
		name = nameInFiles
		m.Files, err = convert.Describe(t.c, graph.F32, t.m.Family)
	} else {
		m.Files, err = peft.Describe(t.adapter(), t.adapters)
	}
	for _, p := range params {
		halves := 0
		if t.c.Config.GGUF() && (t.o.All || strings.HasSuffix(p.Name, nn.LoRAB)) {
			halves = t.m.Rotated(p)
		}
		m.Tensors = append(m.Tensors, parts.Tensor{Array: p.Name, Name: name(p.Name), Halves: halves})
	}
	return m, err
}

// nameInFiles returns a parameter's name in a folder of safetensors files, with a star for the number of an expert.
func nameInFiles(param string) string {
	if strings.Contains(param, "*") {
		return param
	}
	return models.MLXName(nn.Param{Name: param})
}

// adapter returns the adapter's description.
func (t *tuning) adapter() peft.Adapter {
	return peft.Adapter{LoRA: t.o.LoRA, Base: t.c.Path, Layout: t.m.Family.Adapters}
}
