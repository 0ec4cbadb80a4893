package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/peterbourgon/ff/v3/ffcli"

	"github.com/gomoe/gomoe"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/generate"
	"github.com/gomoe/gomoe/internal/memory"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/sharding"
)

func (t *tool) inspectCommand() *ffcli.Command {
	fs := t.flags("inspect")
	mesh := fs.String("mesh", "", "also print the memory of each rank of this mesh, such as ep=4 or dp=2,ep=2")
	room := fs.Int("room", 0, fmt.Sprintf("with -mesh, `positions` of the caches; as many as the model takes, and %d at most, if 0", usualRoom))
	var order string
	orderFlag(fs, &order)
	list := fs.Bool("tensors", false, "print every tensor, too")
	asJSON := fs.Bool("json", false, "print it as JSON")
	return &ffcli.Command{
		Name: "inspect", ShortUsage: "gomoe inspect PATH [-mesh AXES] [-tensors] [-json]", FlagSet: fs,
		ShortHelp: "Say what a model's files hold.",
		LongHelp: "PATH is a folder with safetensors or GGUF files, or one file. Architecture, parameters, bytes by part\n" +
			"and element type, the layout of the experts and, with -mesh, what each rank holds and needs are read\n" +
			"from the headers: no weight is loaded. The files are checked: lengths, overlaps, gaps, names that are there twice,\n" +
			"and tensors that an index misses.",
		Exec: func(ctx context.Context, args []string) error {
			path, err := onePath(fs, args, "a folder, or a file that ends with .safetensors or .gguf")
			if err != nil {
				return err
			}
			m, err := meshOf(*mesh, order)
			if err != nil {
				return err
			}
			c, err := checkpoint.Open(path)
			if err != nil {
				return err
			}
			defer c.Close()
			if *room < 0 || *room > 0 && len(m.Axes) == 0 {
				return usagef("-room %d: want at least 1, or 0 for the usual, and -mesh beside it", *room)
			}
			r, err := inspect(c, *list)
			if err != nil {
				return err
			}
			if len(m.Axes) > 0 {
				if err := r.place(ctx, c, m, *room); err != nil {
					return err
				}
			}
			if *asJSON {
				return printJSON(t.stdout, r)
			}
			return r.print(t.stdout)
		},
	}
}

// inspection is the JSON output of gomoe inspect.
type inspection struct {
	Path         string             `json:"path"`
	Format       string             `json:"format"`
	Files        []string           `json:"files"`
	Architecture string             `json:"architecture"`
	Layers       int                `json:"layers"`
	Experts      int                `json:"experts"`
	TopK         int                `json:"top_k"`
	Layouts      []string           `json:"layouts"`
	Parameters   int64              `json:"parameters"`
	Active       int64              `json:"active_parameters"`
	Bytes        int64              `json:"bytes"`
	Parts        []inspectionPart   `json:"parts"`
	Ranks        []inspectionRank   `json:"ranks,omitempty"`
	Room         int                `json:"room,omitempty"`      // capacity of the ranks' caches in positions
	Unplanned    string             `json:"unplanned,omitempty"` // the reason why the ranks' caches and steps are unknown
	Tensors      []inspectionTensor `json:"tensors,omitempty"`
}

type inspectionPart struct {
	Part       string   `json:"part"`
	Tensors    int      `json:"tensors"`
	Parameters int64    `json:"parameters"`
	Bytes      int64    `json:"bytes"`
	Types      []string `json:"types"`
}

type inspectionRank struct {
	Rank    int   `json:"rank"`
	First   int   `json:"first_expert"`
	Experts int   `json:"experts"`
	Bytes   int64 `json:"bytes"` // of the files
	Caches  int64 `json:"caches,omitempty"`
	Step    int64 `json:"step,omitempty"` // memory of the largest step, in addition to weights and caches
}

type inspectionTensor struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"`
	Bytes int    `json:"bytes"`
	Part  string `json:"part"`
	File  string `json:"file"`
}

func inspect(c *checkpoint.Checkpoint, list bool) (*inspection, error) {
	s, err := c.Summary()
	if err != nil {
		return nil, err
	}
	r := &inspection{
		Path: c.Path, Format: c.Format, Files: c.Files, Architecture: c.Config.Architecture,
		Layers: s.Layers, Experts: s.Experts, TopK: s.TopK, Parameters: s.Parameters, Active: s.Active, Bytes: s.Bytes,
	}
	for _, l := range s.Layouts {
		r.Layouts = append(r.Layouts, string(l))
	}
	for _, p := range s.Parts {
		r.Parts = append(r.Parts, inspectionPart{string(p.Part), p.Tensors, p.Parameters, p.Bytes, p.Types})
	}
	if list {
		names := checkpoint.NamesOf(c.Config.Architecture)
		for _, x := range c.Tensors {
			shape := append([]int{}, x.Type.Shape...)
			r.Tensors = append(r.Tensors, inspectionTensor{x.Name, x.Stored, shape, len(x.Mem), string(names.Role(x.Name).Part), x.File})
		}
	}
	return r, nil
}

