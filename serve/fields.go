package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gomoe/gomoe/internal/quoted"
	"github.com/gomoe/gomoe/internal/strictjson"
)

const (
	maxFields = 128     // per request
	maxNames  = 1 << 18 // per object within a request, as many as the largest vocabularies have tokens
)

// parse sets the fields of a struct from a request's JSON object. As in OpenAI's interface, names are
// case-sensitive tags. An unknown or duplicate name is a problem, because it would have no effect.
func parse(text []byte, v any) error {
	if most := tooMany(text); most > 0 {
		return wrong("", fmt.Sprintf("an object of the request has more than %d fields, want fewer", most))
	}
	err := strictjson.UnmarshalKnown(text, v)
	e, ok := errors.AsType[*strictjson.Error](err)
	switch {
	case err == nil:
		return defaults(reflect.ValueOf(v).Elem(), "")
	case !ok:
		return err
	case errors.Is(e.Err, jsontext.ErrDuplicateName):
		name := e.Path.LastToken()
		return wrong(quoted.Plain(name), fmt.Sprintf("field %s is there twice", quoted.Text(name)))
	case errors.Is(e.Err, io.ErrUnexpectedEOF):
		return wrong("", "the request is no complete JSON object")
	case e.Place != "":
		return wrong("", "the request is not the JSON object that is wanted: "+e.Error())
	case e.Path == "":
		return wrong("", "the request: "+e.What)
	}
	return wrong(quoted.Plain(e.Field()), e.What)
}

// defaults returns a problem if a field with the tag default has another value than the tag's. null is no value. path
// precedes the names of the fields.
func defaults(request reflect.Value, path string) error {
	for _, f := range reflect.VisibleFields(request.Type()) {
		text, tagged := f.Tag.Lookup("default")
		value, name := request.FieldByIndex(f.Index), path+f.Tag.Get("json")
		if value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Struct {
			if err := defaults(value.Elem(), name+"."); err != nil {
				return err
			}
		}
		if !tagged {
			continue
		}
		has := value.Interface()
		var only any
		if err := json.Unmarshal([]byte(text), &only); err != nil {
			return err
		}
		if has != nil && !reflect.DeepEqual(has, only) {
			or := ""
			if only != nil {
				or = "want " + text + ", or "
			}
			if own := f.Tag.Get("instead"); own != "" {
				or += "give " + own + ", or "
			}
			return wrong(name, fmt.Sprintf("there is no %s here: %sleave it out", name, or))
		}
	}
	return nil
}

// tooMany returns the maximum number of fields if an object in text exceeds it, and 0 otherwise. It stops at the
// first such object.
func tooMany(text []byte) int {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := d.ReadToken(); err != nil {
			return 0 // parse reports it
		}
		most := maxNames
		if d.StackDepth() == 1 {
			most = maxFields
		}
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && (n+1)/2 > int64(most) {
			return most
		}
	}
}
