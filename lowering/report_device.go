package lowering

import "fmt"

// DeviceUse is the division of a step between a rank's host and the plan's target.
type DeviceUse struct {
	Name string `json:"name"`
	// On is the number of instructions of the target, Host the number of kernels of the
	// host. Instructions of a loop's body are counted once.
	On   int `json:"instructions"`
	Host int `json:"host_instructions"`
	// Segments is the number of times that the host submits instructions to the device,
	// and Waits the number of times that it waits for the device.
	Segments int `json:"segments"`
	Waits    int `json:"waits"`
}

func (p *Plan) deviceUse() *DeviceUse {
	if p.Target == "" {
		return nil
	}
	s := p.Schedule()
	d := &DeviceUse{Name: p.Target, Segments: len(s.Segments), Waits: s.Waits()}
	for i := range p.Instrs {
		switch in := &p.Instrs[i]; {
		case in.Loop != nil:
			body := in.Loop.Body.deviceUse()
			d.On, d.Host = d.On+body.On, d.Host+body.Host
			d.Segments += in.Loop.Op.Length * body.Segments
			d.Waits += in.Loop.Op.Length * body.Waits
		case in.On:
			d.On++
		case !in.Communicates():
			d.Host++
		}
	}
	return d
}

// String returns one line of text about the use.
func (d *DeviceUse) String() string {
	return fmt.Sprintf("device %s: %s there, %d on the host; %s, for which the host waits %s",
		d.Name, count(d.On, "instruction"), d.Host, count(d.Segments, "segment"), times(d.Waits))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
