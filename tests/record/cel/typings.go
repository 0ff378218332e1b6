package main

import (
	"context"
	"fmt"
	"math/rand"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
)

// How many random expressions are recorded with their texts.
const perTypings = 6000

// atoms are short expressions of each type, and some that have none.
var atoms = []string{
	"true", "1", "1u", "1.5", "'a'", "b'a'", "null", "dyn(1)", "object", "object.l", "object.s", "object.nope",
	"[1]", "['a']", "[]", "[true]", "[object.n]", "{'a': 1}", "{}", "{1: 'a'}", "optional.of(1)", "optional.none()",
	"optional.of('a')", "duration('1s')", "timestamp(0)", "quantity('1')", "int", "type(1)", "semver('1.2.3')",
	"nowhere", "nowhere.field", "nowhere.call()", "nowhere(1)", "1 + 'a'", "words", "words[0]", "words.map(w, size(w))",
}

// macros are every macro, with the places of its range and of what it evaluates.
var macros = []string{
	"$R.all(x, $B)", "$R.exists(x, $B)", "$R.exists_one(x, $B)", "$R.filter(x, $B)", "$R.map(x, $B)", "$R.map(x, $B, x)",
	"$R.map(x, true, $B)", "$R.all(k, x, $B)", "$R.exists(k, x, $B)", "$R.existsOne(k, x, $B)", "$R.exists_one(k, x, $B)",
	"$R.transformList(k, x, $B)", "$R.transformList(k, x, $B, x)", "$R.transformMap(k, x, $B)", "$R.transformMap(k, x, $B, x)",
	"$R.transformMapEntry(k, x, $B)", "$R.transformMapEntry(k, x, {k: $B})", "$R.transformMapEntry(k, x, $B, {k: x})",
	"$R.optMap(x, $B)", "$R.optFlatMap(x, $B)", "$R.sortBy(x, $B)", "cel.bind(x, $R, $B)",
}

// ranges are what macros go over.
var ranges = []string{
	"[1, 2]", "words", "object.l", "{'a': 1}", "object", "[]", "{}", "optional.of(1)", "optional.none()", "1", "nowhere", "'a'",
	"object.?n", "[[1]]",
}

// bodies are what macros evaluate, beside the atoms.
var bodies = []string{
	"x", "x == 1", "x + 1", "x + 'a'", "x.field", "x ? 1 : 2", "!x", "[x]", "x.nope()", "x && true", "words.all(x, x)",
	"[1].all(y, x)", "x == y", "optional.of(x)", "{'a': x}",
}

// typings are expressions whose types are in doubt, each once.
func typings(seed int64) []string {
	g := &generator{rand.New(rand.NewSource(seed))}
	seen := map[string]bool{}
	var fresh []string
	for _, expression := range g.typings() {
		if !seen[expression] {
			seen[expression] = true
			fresh = append(fresh, expression)
		}
	}
	return fresh
}

func (g *generator) typings() []string {
	var all []string
	for _, macro := range macros {
		for _, over := range ranges {
			for _, body := range append(g.some(atoms, 14), g.some(bodies, 9)...) {
				all = append(all, strings.NewReplacer("$R", over, "$B", body).Replace(macro))
			}
		}
	}
	for _, left := range atoms {
		for _, right := range atoms {
			all = append(all,
				fmt.Sprintf("true ? %s : %s", left, right),
				fmt.Sprintf("[%s, %s]", left, right),
				fmt.Sprintf("%s ? %s : 1", left, right),
				fmt.Sprintf("true ? %s : (true ? %s : %s)", g.any(atoms), left, right),
				fmt.Sprintf("true ? (%s ? %s : %s) : %s", g.any([]string{"true", "object.b", "1"}), left, right, g.any(atoms)),
				fmt.Sprintf("%s %s %s", left, g.any([]string{"+", "==", "in", "<", "&&", "||", "-", "%"}), right),
				fmt.Sprintf("{%s: %s}", left, right),
				fmt.Sprintf("(%s)[%s]", left, right),
			)
		}
		for _, use := range []string{
			"(%s).field", "has((%s).field)", "(%s).?field", "(%s).size()", "size(%s)", "(%s).f(1)", "string(%s)", "int(%s)", "-(%s)",
			"!(%s)", "(%s)[?0]", "(%s).startsWith('a')", "(%s).orValue(1)", "(%s).or(optional.of(1))", "type(%s)", "quantity(%s)",
			"(%s).field.other", "(%s).isLessThan(quantity('1'))", "[?%s]", "{?'a': %s}", "'%%s'.format([%s])", "'%%d'.format([%s])",
			"(%s).distinct()", "(%s).sum()", "(%s).min()", "(%s).flatten()", "(%s).join(',')", "(%s).join()", "sets.contains(%s, [1])",
			"(%s).contains('a')", "(%s).indexOf(1)", "(%s).slice(0, 1)", "(%s) ? 1 : 2",
		} {
			all = append(all, fmt.Sprintf(use, left))
		}
	}
	for range perTypings {
		all = append(all, g.expression(3))
	}
	return all
}

// expression is one of any type, made without regard to the types of its parts.
func (g *generator) expression(depth int) string {
	if depth == 0 {
		return g.any(atoms)
	}
	inner := func() string { return g.expression(g.random.Intn(depth)) }
	switch g.random.Intn(14) {
	case 0, 1:
		return fmt.Sprintf("%s ? %s : %s", g.any([]string{"true", "object.b", "(" + inner() + ")"}), "("+inner()+")", "("+inner()+")")
	case 2, 3:
		return strings.NewReplacer("$R", "("+inner()+")", "$B", g.any([]string{g.any(bodies), inner()})).Replace(g.any(macros))
	case 4:
		return fmt.Sprintf("[%s, %s]", inner(), inner())
	case 5:
		return fmt.Sprintf("{%s: %s}", inner(), inner())
	case 6:
		return fmt.Sprintf("(%s).%s", inner(), g.any([]string{"field", "?field", "n", "size()", "nope()"}))
	case 7:
		return fmt.Sprintf("(%s)[%s]", inner(), inner())
	case 8:
		return fmt.Sprintf("(%s).%s(%s)", inner(), g.any([]string{"orValue", "or", "startsWith", "indexOf", "join", "isLessThan", "contains", "slice"}), inner())
	case 9:
		return fmt.Sprintf("%s(%s)", g.any([]string{"size", "string", "int", "double", "bool", "quantity", "optional.of", "dyn", "type", "duration"}), inner())
	default:
		return fmt.Sprintf("(%s) %s (%s)", inner(), g.any([]string{"+", "==", "!=", "in", "<", ">=", "&&", "||", "-", "%", "*"}), inner())
	}
}

// text gives the type of an expression and its value or the text of its error, or the text that says
// why it does not compile.
func (e *environment) text(expression string) (answer string) {
	defer func() {
		if recover() != nil {
			answer = unstable
		}
	}()
	ast, issues := e.env.Compile(expression)
	if issues != nil && issues.Err() != nil {
		return issues.Err().Error()
	}
	program, err := e.env.Program(ast)
	if err != nil {
		return unstable
	}
	once := func() string {
		value, _, err := program.ContextEval(context.Background(), map[string]any{"object": e.object, "words": []string{"a", "b"}})
		if err != nil {
			return "error: " + err.Error()
		}
		return encode(value)
	}
	first := once()
	for range 5 {
		if once() != first {
			return unstable
		}
	}
	return checker.FormatCELType(ast.OutputType()) + "\n" + first
}

// words is the variable of a type that is known.
var words = cel.Variable("words", cel.ListType(cel.StringType))
