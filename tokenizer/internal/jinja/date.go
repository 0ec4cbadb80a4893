package jinja

import (
	"fmt"
	"strings"
)

// date formats the time of rendering in a format of C's strftime, like a Python datetime without a time zone.
func (r *run) date(format string) string {
	layouts := map[byte]string{
		'd': "02", 'm': "01", 'Y': "2006", 'y': "06", 'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'H': "15",
		'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'P': "pm", 'j': "002", 'Z': "", 'z': "", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'r': "03:04:05 PM",
		'D': "01/02/06", 'x': "01/02/06", 'X': "15:04:05", 'c': "Mon Jan _2 15:04:05 2006", 'e': "_2", 'f': "000000",
	}
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			out.WriteByte(format[i])
			continue
		}
		i++
		flag := byte(0)
		if strings.IndexByte("-_0^#", format[i]) >= 0 && i+1 < len(format) {
			flag = format[i]
			i++
		}
		layout, ok := layouts[format[i]]
		year, week := r.now.ISOWeek()
		weekday := int(r.now.Weekday())
		text := ""
		switch c := format[i]; {
		case c == '%':
			text = "%"
		case c == 'n':
			text = "\n"
		case c == 't':
			text = "\t"
		case c == 'f':
			text = fmt.Sprintf("%06d", r.now.Nanosecond()/1000)
		case c == 'w':
			text = fmt.Sprint(weekday)
		case c == 'u':
			text = fmt.Sprint((weekday+6)%7 + 1)
		case c == 'G':
			text = fmt.Sprint(year)
		case c == 'V':
			text = fmt.Sprintf("%02d", week)
		case c == 'U':
			text = fmt.Sprintf("%02d", (r.now.YearDay()+6-weekday)/7)
		case c == 'W':
			text = fmt.Sprintf("%02d", (r.now.YearDay()+6-(weekday+6)%7)/7)
		case c == 'C':
			text = fmt.Sprintf("%02d", r.now.Year()/100)
		case c == 'k':
			text = fmt.Sprintf("%2d", r.now.Hour())
		case c == 'l':
			text = fmt.Sprintf("%2d", (r.now.Hour()+11)%12+1)
		case c == 's':
			text = fmt.Sprint(r.now.Unix())
		case !ok:
			r.fail("strftime_now: an unknown format %%%c", c)
		default:
			text = r.now.Format(layout)
		}
		switch flag {
		case '-':
			if text = strings.TrimLeft(text, "0 "); text == "" {
				text = "0"
			}
		case '_':
			for j := 0; j+1 < len(text) && text[j] == '0'; j++ {
				text = text[:j] + " " + text[j+1:]
			}
		case '0':
			text = strings.ReplaceAll(text, " ", "0")
		case '^', '#':
			text = strings.ToUpper(text)
		}
		out.WriteString(text)
	}
	return r.made(out.String())
}
