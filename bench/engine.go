package main

import (
	"context"
	"slices"
	"strings"
)

// engine is a kind of database: how its server is reached, and the ways that
// are measured on it. What does not depend on it is written once.
type engine struct {
	// name is how flags call it; a URL's scheme begins with one of its schemes.
	name    string
	schemes []string
	// env holds the URL of a server, service is what `scripts/services up` calls it.
	env, service string
	connect      func(ctx context.Context, at string) (server, error)
	// In the order of the tables.
	contenders []contender
	appliers   []applier
	producers  []producer
	shop       shop
	aims       aims
}

// drainEngine is the database from which events go to real brokers.
const drainEngine = "postgres"

func engines() []engine { return []engine{onPostgres(), onMySQL()} }

func engineNames() []string {
	var names []string
	for _, e := range engines() {
		names = append(names, e.name)
	}
	return names
}

// engineOf finds an engine by its name, or by a URL of its server.
func engineOf(s string) (engine, bool) {
	scheme, _, isURL := strings.Cut(s, "://")
	for _, e := range engines() {
		if s == e.name || isURL && slices.Contains(e.schemes, scheme) {
			return e, true
		}
	}
	return engine{}, false
}

func (e engine) contender(name string) (contender, bool) {
	for _, c := range e.contenders {
		if c.name == name {
			return c, true
		}
	}
	if e.name == drainEngine {
		for _, t := range targets() {
			for _, c := range t.carriers {
				if c.name == name {
					return c, true
				}
			}
		}
	}
	return contender{}, false
}
