package main

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
)

// How many random calls are recorded with their texts.
const perCalls = 9000

// unknown are operands whose types only evaluation knows, and some of every other type.
var unknown = []string{
	"object.n", "object.f", "object.b", "object.nul", "object.s", "object.q", "object.when", "object.d", "object.l", "object.mixed",
	"object.none", "object.words", "object.m", "object.empty", "object.nope", "object.?n", "object.?nope",
	"dyn(1u)", "dyn(b'a')", "dyn(duration('1s'))", "dyn(timestamp(0))", "dyn(quantity('1'))", "dyn(ip('10.0.0.1'))",
	"dyn(cidr('10.0.0.0/8'))", "dyn(url('http://a/b'))", "dyn(semver('1.2.3'))", "dyn(optional.of(1))", "dyn(type(1))",
	"dyn([null])", "dyn([{}])", "dyn([[1]])", "dyn([dyn(1), dyn('a')])", "dyn({1: 2})", "dyn(format.named('uuid'))",
	"1", "'a'", "[1]", "{'a': 1}", "duration('1s')",
}

// calls apply every function and operator to operands of types that only evaluation knows, so that it
// looks for an overload then. Each is there once.
func calls(env *cel.Env, seed int64) []string {
	g := &generator{rand.New(rand.NewSource(seed))}
	var forms []string
	for name, function := range env.Functions() {
		// Operators have names that cannot be called.
		if name == "in" || strings.Contains(name, "@") || strings.ContainsAny(name, "_!-") {
			continue
		}
		for _, overload := range function.OverloadDecls() {
			places := make([]string, len(overload.ArgTypes()))
			for i := range places {
				places[i] = "$"
			}
			form := fmt.Sprintf("%s(%s)", name, strings.Join(places, ", "))
			if overload.IsMemberFunction() {
				form = fmt.Sprintf("($).%s(%s)", name, strings.Join(places[1:], ", "))
			}
			forms = append(forms, form)
		}
	}
	for _, operator := range []string{"+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "in", "&&", "||"} {
		forms = append(forms, "($) "+operator+" ($)")
	}
	forms = append(forms, "-($)", "!($)", "($)[$]", "($)[?$]", "($) ? 1 : 2", "[$].exists(x, x)", "($).all(x, x)", "($).map(x, x)")
	return g.calls(forms)
}

func (g *generator) calls(forms []string) []string {
	slices.Sort(forms)
	forms = slices.Compact(forms)
	seen := map[string]bool{}
	var all []string
	add := func(form string, first string) {
		text := strings.Replace(form, "$", first, 1)
		for strings.Contains(text, "$") {
			text = strings.Replace(text, "$", g.any(unknown), 1)
		}
		if !seen[text] {
			seen[text] = true
			all = append(all, text)
		}
	}
	for _, form := range forms {
		for _, first := range unknown {
			add(form, first)
		}
	}
	for range perCalls {
		add(g.any(forms), g.any(unknown))
	}
	return all
}
