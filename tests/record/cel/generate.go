package main

import (
	"fmt"
	"math/rand"
	"sort"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
)

type group struct {
	name, about string
	expressions []string
}

// How many expressions are taken of each kind; beyond that they are chosen at random.
const (
	perOverload = 140
	perWrong    = 110
	perForm     = 1000
)

type generator struct{ random *rand.Rand }

func generate(env *cel.Env, seed int64) []group {
	g := &generator{rand.New(rand.NewSource(seed))}
	typed, wrong := g.functions(env)
	return []group{
		{"typed", "Every overload of every function, with values of its types", typed},
		{"dynamic", "Every function, with values of other types too, known only at run time", wrong},
		{"values", "Pairs and triples of values under every operator and form that compares, indexes or chooses", g.values()},
		{"quantities", "Pairs of quantities, versions, times and spans", g.quantities()},
		{"lists", "Functions and macros of lists and maps", append(g.lists(), g.macros()...)},
	}
}

// some takes at most n of the values.
func (g *generator) some(values []string, n int) []string {
	if len(values) <= n {
		return values
	}
	var chosen []string
	for _, index := range g.random.Perm(len(values))[:n] {
		chosen = append(chosen, values[index])
	}
	return chosen
}

func (g *generator) any(values []string) string { return values[g.random.Intn(len(values))] }

// every type of the pool, sorted.
func kinds() []string {
	var all []string
	for kind := range pool {
		all = append(all, kind)
	}
	sort.Strings(all)
	return all
}

// functions calls every function of the environment.
func (g *generator) functions(env *cel.Env) (typed, wrong []string) {
	functions := env.Functions()
	var names []string
	for name := range functions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if internal(name) {
			continue
		}
		overloads := functions[name].OverloadDecls()
		sort.Slice(overloads, func(a, b int) bool { return overloads[a].ID() < overloads[b].ID() })
		shapes := map[string]bool{}
		for _, overload := range overloads {
			typed = append(typed, g.typed(name, overload)...)
			shape := fmt.Sprint(overload.IsMemberFunction(), len(overload.ArgTypes()))
			if !shapes[shape] && len(overload.ArgTypes()) > 0 {
				shapes[shape] = true
				wrong = append(wrong, g.wrong(name, overloads, overload)...)
			}
		}
	}
	return typed, wrong
}

// internal tells names that no expression can call.
func internal(name string) bool {
	switch name {
	case "@not_strictly_false", "__not_strictly_false__", "_in_", "in", "@sortByAssociatedKeys", "_?._":
		return true
	}
	return strings.Contains(name, "@") && name != "@in"
}

func (g *generator) typed(name string, overload *decls.OverloadDecl) []string {
	args := overload.ArgTypes()
	if len(args) == 0 {
		return []string{call(name, false, nil)}
	}
	var columns [][]string
	size := 1
	for index, arg := range args {
		column := values(name, index, arg)
		if len(column) == 0 {
			return nil
		}
		columns = append(columns, column)
		size *= len(column)
	}
	if size <= perOverload {
		return product(columns, func(args []string) string { return call(name, overload.IsMemberFunction(), args) })
	}
	var calls []string
	// Each value of each argument at least once.
	for index, column := range columns {
		for _, value := range g.some(column, perOverload) {
			calls = append(calls, call(name, overload.IsMemberFunction(), g.row(columns, index, value)))
		}
	}
	for range perOverload {
		calls = append(calls, call(name, overload.IsMemberFunction(), g.row(columns, -1, "")))
	}
	return calls
}

func (g *generator) row(columns [][]string, fixed int, value string) []string {
	var args []string
	for index, column := range columns {
		if index == fixed {
			args = append(args, value)
		} else {
			args = append(args, g.any(column))
		}
	}
	return args
}

// wrong calls a function with arguments whose types only the evaluation finds out.
func (g *generator) wrong(name string, overloads []*decls.OverloadDecl, shape *decls.OverloadDecl) []string {
	arity := len(shape.ArgTypes())
	all := kinds()
	one := func(position int) string {
		var value string
		switch g.random.Intn(5) {
		case 0, 1:
			value = g.any(pool[g.any(all)])
		case 2:
			kind := g.any(all)
			if len(native[kind]) > 0 {
				return g.any(native[kind])
			}
			value = g.any(pool[kind])
		default:
			overload := overloads[g.random.Intn(len(overloads))]
			if position < len(overload.ArgTypes()) {
				if column := values(name, position, overload.ArgTypes()[position]); len(column) > 0 {
					value = g.any(column)
					break
				}
			}
			value = g.any(pool[g.any(all)])
		}
		return "dyn(" + value + ")"
	}
	var calls []string
	// Every type in every place at least once.
	for position := range arity {
		for _, kind := range all {
			args := make([]string, arity)
			for index := range args {
				args[index] = one(index)
			}
			args[position] = "dyn(" + g.any(pool[kind]) + ")"
			calls = append(calls, call(name, shape.IsMemberFunction(), args))
		}
	}
	for range perWrong {
		args := make([]string, arity)
		for index := range args {
			args[index] = one(index)
		}
		calls = append(calls, call(name, shape.IsMemberFunction(), args))
	}
	return calls
}

