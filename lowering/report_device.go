package lowering

import "fmt"

// DeviceUse is how a step is divided between a rank's host and the plan's target.
type DeviceUse struct {
	Name string `json:"name"`
	// On and Host count instructions: the target's, and the host's without collectives.
	On   int `json:"instructions"`
	Host int `json:"host_instructions"`
	// Segments is how often the host hands over instructions, and Waits how often it
	// waits for some.
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
		case in.On:
			d.On++
		case !in.Communicates():
			d.Host++
		}
	}
	return d
}

// String prints the use in one line.
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
