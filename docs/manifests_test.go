package docs

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/gomoe/gomoe/jaccl/job/environ"
)

// checkFields returns where value is not what fields says, which is a type of
// testdata/kubernetes/fields.json.
func checkFields(at string, value, fields any) error {
	wrong := fmt.Errorf("%s: %v, want %v", at, value, fields)
	switch f := fields.(type) {
	case []any:
		list, ok := value.([]any)
		if !ok {
			return wrong
		}
		for i, v := range list {
			if err := checkFields(fmt.Sprintf("%s[%d]", at, i), v, f[0]); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		m, ok := value.(map[string]any)
		if !ok {
			return wrong
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			field, ok := f[name]
			if any, other := f["*"]; other {
				field, ok = any, true
			}
			if !ok {
				return fmt.Errorf("%s: no field %s, there are %v", at, name, slices.Sorted(maps.Keys(f)))
			}
			if err := checkFields(at+"."+name, m[name], field); err != nil {
				return err
			}
		}
		return nil
	}
	ok := false
	switch value.(type) {
	case string:
		ok = fields != "integer" && fields != "bool"
	case int:
		ok = fields == "integer" || fields == "text or number"
	case bool:
		ok = fields == "bool"
	}
	if !ok {
		return wrong
	}
	return nil
}

// manifest is what the test looks at beside the fields.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		CompletionMode           string
		Completions, Parallelism int
		ClusterIP                string
		Selector                 map[string]string
		Network                  struct{ Subdomain string }
		Template                 struct {
			Spec struct {
				Subdomain  string
				Containers []struct {
					Args []string
					Env  []struct{ Name, Value string }
				}
			}
		}
		ReplicatedJobs []struct {
			Name     string
			Template manifest
		}
	}
}

// ranks checks a Job whose pods are the ranks of a job of gomoe: pod 0 is at `first`.
func ranks(job manifest, first string) error {
	s := job.Spec
	if s.CompletionMode != "Indexed" || s.Completions < 2 || s.Completions != s.Parallelism {
		return fmt.Errorf("%s, %d completions, %d at once: want Indexed, and all at once", s.CompletionMode, s.Completions, s.Parallelism)
	}
	known := map[string]bool{}
	for _, v := range environ.Variables() {
		known[v.Name] = true
	}
	for _, c := range s.Template.Spec.Containers {
		env := map[string]string{"JOB_COMPLETION_INDEX": "1"}
		for _, e := range c.Env {
			if !known[e.Name] {
				return fmt.Errorf("gomoe reads no %s", e.Name)
			}
			env[e.Name] = e.Value
		}
		found, err := environ.Detect(func(name string) string { return env[name] })
		if err != nil {
			return err
		}
		if found.Rank != 1 || found.Size != s.Completions || !strings.HasPrefix(found.Coordinator, first+":") {
			return fmt.Errorf("pod 1 is rank %d of %d and meets the others at %s, want 1 of %d, and %s", found.Rank, found.Size, found.Coordinator, s.Completions, first)
		}
		if i := slices.Index(c.Args, "-mesh"); i < 0 || product(c.Args[i+1]) != s.Completions {
			return fmt.Errorf("%v for %d pods", c.Args, s.Completions)
		}
		for _, name := range []string{"GOMOE_JOB", "GOMOE_SECRET"} {
			if _, ok := env[name]; !ok {
				return fmt.Errorf("%s is not set", name)
			}
		}
	}
	return nil
}

// product returns the number of ranks of a mesh.
func product(mesh string) int {
	n := 1
	for _, axis := range strings.Split(mesh, ",") {
		_, size, _ := strings.Cut(axis, "=")
		k, _ := strconv.Atoi(size)
		n *= k
	}
	return n
}

// Manifests of Kubernetes have fields that there are, and start ranks that find each other.
func TestManifests(t *testing.T) {
	data, err := os.ReadFile("testdata/kubernetes/fields.json")
	require.NoError(t, err)
	var kinds map[string]any
	require.NoError(t, json.Unmarshal(data, &kinds))
	jobs := 0
	for _, d := range documents(t) {
		for _, f := range d.fences {
			if f.lang != "yaml" {
				continue
			}
			services := map[string]manifest{}
			for r := yaml.NewDecoder(strings.NewReader(strings.Join(f.lines, "\n"))); ; {
				var node yaml.Node
				if err := r.Decode(&node); err == io.EOF {
					break
				} else {
					require.NoError(t, err, "%s:%d", d.path, f.line)
				}
				var all map[string]any
				require.NoError(t, node.Decode(&all))
				kind := fmt.Sprint(all["apiVersion"], " ", all["kind"])
				require.Contains(t, kinds, kind, "%s:%d", d.path, f.line)
				require.NoError(t, checkFields(kind, all, kinds[kind]), "%s:%d", d.path, f.line)
				text, err := json.Marshal(all)
				require.NoError(t, err)
				var m manifest
				require.NoError(t, json.Unmarshal(text, &m))
				switch m.Kind {
				case "Service":
					services[m.Metadata.Name] = m
				case "Job":
					domain := m.Spec.Template.Spec.Subdomain
					service := services[domain].Spec
					require.Equal(t, "None", service.ClusterIP, "%s:%d: the service %s", d.path, f.line, domain)
					require.Equal(t, map[string]string{"batch.kubernetes.io/job-name": m.Metadata.Name}, service.Selector)
					require.NoError(t, ranks(m, m.Metadata.Name+"-0."+domain), "%s:%d", d.path, f.line)
					jobs++
				case "JobSet":
					require.Len(t, m.Spec.ReplicatedJobs, 1)
					job := m.Spec.ReplicatedJobs[0]
					require.NoError(t, ranks(job.Template, m.Metadata.Name+"-"+job.Name+"-0-0."+m.Spec.Network.Subdomain), "%s:%d", d.path, f.line)
					jobs++
				}
			}
		}
	}
	require.Equal(t, 2, jobs, "manifests that start ranks")

	// What is wrong is found.
	for text, want := range map[string]string{
		"spec: {completion: 4}":                                     "Job.spec: no field completion, there are [activeDeadlineSeconds",
		"spec: {completions: '4'}":                                  "Job.spec.completions: 4, want integer",
		"spec: {template: {spec: {containers: {}}}}":                "Job.spec.template.spec.containers: map[], want [map",
		"spec: {template: {spec: {containers: [{args: moe_lm}]}}}":  "containers[0].args: moe_lm, want [text]",
		"spec: {template: {spec: {containers: [{args: [-n, 4]}]}}}": "containers[0].args[1]: 4, want text",
		"metadata: {labels: {a: 1}}":                                "Job.metadata.labels.a: 1, want text",
		"spec: {suspend: 1}":                                        "Job.spec.suspend: 1, want bool",
	} {
		var all map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(text), &all))
		require.ErrorContains(t, checkFields("Job", all, kinds["batch/v1 Job"]), want, text)
	}
}
