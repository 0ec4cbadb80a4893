package convert

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/gomoe/gomoe/array"
	"github.com/gomoe/gomoe/checkpoint"
	"github.com/gomoe/gomoe/checkpoint/tensor"
	"github.com/gomoe/gomoe/graph"
	"github.com/gomoe/gomoe/models"
	"github.com/gomoe/gomoe/nn"
	parts "github.com/gomoe/gomoe/runtime"
)

// pieceBytes is the approximate size of a tensor's piece in bytes, counted as f32.
const pieceBytes = 8 << 20

// param is a parameter and its location in the source files.
type param struct {
	nn.Param
	w *models.Weight
}

// find finds the parameters. Parameters that change their format, from packed words or 8-bit floats with scales,
// are replaced by their dequantised numbers.
func (j *conversion) find() error {
	params, err := models.Params(j.m, j.c)
	if err != nil {
		return err
	}
	same := j.o.Type == graph.NoDType && j.o.Affine == (nn.Affine{})
	for _, p := range params {
		w, err := models.Find(j.c, p)
		if err != nil {
			return err
		}
		form := Safetensors // the layout that keeps the matrices in their format
		if p.Affine != (nn.Affine{}) || p.Scales && !strings.HasSuffix(p.Name, "_scale_inv") {
			form = MLX
		}
		if keep := same && j.o.Layout == form; !keep && p.Scales {
			j.numbers = true
			continue
		} else if n := w.Numbers(); !keep && n != w {
			p.Type, p.Affine, w = n.Type.With(n.Scales), nn.Affine{}, n
		}
		j.numbers = j.numbers || j.o.Layout != GGUF && p.Type.DType.IsBlock()
		j.params = append(j.params, param{p, w})
	}
	return nil
}

// matrices is a parameter being converted: matrices of the same shape, one per expert if it has experts.
type matrices struct {
	j          *conversion
	p          nn.Param
	w          *models.Weight
	want       graph.DType
	first, n   int // range of matrices
	rows, unit int // rows per matrix, and rows in an indivisible unit
	piece      piece
	move       func(a array.Array, unit int) array.Array // permutes rows; nil keeps their order
}

// sources returns the tensors of the new files.
func (j *conversion) sources() (all []tensor.Source, err error) {
	transposed := models.Transposed(j.m.Family.Name)
	for _, p := range j.params {
		want, err := j.typeOf(p.Param)
		if err != nil {
			return nil, err
		}
		m := matrices{j: j, p: p.Param, w: p.w, want: want, n: 1, rows: p.Type.Shape[0], unit: 1}
		experts := strings.Contains(p.Name, "*")
		if experts {
			m.n, m.rows = p.Type.Shape[0], p.Type.Shape[1]
		}
		if width := j.m.Rotated(p.Param); width > 0 && (j.c.Format == checkpoint.GGUF) != (j.o.Layout == GGUF) {
			m.unit, m.move = width, tensor.ToNeighbours
			if j.c.Format == checkpoint.GGUF {
				m.move = tensor.ToHalves
			}
		}
		t := graph.Type{DType: want, Shape: p.Type.Shape}
		if j.o.Layout == GGUF {
			t.Shape = shapeInGGUF(p.Param)
		}
		name := models.MLXName(p.Param)
		if experts && transposed {
			name = strings.Replace(p.Name, "*.", "", 1) // the name in mlx-lm
		}
		switch {
		case j.o.Layout == GGUF && p.GGUF == "":
			return nil, fmt.Errorf("%s: parameter %s has no name in GGUF files", j.c.Path, p.Name)
		case j.o.Layout == GGUF:
			all = append(all, tensor.Source{Name: p.GGUF, Type: t, Write: m.write})
		case j.o.Layout == Safetensors && name != p.Name && !experts:
			return nil, fmt.Errorf("%s: keys and values of latents have a matrix each, %s, and folders of Hugging Face one for both; ask for a GGUF file or MLX's layout", j.c.Path, name)
		case j.affine(p.Param):
			parts, err := m.affine(name)
			if err != nil {
				return nil, err
			}
			all = append(all, parts...)
			for _, x := range parts {
				j.total += x.Type.Bytes()
			}
			continue
		case j.o.Layout == Safetensors && experts && transposed:
			if one, ok := m.transposed(); ok {
				all = append(all, one)
			}
		case j.o.Layout == MLX || !experts:
			all = append(all, tensor.Source{Name: name, Type: t, Write: m.write})
		default:
			t.Shape = t.Shape[1:]
			for e := range m.n {
				one := m
				one.first, one.n = e, 1
				all = append(all, tensor.Source{Name: strings.Replace(p.Name, "*", strconv.Itoa(e), 1), Type: t, Write: one.write})
			}
		}
		j.total += graph.Type{DType: want, Shape: p.Type.Shape}.Bytes()
	}
	if f := j.m.RopeFactors; f != nil && j.o.Layout == GGUF {
		a, err := array.Of(f, len(f))
		if err != nil {
			return nil, err
		}
		all = append(all, tensor.Of(models.RopeFactors, a))
	}
	return all, nil
}