// values of a type, for an argument of a function.
func values(name string, position int, ty *types.Type) []string {
	switch ty.Kind() {
	case types.ListKind:
		return lists(name, ty.Parameters()[0])
	case types.MapKind:
		return pool["map"]
	case types.TypeParamKind, types.DynKind:
		return core
	case types.TypeKind:
		return pool["type"]
	case types.OpaqueKind:
		if ty.TypeName() == "optional_type" {
			return pool["optional_type"]
		}
	case types.StringKind:
		var special []string
		for _, list := range wanted[name] {
			special = append(special, quoted(texts[list])...)
		}
		// A pattern stands last, and what it is looked for in is plain text.
		if special != nil && (position > 0 || name != "matches" && name != "find" && name != "findAll") {
			return special
		}
	case types.IntKind:
		if name == "lists.range" {
			return []string{"-9223372036854775808", "-1", "0", "1", "5", "100"}
		}
		if name != "timestamp" && position > 0 {
			return []string{"0", "1", "2", "3", "-1", "-2", "5", "100", "9223372036854775807", "-9223372036854775808"}
		}
	}
	return pool[ty.TypeName()]
}

// lists whose elements have a type.
func lists(name string, element *types.Type) []string {
	switch element.Kind() {
	case types.TypeParamKind, types.DynKind:
		return pool["list"]
	case types.ListKind:
		return []string{"[]", "[[]]", "[[1], [2]]", "[[1, 2], []]", "[[[1]], [[2]]]", "[[dyn(1)], [dyn('a')]]", "[object.l, object.words]"}
	case types.OpaqueKind:
		return []string{"[]", "[optional.none()]", "[optional.of(1)]", "[optional.of(1), optional.none(), optional.of(2)]"}
	}
	column := pool[element.TypeName()]
	all := []string{"[]"}
	for index, value := range column {
		other, third := column[(index*7+3)%len(column)], column[(index*5+1)%len(column)]
		all = append(all, "["+value+"]", "["+value+", "+other+"]", "["+other+", "+value+", "+third+"]")
	}
	return all
}

// product calls f with every combination of values.
func product(columns [][]string, f func([]string) string) []string {
	if len(columns) == 0 {
		return nil
	}
	rows := [][]string{nil}
	for _, column := range columns {
		var longer [][]string
		for _, row := range rows {
			for _, value := range column {
				longer = append(longer, append(append([]string{}, row...), value))
			}
		}
		rows = longer
	}
	var calls []string
	for _, row := range rows {
		calls = append(calls, f(row))
	}
	return calls
}

// call writes a call as an expression.
func call(name string, member bool, args []string) string {
	arg := func(index int) string {
		if strings.ContainsAny(args[index], " -") && !strings.HasSuffix(args[index], ")") || strings.HasPrefix(args[index], "-") {
			return "(" + args[index] + ")"
		}
		return args[index]
	}
	switch name {
	case "_?_:_":
		return fmt.Sprintf("%s ? %s : %s", arg(0), arg(1), arg(2))
	case "_[_]":
		return fmt.Sprintf("%s[%s]", arg(0), args[1])
	case "_[?_]":
		return fmt.Sprintf("%s[?%s]", arg(0), args[1])
	case "@in":
		return fmt.Sprintf("%s in %s", arg(0), arg(1))
	case "!_", "-_":
		return strings.TrimSuffix(name, "_") + "(" + args[0] + ")"
	}
	if strings.HasPrefix(name, "_") && strings.HasSuffix(name, "_") && len(args) == 2 {
		return fmt.Sprintf("%s %s %s", arg(0), strings.Trim(name, "_"), arg(1))
	}
	if member {
		return fmt.Sprintf("%s.%s(%s)", arg(0), name, strings.Join(args[1:], ", "))
	}
	return fmt.Sprintf("%s(%s)", name, strings.Join(args, ", "))
}

