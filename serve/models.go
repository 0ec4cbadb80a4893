package serve

import (
	"fmt"
	"net/http"

	"github.com/gomoe/gomoe/internal/quoted"
)

// description describes the model in the list of models.
type description struct {
	ID      string `json:"id"`
	Kind    string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
	Room    int    `json:"max_model_len"` // capacity in positions
	Chat    bool   `json:"chat"`          // the model has a chat template
}

func (s *Server) description() description {
	return description{s.c.Name, "model", s.began.Unix(), "gomoe", s.g.Room(), s.c.Tokenizer.HasTemplate()}
}

// models answers GET /v1/models.
func (s *Server) models(out *reply, _ *http.Request) error {
	out.object(map[string]any{"object": "list", "data": []description{s.description()}})
	return nil
}

// model answers GET /v1/models/{id}.
func (s *Server) model(out *reply, r *http.Request) error {
	if id := r.PathValue("id"); id != s.c.Name {
		return &problem{Status: http.StatusNotFound, Param: "model", Code: "model_not_found", Message: fmt.Sprintf("there is no model %s; there is %s", quoted.Text(id), quoted.Name(s.c.Name))}
	}
	out.object(s.description())
	return nil
}
