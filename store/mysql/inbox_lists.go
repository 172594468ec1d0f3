package mysql

import "strings"

// places are the placeholders of a list of n values.
func places(n int) string { return "(" + strings.TrimSuffix(strings.Repeat("?,", n), ",") + ")" }

// anys are values as arguments, behind those before.
func anys[T any](before []any, values []T) []any {
	for _, v := range values {
		before = append(before, v)
	}
	return before
}
