package cloudevents

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const upperHex = "0123456789ABCDEF"

func isPlain(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '%' }

// percentEncode writes a value as the header of the NATS (and HTTP) binding.
func percentEncode(s string) string {
	n := 0
	for i := range len(s) {
		if !isPlain(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	var out strings.Builder
	out.Grow(len(s) + 2*n)
	for i := range len(s) {
		if c := s[i]; isPlain(c) {
			out.WriteByte(c)
		} else {
			out.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		}
	}
	return out.String()
}

// percentDecode takes off quotes first, which older versions of the
// specification had, and then one round of percent-encoding. A percent sign that
// begins no escape is itself: producers that know nothing of the encoding write
// it.
func percentDecode(s string) (string, error) {
	s = unquoted(s)
	if strings.IndexByte(s, '%') >= 0 {
		out := make([]byte, 0, len(s))
		for i := 0; i < len(s); i++ {
			if s[i] == '%' && i+2 < len(s) {
				if hi, lo := digit(s[i+1]), digit(s[i+2]); hi >= 0 && lo >= 0 {
					out = append(out, byte(hi<<4|lo))
					i += 2
					continue
				}
			}
			out = append(out, s[i])
		}
		s = string(out)
	}
	if !utf8.ValidString(s) {
		return "", errors.New("is percent-encoded, and what is encoded is not UTF-8")
	}
	return s, nil
}

func unquoted(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	var out strings.Builder
	for i := 1; i < len(s)-1; i++ {
		if s[i] == '\\' && i+1 < len(s)-1 {
			i++
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}

// checkText refuses what no attribute may hold.
func checkText(name, value string) error {
	if !utf8.ValidString(value) {
		return fmt.Errorf("%s is not UTF-8", name)
	}
	for i := range len(value) {
		if value[i] < 0x20 || value[i] == 0x7f {
			return fmt.Errorf("%s contains a control character", name)
		}
	}
	return nil
}
