// Package deadletter is what adapters have in common that read dead letters of
// consumers that are not ours: they find any bytes, and what stands behind them
// keeps text.
package deadletter

import (
	"strings"
	"unicode/utf8"
)

// Text makes text of bytes that need not be: what is not UTF-8, and NUL, which
// PostgreSQL has no room for, become U+FFFD.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// IsText reports whether Text changes nothing.
func IsText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }
