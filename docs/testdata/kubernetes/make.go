// Command make writes fields.json: the fields that Kubernetes' types have, of the kinds that
// the manifests in docs/clusters.md use. It reads them from the types of Kubernetes' own Go
// packages, so it has a module of its own: run go run . in this folder.
package main

import (
	"encoding/json"
	"log"
	"os"
	"reflect"
	"strings"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// fields returns a text for a type that is a single value, a list of one for lists, and a map
// for structures: from its fields, or from "*" where the names are the user's.
func fields(t reflect.Type) any {
	if t.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()) {
		return "text or number" // quantities, times, ports by name or number
	}
	switch t.Kind() {
	case reflect.Pointer:
		return fields(t.Elem())
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "text"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "integer"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "text"
		}
		return []any{fields(t.Elem())}
	case reflect.Map:
		return map[string]any{"*": fields(t.Elem())}
	case reflect.Struct:
		m := map[string]any{}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "status" || name == "managedFields" || name == "ephemeralContainers" || !f.IsExported():
			case name == "":
				for k, v := range fields(f.Type).(map[string]any) {
					m[k] = v
				}
			default:
				m[name] = fields(f.Type)
			}
		}
		return m
	}
	log.Fatalf("%s: what is this in JSON?", t)
	return nil
}

func main() {
	out, err := json.Marshal(map[string]any{
		"batch/v1 Job":                    fields(reflect.TypeFor[batch.Job]()),
		"jobset.x-k8s.io/v1alpha2 JobSet": fields(reflect.TypeFor[jobset.JobSet]()),
		"v1 PersistentVolumeClaim":        fields(reflect.TypeFor[core.PersistentVolumeClaim]()),
		"v1 Secret":                       fields(reflect.TypeFor[core.Secret]()),
		"v1 Service":                      fields(reflect.TypeFor[core.Service]()),
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile("fields.json", append(out, '\n'), 0o666); err != nil {
		log.Fatal(err)
	}
}
