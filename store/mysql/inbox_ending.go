package mysql

import "strings"

// ending is what a statement does to the transaction that it is run in.
type ending int

const (
	endsNothing ending = iota
	// mayEnd: what it runs is not seen from here.
	mayEnd
	// endsAll: the server commits the transaction, or rolls it back, with it.
	endsAll
)

// endingOf reads the first words of a statement. DDL, and what changes users,
// locks or the transaction itself, commits implicitly; temporary tables don't.
func endingOf(query string) ending {
	words := firstWords(query, 5)
	at := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch at(0) {
	case "CREATE", "DROP":
		for _, w := range words[1:] {
			if w == "TEMPORARY" {
				return endsNothing
			}
		}
		return endsAll
	case "ALTER", "TRUNCATE", "RENAME", "GRANT", "REVOKE", "LOCK", "UNLOCK", "BEGIN", "START", "COMMIT", "XA", "OPTIMIZE", "REPAIR",
		"CACHE", "FLUSH", "RESET", "CHANGE", "STOP", "INSTALL", "UNINSTALL", "SHUTDOWN", "BACKUP", "IMPORT", "CLONE":
		return endsAll
	case "ROLLBACK":
		if at(1) == "TO" || at(1) == "WORK" && at(2) == "TO" {
			return endsNothing
		}
		return endsAll
	case "ANALYZE", "CHECK", "LOAD":
		if at(1) == "TABLE" || at(1) == "TABLES" || at(1) == "LOCAL" && at(2) == "TABLE" || at(1) == "NO_WRITE_TO_BINLOG" || at(1) == "INDEX" {
			return endsAll
		}
	case "SET":
		if strings.Contains(strings.ToUpper(query), "AUTOCOMMIT") || at(1) == "PASSWORD" || at(1) == "ROLE" || at(1) == "DEFAULT" {
			return endsAll
		}
		return mayEnd
	case "CALL", "EXECUTE", "IF", "CASE", "LOOP", "WHILE", "REPEAT", "FOR", "DO":
		return mayEnd
	}
	return endsNothing
}

// firstWords are at most n words of a statement in capitals. Comments are no
// words, but what is in one that the server executes is.
func firstWords(query string, n int) []string {
	var words []string
	for len(words) < n {
		query = skipComments(query)
		end := strings.IndexFunc(query, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		})
		if end < 0 {
			end = len(query)
		}
		if end == 0 {
			return words
		}
		words = append(words, strings.ToUpper(query[:end]))
		query = query[end:]
	}
	return words
}

// skipComments cuts what stands before a statement or a word.
func skipComments(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n\f\v;(")
		switch {
		case strings.HasPrefix(s, "/*!"), strings.HasPrefix(s, "/*M!"):
			_, s, _ = strings.Cut(s, "!")
			s = strings.TrimLeft(s, "0123456789")
		case strings.HasPrefix(s, "/*"):
			_, s, _ = strings.Cut(s, "*/")
		case strings.HasPrefix(s, "*/"):
			s = s[2:]
		case strings.HasPrefix(s, "--"), strings.HasPrefix(s, "#"):
			_, s, _ = strings.Cut(s, "\n")
		default:
			return s
		}
	}
}