// core is a few values of every type.
var core = []string{
	"null", "true", "false", "0", "1", "-1", "9223372036854775807", "9007199254740993", "0u", "1u", "18446744073709551615u",
	"0.0", "-0.0", "1.0", "1.5", "9007199254740992.0", "9223372036854775807.0", "18446744073709551615.0", "double('NaN')", "double('Infinity')",
	"''", "'a'", "'1'", "'é'", "b''", "b'a'", "timestamp(0)", "timestamp('1970-01-01T01:00:00+01:00')", "timestamp(1)", "duration('1s')", "duration('1000ms')", "duration('0s')",
	"int", "type(1)", "list", "[]", "[1]", "[1.0]", "['a']", "[null]", "[[1]]", "[quantity('1')]", "{}", "{'a': 1}", "{'a': 1.0}", "{'b': 1}", "{1: 1}", "{1.0: 1}", "{1u: 1}", "{'a': null}", "{'a': url('http://a')}",
	"optional.none()", "optional.of(1)", "optional.of(1.0)", "optional.of(null)", "optional.of(optional.none())",
	"quantity('1')", "quantity('1000m')", "quantity('8Gi')", "quantity('0')", "semver('1.0.0')", "semver('1.0.0+a')", "url('http://a')", "ip('1.2.3.4')", "ip('::1')", "cidr('10.0.0.0/8')", "format.uuid()", "format.uri()",
	"object.n", "object.s", "object.nul", "object.l", "object.m", "object.f", "object.whole", "object.one", "object.e",
}