// place adds the memory of each rank of a mesh: its weights, and its caches and step while generating with a
// context length of room.
func (r *inspection) place(ctx context.Context, c *checkpoint.Checkpoint, m sharding.Mesh, room int) error {
	held, wrong := c.Held(m)
	planned, room, err := planned(ctx, c, m, room)
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return err
	case err != nil && wrong != nil:
		return usagef("-mesh %s: %w; what needs the model's function is not known, either: %w", m, wrong, err)
	case err != nil:
		r.Unplanned = err.Error()
	case wrong != nil: // the mesh splits other axes than the experts
		for i, p := range planned {
			h := checkpoint.Held{Bytes: p.Weights}
			if h.Experts = r.Experts; m.Size("ep") > 0 {
				h.First, h.Experts = m.Part(i, []string{"ep"}, r.Experts)
			}
			held = append(held, h)
		}
	}
	for i, h := range held {
		k := inspectionRank{Rank: i, First: h.First, Experts: h.Experts, Bytes: h.Bytes}
		if err == nil {
			r.Room, k.Caches, k.Step = room, planned[i].Caches, planned[i].Step
		}
		r.Ranks = append(r.Ranks, k)
	}
	return nil
}

// planned returns the memory of each rank of a mesh while generating, and the context length.
func planned(ctx context.Context, c *checkpoint.Checkpoint, m sharding.Mesh, room int) ([]generate.Memory, int, error) {
	model, err := models.Open(c)
	if err != nil {
		return nil, 0, err
	}
	if room > model.Context {
		return nil, 0, usagef("-room %d: the model takes %d positions", room, model.Context)
	}
	if room == 0 {
		room = min(model.Context, usualRoom)
	}
	ranks, err := generate.Plan(ctx, model, c, generate.Options{Config: gomoe.Config{Mesh: m}, Room: room})
	return ranks, room, err
}

// print prints an inspection as text. Text from files is quoted if it may hold control characters.
func (r *inspection) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	files := "1 file"
	if n := len(r.Files); n != 1 {
		files = fmt.Sprintf("%d files", n)
	}
	fmt.Fprintf(t, "format\t%s, %s, %s\n", r.Format, files, memory.Format(r.Bytes))
	architecture := "not said: there is no " + checkpoint.ConfigName
	if r.Architecture != "" {
		architecture = plainText(r.Architecture)
	} else if r.Format == checkpoint.GGUF {
		architecture = "not said: there is no general.architecture"
	}
	fmt.Fprintf(t, "architecture\t%s\n", architecture)
	fmt.Fprintf(t, "layers\t%d\n", r.Layers)
	switch {
	case r.Experts == 0:
		fmt.Fprintf(t, "experts\tnone\n")
	case r.TopK == 0:
		fmt.Fprintf(t, "experts\t%d; how many a token uses is not said\n", r.Experts)
	default:
		fmt.Fprintf(t, "experts\t%d, of which a token uses %d\n", r.Experts, r.TopK)
	}
	for _, l := range r.Layouts {
		fmt.Fprintf(t, "layout\t%s\n", l)
	}
	active := ""
	if r.Active > 0 && r.Active < r.Parameters {
		active = fmt.Sprintf(", of which a token uses %s", count(r.Active))
	}
	fmt.Fprintf(t, "parameters\t%s%s\n", count(r.Parameters), active)
	if err := t.Flush(); err != nil {
		return err
	}

	fmt.Fprintln(w)
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "part\ttensors\tparameters\tbytes\t  types\n")
	for _, p := range r.Parts {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t  %s\n", p.Part, p.Tensors, count(p.Parameters), memory.Format(p.Bytes), strings.Join(p.Types, " "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Ranks) > 0 {
		fmt.Fprintln(w)
		t = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(t, "rank\texperts\tbytes\t")
		if r.Room > 0 {
			fmt.Fprintf(t, "caches\tlargest step\tneeds\t")
		}
		fmt.Fprintln(t)
		for _, k := range r.Ranks {
			experts := "none"
			if k.Experts == 1 {
				experts = strconv.Itoa(k.First)
			} else if k.Experts > 1 {
				experts = fmt.Sprintf("%d-%d", k.First, k.First+k.Experts-1)
			}
			fmt.Fprintf(t, "%d\t%s\t%s\t", k.Rank, experts, memory.Format(k.Bytes))
			if r.Room > 0 {
				fmt.Fprintf(t, "%s\t%s\t%s\t", memory.Format(k.Caches), memory.Format(k.Step), memory.Format(k.Bytes+k.Caches+k.Step))
			}
			fmt.Fprintln(t)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		if r.Room > 0 {
			fmt.Fprintf(w, "caches and steps are those of a text with room for %d positions\n", r.Room)
		} else {
			fmt.Fprintf(w, "the memory of caches and steps is unknown: %s\n", r.Unplanned)
		}
	}
	if len(r.Tensors) > 0 {
		fmt.Fprintln(w)
		t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, x := range r.Tensors {
			fmt.Fprintf(t, "%s\t%s%v\t%s\n", plainText(x.Name), x.Type, x.Shape, x.Part)
		}
		return t.Flush()
	}
	return nil
}

// plainText returns text from a file unchanged if a terminal can show it, quoted otherwise.
func plainText(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	if q := strconv.Quote(s); q != `"`+s+`"` || strings.ContainsAny(s, " ") || s == "" {
		return q
	}
	return s
}

// count formats a number of parameters, such as 6.92B.
func count(n int64) string {
	for _, u := range []struct {
		size   float64
		letter string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}} {
		if x := float64(n) / u.size; x >= 1 {
			return fmt.Sprintf("%.3g%s", x, u.letter)
		}
	}
	return fmt.Sprint(n)
}
