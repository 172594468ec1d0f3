package drill

import (
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// query is one named query of an SQL file.
type query struct {
	id, name string
	checked  string // counts the rows that the query examines
	optional bool
	text     string
}

// parseQueries reads a file of queries: comments "-- name: ID words",
// "-- checked: QUERY" and "-- optional" go before each, other comments count
// for nothing, a semicolon at the end of a line ends it.
func parseQueries(text string) ([]query, error) {
	var all []query
	var q query
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "-- name: "):
			id, name, _ := strings.Cut(strings.TrimPrefix(line, "-- name: "), " ")
			q = query{id: id, name: name}
		case strings.HasPrefix(line, "-- checked: "):
			q.checked = strings.TrimPrefix(line, "-- checked: ")
		case line == "-- optional":
			q.optional = true
		case strings.HasPrefix(line, "--"):
		default:
			q.text += line + "\n"
			if strings.HasSuffix(line, ";") {
				if q.id == "" {
					return nil, fmt.Errorf("parse queries: no name before %q", q.text)
				}
				all, q = append(all, q), query{}
			}
		}
	}
	if q.text != "" {
		return nil, fmt.Errorf("parse queries: %s does not end", q.id)
	}
	return all, nil
}

var parameter = regexp.MustCompile(`:[a-z]+\b`)

// bind replaces :name by $1, $2 …, or by a ? each time where marks is set, and
// returns the values in that order. Values that text does not name are left out.
func bind(text string, marks bool, args ...sql.NamedArg) (string, []any) {
	var values []any
	numbers := map[string]string{}
	text = parameter.ReplaceAllStringFunc(text, func(name string) string {
		i := slices.IndexFunc(args, func(a sql.NamedArg) bool { return a.Name == name[1:] })
		if i < 0 {
			return name
		}
		if marks {
			values = append(values, args[i].Value)
			return "?"
		}
		if numbers[name] == "" {
			values = append(values, args[i].Value)
			numbers[name] = "$" + strconv.Itoa(len(values))
		}
		return numbers[name]
	})
	return text, values
}