// shapeInGGUF returns a parameter's shape in GGUF files, which omit leading dimensions of 1.
func shapeInGGUF(p nn.Param) []int {
	shape := p.Type.Shape
	for len(shape) > 1 && shape[0] == 1 {
		shape = shape[1:]
	}
	return shape
}

// write writes the matrices piece by piece.
func (m matrices) write(w io.Writer) error {
	row := 1
	for _, n := range m.p.Type.Shape[m.p.Type.Rank()-m.inner():] {
		row *= n
	}
	step := max(1, pieceBytes/4/max(row, 1)/m.unit) * m.unit
	for e := m.first; e < m.first+m.n; e++ {
		for lo := 0; lo < m.rows; lo += step {
			if err := m.j.ctx.Err(); err != nil {
				return err
			}
			a, err := m.read(e, lo, min(lo+step, m.rows))
			if err != nil {
				return err
			}
			out, err := m.convert(a)
			if err != nil {
				return fmt.Errorf("parameter %s: %w", m.p.Name, err)
			}
			if _, err := w.Write(out.Bytes()); err != nil {
				return err
			}
			m.j.wrote(len(out.Bytes()))
		}
	}
	m.done(m.first + m.n)
	return nil
}

// done drops the pages that the parameter was read from, once its first n matrices are all of them.
func (m matrices) done(n int) {
	if !strings.Contains(m.p.Name, "*") || n == m.p.Type.Shape[0] {
		m.w.Drop(m.j.c)
	}
}

// wrote counts n bytes as written.
func (j *conversion) wrote(n int) {
	j.done += int64(n)
	if j.o.Progress != nil {
		j.o.Progress(j.done, j.total)
	}
}

// inner returns the number of dimensions of a row.
func (m matrices) inner() int {
	if strings.Contains(m.p.Name, "*") {
		return m.p.Type.Rank() - 2
	}
	return m.p.Type.Rank() - 1
}

// read returns rows of a matrix in their new order.
func (m matrices) read(e, lo, hi int) (array.Array, error) {
	t := m.w.Type
	rows := append([]int{hi - lo}, t.Shape[t.Rank()-m.inner():]...)
	a := array.New(graph.Type{DType: t.DType, Shape: rows})
	part := parts.Part{Whole: t, Start: make([]int, t.Rank()), Array: a}
	part.Start[0] = lo
	if strings.Contains(m.p.Name, "*") {
		part.Start[0], part.Start[1] = e, lo
		part.Array = a.Reshape(append([]int{1}, rows...)...)
	}
	if err := m.w.Fill(part); err != nil {
		return a, err
	}
	if m.j.o.Change != nil {
		var err error
		if a, err = m.j.o.Change(m.p, e, lo, a); err != nil {
			return a, err
		}
	}
	if m.move == nil {
		return a, nil
	}
	return m.move(a, m.unit), nil
}

// convert converts a to the wanted element type. Goroutines share the rows; the bytes of each row depend on that
// row only.
func (m matrices) convert(a array.Array) (array.Array, error) {
	if a.Type.DType == m.want && m.piece == complete {
		return a, nil
	}
	out := array.New(m.pieceOf(graph.Type{DType: m.want, Shape: a.Type.Shape}))
	rows, shares := a.Type.Shape[0], runtime.GOMAXPROCS(0)
	errs := make([]error, shares)
	var all sync.WaitGroup
	for i := range shares {
		all.Go(func() {
			lo, hi := rows*i/shares, rows*(i+1)/shares
			x := a.Rows(lo, hi).As(graph.F32)
			if errs[i] = fits(array.Data[float32](x), m.want, m.piece != complete); errs[i] != nil {
				return
			} else if m.piece == complete {
				errs[i] = array.Convert(out.Rows(lo, hi), x)
			} else {
				errs[i] = m.quantise(out.Rows(lo, hi), x)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// fits returns an error if an element type cannot represent one of the numbers: if it exceeds f16, which is also
// the type of blocks' scales, or if it is not finite and would spoil a whole block.
func fits(xs []float32, d graph.DType, groups bool) error {
	if groups = groups || d.IsBlock(); d != graph.F16 && !groups {
		return nil
	}
	const largest = 65504 // of f16
	for _, x := range xs {
		size := math.Abs(float64(x))
		if groups && !(size <= math.MaxFloat32) || size > largest && (d == graph.F16 || d.IsBlock()) && d != graph.MXFP4 && !(d == graph.F16 && math.IsInf(size, 0)) {
			return fmt.Errorf("the number %g, which elements of %s cannot be", x, d)
		}
	}
	return nil
}