// values puts two or three values into every form that has to do with equality, order, membership,
// indexes and optionals.
func (g *generator) values() []string {
	forms := []string{
		"dyn(%s) == dyn(%s)", "dyn(%s) != dyn(%s)", "dyn(%s) in [dyn(%s)]", "dyn(%s) in {%s: 1}", "dyn(%s) < dyn(%s)", "dyn(%s) >= dyn(%s)",
		"[dyn(%s)] == [dyn(%s)]", "[dyn(%s)] != [dyn(%s)]", "{'k': dyn(%s)} == {'k': dyn(%s)}", "[dyn(%s), dyn(%s)].distinct()", "[dyn(%s)].indexOf(dyn(%s))", "[dyn(%s)].lastIndexOf(dyn(%s))",
		"sets.contains([dyn(%s)], [dyn(%s)])", "sets.equivalent([dyn(%s)], [dyn(%s)])", "sets.intersects([dyn(%s)], [dyn(%s)])",
		"optional.of(dyn(%s)) == optional.of(dyn(%s))", "{%s: 1} == {%s: 1}", "{%s: 1, %s: 2}", "{dyn(%s): 'v'}[dyn(%s)]", "{dyn(%s): 'v'}[?dyn(%s)]", "dyn(%s)[dyn(%s)]", "dyn(%s)[?dyn(%s)]",
		"%s == %s", "%s != %s", "%s in [%s]", "%s in [%s, 'a']", "%s in %s", "%s[%s]", "%s[?%s]", "dyn(%s) + dyn(%s)", "dyn(%s) - dyn(%s)", "dyn(%s) * dyn(%s)", "dyn(%s) / dyn(%s)", "dyn(%s) %% dyn(%s)",
		"dyn(%s).orValue(dyn(%s))", "dyn(%s).or(dyn(%s))", "%s.orValue(%s)", "optional.of(%s).orValue(%s)", "optional.none().orValue(%s) == dyn(%s)", "optional.of(%s).or(optional.of(%s))",
		"[dyn(%s), dyn(%s)].isSorted()", "[dyn(%s), dyn(%s)].min()", "[dyn(%s), dyn(%s)].max()", "[dyn(%s), dyn(%s)].sort()", "[dyn(%s), dyn(%s)].sum()", "[%s, %s].sortBy(x, x)",
		"dyn(%s) || dyn(%s)", "dyn(%s) && dyn(%s)", "true ? %s : %s", "dyn(%s) ? dyn(%s) : 0", "[dyn(%s)] + [dyn(%s)]", "[?dyn(%s), ?dyn(%s)]", "{?'a': dyn(%s), ?'b': dyn(%s)}",
		"'%%s %%s'.format([%s, %s])", "[dyn(%s), dyn(%s)].join()", "optional.of(%s).optMap(x, dyn(x) == dyn(%s))", "dyn(%s).optMap(x, dyn(%s))", "dyn(%s).optFlatMap(x, optional.of(dyn(%s)))", "dyn(%s).?a.orValue(%s)", "optional.ofNonZeroValue(%s).hasValue() == dyn(%s)",
		"[dyn(%s)][dyn(%s)]", "[1, 2, 3][?dyn(%s)].orValue(%s)", "optional.of(dyn(%s))[dyn(%s)]", "optional.of([1, %s])[?%s]", "dyn(%s).first().or(optional.of(%s))", "optional.unwrap([dyn(%s), dyn(%s)])", "[dyn(%s), dyn(%s)].unwrapOpt()",
		"[[dyn(%s)], [dyn(%s)]].flatten()", "[dyn(%s), dyn(%s)].reverse()", "dyn(%s) in dyn(%s)", "dyn(%s).contains(dyn(%s))",
	}
	var all []string
	for index, form := range forms {
		pairs := product([][]string{core, core}, func(pair []string) string { return fmt.Sprintf(form, parenthesized(pair[0]), parenthesized(pair[1])) })
		most := perForm / 3
		if index < 2 {
			most = len(pairs)
		}
		all = append(all, g.some(pairs, most)...)
	}
	for _, form := range []string{
		"%s", "!dyn(%s)", "-dyn(%s)", "-(%s)", "string(dyn(%s))", "type(%s)", "type(dyn(%s)) == int", "int(dyn(%s))", "uint(dyn(%s))", "double(dyn(%s))", "bool(dyn(%s))", "bytes(dyn(%s))", "timestamp(dyn(%s))", "duration(dyn(%s))", "dyn(%s)",
		"optional.ofNonZeroValue(%s)", "optional.ofNonZeroValue(dyn(%s)).hasValue()", "optional.of(%s).value()", "dyn(%s).value()", "dyn(%s).hasValue()", "size(dyn(%s))", "dyn(%s).size()", "dyn(%s).all(x, true)", "dyn(%s).map(x, x)", "dyn(%s).exists(x, x == x)", "has(dyn(%s).a)", "dyn(%s).a", "dyn(%s).?a", "dyn(%s).?a.b",
		"'%%d'.format([%s])", "'%%f'.format([%s])", "'%%e'.format([%s])", "'%%x'.format([%s])", "'%%X'.format([%s])", "'%%o'.format([%s])", "'%%b'.format([%s])", "'%%.3f'.format([%s])", "'%%.0f'.format([%s])", "'%%.300f'.format([%s])", "'%%.1000f'.format([%s]).size()", "'%%.40000f'.format([%s]).size()", "'%%.65536f'.format([%s])", "'%%.2000000000e'.format([%s])", "'%%.1000000e'.format([%s]).size()", "[%s].join(',')", "strings.quote(dyn(%s))", "{'a': %s}.?a", "{'a': %s}[?'b']", "{'a': %s}.a", "{'a': %s}['a']", "[%s][0]", "[%s][?0]", "[%s][1]", "[%s][?1]", "[%s][-1]",
		"[%s].first()", "[%s].last()", "[dyn(%s)].sort()", "[dyn(%s)].min()", "[dyn(%s)].max()", "[dyn(%s)].isSorted()", "[dyn(%s)].sum()", "[[%s]].flatten()", "[%s].distinct()", "lists.range(3).map(x, dyn(%s))", "isQuantity(dyn(%s))", "quantity(dyn(%s))", "isURL(dyn(%s))", "ip(dyn(%s))", "cidr(dyn(%s))", "semver(dyn(%s))",
	} {
		values := core
		for _, kind := range kinds() {
			values = append(values[:len(values):len(values)], g.some(pool[kind], 6)...)
		}
		for _, value := range values {
			all = append(all, fmt.Sprintf(form, parenthesized(value)))
		}
	}
	return all
}

func parenthesized(value string) string {
	if strings.HasPrefix(value, "-") {
		return "(" + value + ")"
	}
	return value
}

