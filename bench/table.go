package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// table is shown on a terminal or in a document. Its first column is a name;
// the others are figures.
type table struct {
	title, note string
	head        []string
	rows        [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// block begins a block of rows, under a title that stands alone in its row.
func (t *table) block(title string) { t.rows = append(t.rows, []string{title}) }

// text writes t in columns, figures to the right.
func (t *table) text(w io.Writer) error {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		if len(row) == 1 {
			continue
		}
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", t.title)
	for _, row := range append([][]string{t.head}, t.rows...) {
		if len(row) == 1 {
			fmt.Fprintf(&b, " %s\n", row[0])
			continue
		}
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0 || isBar(cell):
				b.WriteString("  " + cell + pad)
			default:
				b.WriteString("  " + pad + cell)
			}
		}
		b.WriteByte('\n')
	}
	if t.note != "" {
		fmt.Fprintf(&b, "  %s\n", t.note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown writes t as a section of a document.
func (t *table) markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", t.title)
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprintf(&b, "| %s ", strings.ReplaceAll(c, "|", `\|`))
		}
		b.WriteString("|\n")
	}
	line(t.head)
	for i := range t.head {
		if i == 0 {
			b.WriteString("|---")
		} else {
			b.WriteString("|--:")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.rows {
		if len(row) == 1 {
			row = append([]string{"**" + row[0] + "**"}, make([]string, len(t.head)-1)...)
		}
		line(row)
	}
	if t.note != "" {
		fmt.Fprintf(&b, "\n%s\n", t.note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const (
	bar     = "█"
	partial = "▏▎▍▌▋▊▉" // by eighths
)

func isBar(cell string) bool { return cell != "" && strings.Trim(cell, bar+partial) == "" }

// bars draws v against the longest, which has so many blocks.
func bars(v, longest float64, blocks int) string {
	if longest <= 0 || v <= 0 {
		return ""
	}
	eighths := max(1, int(v/longest*float64(blocks)*8+0.5))
	s := strings.Repeat(bar, eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune(partial)[rest-1])
	}
	return s
}

// none stands for what was not measured.
const none = "–"

func orNone(format string, v float64) string {
	if v == 0 {
		return none
	}
	return fmt.Sprintf(format, v)
}

// count writes a number with commas between thousands; 0 was not measured.
func count(v float64) string {
	if v == 0 {
		return none
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
