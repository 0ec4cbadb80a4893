package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomoe/gomoe/checkpoint/parts"
)

// adapterName is the file describing an adapter; see package peft.
const adapterName = "adapter_config.json"

// openParts opens a training checkpoint as a model.
func (c *Checkpoint) openParts(dir string) (Config, error) {
	set, err := parts.Open(dir)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", dir, err)
	}
	c.close, c.drop, c.Files, c.Format = append(c.close, set.Close), append(c.drop, set.Drop), set.Paths(), Safetensors
	switch {
	case set.Model == nil:
		return Config{}, fmt.Errorf("%s: this is a checkpoint from which a training run goes on, and it does not say how it is a model; the command of the run with -resume, and with -steps %d, writes the model", dir, set.Step)
	case has(dir, adapterName):
		return Config{}, fmt.Errorf("%s: this is a checkpoint of an adapter; give the model that it was trained on, and -adapter %s", dir, dir)
	}
	if c.Tensors, err = set.Tensors(); err != nil {
		return Config{}, err
	}
	return ReadConfig(filepath.Join(dir, ConfigName))
}

// run returns the newest checkpoint of a training run, in the run's folder or in its folder of checkpoints; "" if
// there is none.
func run(path string) string {
	for _, folder := range []string{path, filepath.Join(path, "checkpoints")} {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue
		}
		for _, e := range slices.Backward(entries) { // eight-digit numbers, in order
			if ok, _ := filepath.Match("step-*", e.Name()); ok && has(filepath.Join(folder, e.Name()), parts.ManifestName) {
				return filepath.Join(folder, e.Name())
			}
		}
	}
	return ""
}