// quantities pairs values of which several texts mean the same.
func (g *generator) quantities() []string {
	var all []string
	pairs := func(kind string, most int, forms ...string) {
		for _, form := range forms {
			calls := product([][]string{pool[kind], pool[kind]}, func(pair []string) string { return fmt.Sprintf(form, pair[0], pair[1]) })
			all = append(all, g.some(calls, most)...)
		}
	}
	pairs("kubernetes.Quantity", perForm*5, "%s.compareTo(%s)")
	pairs("kubernetes.Quantity", perForm, "%s == %s", "%s.isLessThan(%s)", "%s.isGreaterThan(%s)", "%s.add(%s)", "%s.sub(%s)", "%s.add(%s).asApproximateFloat()", "%s.sub(%s).isInteger()", "%s in [%s]", "[%s].indexOf(%s)", "%s.sub(%s).sign()", "%s.add(%s).compareTo(quantity('5Gi'))")
	pairs("kubernetes.Semver", perForm, "%s.compareTo(%s)", "%s == %s", "%s.isLessThan(%s)")
	pairs("google.protobuf.Timestamp", perForm, "%s < %s", "%s == %s", "%s - %s", "%s >= %s")
	pairs("google.protobuf.Duration", perForm, "%s < %s", "%s == %s", "%s + %s", "%s - %s")
	pairs("net.CIDR", perForm, "%s.containsCIDR(%s)", "%s == %s")
	pairs("net.IP", perForm, "%s == %s")
	pairs("kubernetes.URL", perForm, "%s == %s")
	for _, quantity := range pool["kubernetes.Quantity"] {
		for _, number := range values("add", 1, types.IntType) {
			all = append(all, quantity+".add("+number+")", quantity+".sub("+number+")")
		}
		for _, function := range []string{"asInteger()", "isInteger()", "asApproximateFloat()"} {
			all = append(all, quantity+"."+function)
		}
	}
	return all
}

// lists calls the functions of lists with lists of two and three values of one type and of several.
func (g *generator) lists() []string {
	functions := []string{
		".isSorted()", ".min()", ".max()", ".sum()", ".sort()", ".distinct()", ".reverse()", ".first()", ".last()", ".size()", ".flatten()", ".flatten(2)", ".flatten(-1)",
		".slice(0, 1)", ".slice(1, 1)", ".slice(1, 9)", ".slice(-1, 1)", ".slice(2, 1)", ".join()", ".join('-')", ".indexOf(dyn(1))", ".lastIndexOf(dyn('a'))", ".sortBy(x, x)", ".sortBy(x, type(x) == int)",
		" == [1, 2]", "[0]", "[?1]", "[dyn(1.0)]", "[dyn(1u)]", ".all(x, x == 1)", ".map(x, [x])", ".exists_one(x, x == dyn('a'))",
	}
	var all []string
	for _, function := range functions {
		for range perForm / 10 {
			kind := g.any(kinds())
			column := pool[kind]
			if g.random.Intn(2) == 0 {
				column = core
			}
			var items []string
			for range 1 + g.random.Intn(3) {
				item := g.any(column)
				if g.random.Intn(3) > 0 {
					item = "dyn(" + item + ")"
				}
				items = append(items, item)
			}
			list := "[" + strings.Join(items, ", ") + "]"
			if g.random.Intn(4) == 0 {
				list = "dyn(" + list + ")"
			}
			all = append(all, list+function)
		}
	}
	return all
}

// macros ranges over lists, maps and what is neither.
func (g *generator) macros() []string {
	ranges := append(append([]string{}, pool["list"]...), pool["map"]...)
	ranges = append(ranges, "dyn('a')", "dyn(1)", "dyn(null)", "dyn(optional.of([1]))", "object.s", "object.nul", "object.n", "dyn(b'a')")
	bodies := []string{"true", "false", "x == 1", "x == dyn('a')", "dyn(x) > dyn(0)", "dyn(x) + dyn(x) == dyn(x)", "dyn(1 / 0 == 0)", "x", "[x]", "type(x) == int", "size(x) > 0", "x in [1, 'a', null]", "dyn(x) != null", "{'a': x}", "string(x)", "dyn(x).a == 1", "has(x.a)"}
	forms := []string{
		"%s.all(x, %s)", "%s.exists(x, %s)", "%s.exists_one(x, %s)", "%s.filter(x, %s)", "%s.map(x, %s)", "%s.map(x, true, %s)", "%s.map(x, %s, x)", "%s.sortBy(x, %s)",
		"%s.all(k, x, %s)", "%s.exists(k, x, %s)", "%s.existsOne(k, x, %s)", "%s.transformList(k, x, %s)", "%s.transformMap(k, x, %s)", "%s.transformMapEntry(k, x, {k: %s})", "%s.transformMapEntry(k, x, {dyn(x): %s})", "%s.transformList(k, x, k != dyn(0), %s)", "%s.transformMap(k, x, k != dyn(0), %s)",
	}
	var all []string
	for _, form := range forms {
		calls := product([][]string{ranges, bodies}, func(pair []string) string { return fmt.Sprintf(form, pair[0], pair[1]) })
		all = append(all, g.some(calls, perForm/4)...)
	}
	return all
}
