package mysql

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// Widths of columns, in characters.
const (
	indexedWidth = 191
	topicWidth   = 255
)

// fit makes an id or a key, which a foreign producer may have chosen, fit for a
// column that is indexed. Different ones stay different, and the same one always
// becomes the same; the record itself is kept as it was found.
func fit(s string) string { return fitTo(s, indexedWidth) }

func fitTo(s string, width int) string {
	if utf8.ValidString(s) && (len(s) <= width || utf8.RuneCountInString(s) <= width) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	end := "…" + hex.EncodeToString(sum[:])
	kept := []rune(strings.ToValidUTF8(s, "\uFFFD"))
	return string(kept[:min(len(kept), width-utf8.RuneCountInString(end))]) + end
}

// maxProse bounds what is kept of a cause or a reason, in bytes.
const maxProse = 64 << 10

// prose makes what a handler or a library has said fit for a column of text.
func prose(s string) string {
	if len(s) > maxProse {
		s = s[:maxProse] + "…"
	}
	return clean(s)
}
