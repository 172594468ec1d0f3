// Command shopdoc draws the tables of examples/shop/lifecycle into
// docs/shop.md: a diagram and a table for each machine, and who hears whom. Run
// it from the repository's root after a change of the tables; a test finds a
// page that is out of date.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

func main() {
	path := "docs/shop.md"
	if err := redraw(path); err != nil {
		fmt.Fprintf(os.Stderr, "draw %s: %v\n", path, err)
		os.Exit(1)
	}
}

func redraw(path string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	drawn, err := draw(string(old))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(drawn), 0o644)
}

// draw replaces what stands between the marks of a page.
func draw(page string) (string, error) {
	parts := map[string]string{"flow": flow()}
	for _, m := range lifecycle.Machines() {
		parts[m.Name] = diagram(m) + "\n" + table(m)
	}
	for name, drawn := range parts {
		begin, end := "<!-- drawn: "+name+" -->\n", "<!-- end: "+name+" -->"
		before, rest, ok := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			return "", fmt.Errorf("there is no place marked for %s", name)
		}
		page = before + begin + "\n" + drawn + "\n" + end + after
	}
	return page, nil
}

// diagram draws the transitions that lead to another state. Those between the
// same two states share an arrow.
func diagram(m lifecycle.Machine) string {
	type arrow struct{ from, to string }
	var order []arrow
	words := map[arrow][]string{}
	for _, t := range m.Rows {
		if t.To == t.From {
			continue
		}
		a := arrow{t.From, t.To}
		if words[a] == nil {
			order = append(order, a)
		}
		words[a] = append(words[a], label(t))
	}
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n")
	if m.Initial != lifecycle.None {
		fmt.Fprintf(&b, "  [*] --> %s\n", m.Initial)
	}
	for _, a := range order {
		from := a.from
		if from == lifecycle.None {
			from = "[*]"
		}
		fmt.Fprintf(&b, "  %s --> %s: %s\n", from, a.to, strings.Join(words[a], " / "))
	}
	b.WriteString("```\n")
	return b.String()
}

func label(t lifecycle.Transition) string {
	if t.When == "" {
		return t.On
	}
	return t.On + " (" + t.When + ")"
}

// table lists every row that changes something.
func table(m lifecycle.Machine) string {
	var b strings.Builder
	b.WriteString("| state | on | when | becomes | says |\n|---|---|---|---|---|\n")
	quiet := 0
	for _, t := range m.Rows {
		if !t.Changes() {
			quiet++
			continue
		}
		from, says := t.From, code(t.Emits)
		if from == lifecycle.None {
			from = "–"
		}
		if t.Starts != "" {
			says += ", later " + code(t.Starts)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", from, code(t.On), t.When, t.To, says)
	}
	fmt.Fprintf(&b, "\nIn %d further cases, all written down in the code, the input repeats what was heard, or comes too late, and changes nothing.\n", quiet)
	return b.String()
}

func code(s string) string {
	if s == "" || !lifecycle.IsEvent(s) {
		return s
	}
	return "`" + s + "`"
}

// flow draws which service hears which events of which other.
func flow() string {
	emits := map[string]string{}
	for _, m := range lifecycle.Machines() {
		for _, t := range m.Rows {
			for _, e := range []string{t.Emits, t.Starts} {
				if e != "" {
					emits[e] = m.Name
				}
			}
		}
	}
	emits[lifecycle.OrderCreated], emits[lifecycle.OrderPaymentDue] = "order", "order"
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart LR\n")
	for _, to := range shop.Services() {
		heard := map[string][]string{}
		var order []string
		for _, e := range to.Handles {
			from := emits[e]
			if heard[from] == nil {
				order = append(order, from)
			}
			heard[from] = append(heard[from], e)
		}
		for _, from := range order {
			fmt.Fprintf(&b, "  %s -- \"%s\" --> %s\n", from, strings.Join(heard[from], "<br/>"), to.Name)
		}
	}
	b.WriteString("```\n")
	return b.String()
}
