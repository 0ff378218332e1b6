package main

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/sprig/v3"
)

// perFunction is how many templates call one function, at most; variants how many call a variadic
// function with each number of arguments.
const perFunction, variants = 220, 70

type group struct {
	name, about string
	sprig       bool
	templates   []string
}

func quoted(values ...string) []string {
	for index, value := range values {
		values[index] = strconv.Quote(value)
	}
	return values
}

func groups(seed int64) []group {
	random := rand.New(rand.NewSource(seed))
	var sprigCalls, own, methods []string
	functions := sprig.GenericFuncMap()
	var names []string
	for name := range functions {
		if !skipped[name] {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		signature := reflect.TypeOf(functions[name])
		for _, pools := range poolsOf(name, signature) {
			sprigCalls = append(sprigCalls, calls(random, name, pools)...)
		}
	}
	for name, arities := range map[string][]int{
		"and": {1, 2, 3}, "or": {1, 2, 3}, "not": {1}, "eq": {2, 3}, "ne": {2}, "lt": {2}, "le": {2}, "gt": {2}, "ge": {2},
		"index": {1, 2, 3}, "slice": {1, 2, 3}, "len": {1}, "print": {1, 2, 3}, "println": {1, 2}, "html": {1, 2}, "js": {1, 2}, "urlquery": {1, 2}, "printf": {2, 3}, "call": {1},
	} {
		for _, arity := range arities {
			pools := make([][]string, arity)
			for index := range pools {
				pools[index] = ownArguments
			}
			switch name {
			case "printf":
				// Declared differences of modgate: complex numbers and bytes that are no text have
				// no verbs of their own.
				for index := range pools {
					pools[index] = without(ownArguments, broken, []string{"1i"})
				}
				pools[0] = formats
			case "index", "slice":
				for index := 1; index < arity; index++ {
					pools[index] = concat(small, quoted("a", "b", "c"), []string{"nil", "1.5", "true"})
				}
			}
			own = append(own, calls(random, name, pools)...)
		}
	}
	sort.Strings(own)
	for _, receiver := range []struct {
		kind   reflect.Type
		values []string
	}{
		{reflect.TypeFor[time.Time](), moments}, {reflect.TypeFor[time.Duration](), durations},
	} {
		methods = append(methods, methodCalls(random, receiver.kind, receiver.values)...)
	}
	return []group{
		{"sprig-pairs", "Sprig's functions over pairs and triples of boundary values", true, sprigCalls},
		{"sprig-methods", "methods of the values that Sprig's functions give", true, methods},
		{"gotemplate-pairs", "text/template's own functions over pairs and triples of boundary values", false, own},
	}
}

// ownArguments are written without Sprig.
var ownArguments = concat(texts[:26], broken, small[:6], floats[:8], []string{
	"nil", "true", "false", "9223372036854775807", "-9223372036854775808", "1i", "'x'", "0x1p-2", "1_000",
	".nope", ".null", ".text", ".num", ".f", ".neg", ".big", ".list", ".nums", ".mixed", ".none", ".map", ".nested", ".void", "(len .list)", "(index .map \"b\")", "(print 1 2)",
})

func without(pool []string, others ...[]string) []string {
	return slices.DeleteFunc(slices.Clone(pool), func(value string) bool {
		return slices.Contains(concat(others...), value)
	})
}

// poolsOf gives the pools of each number of arguments that a function may be called with.
func poolsOf(name string, signature reflect.Type) [][][]string {
	pool := func(index int) []string {
		given := overrides[name]
		if index < len(given) {
			return given[index]
		}
		if signature.IsVariadic() && len(given) > 0 {
			return given[len(given)-1]
		}
		last := signature.NumIn() - 1
		if signature.IsVariadic() && index >= last {
			return poolOf(signature.In(last).Elem())
		}
		return poolOf(signature.In(index))
	}
	fixed := signature.NumIn()
	most := fixed
	if signature.IsVariadic() {
		fixed--
		most = fixed + 3
	}
	var all [][][]string
	for count := fixed; count <= most; count++ {
		pools := make([][]string, count)
		for index := range pools {
			pools[index] = pool(index)
		}
		all = append(all, pools)
	}
	return all
}

func poolOf(kind reflect.Type) []string {
	switch kind.Kind() {
	case reflect.String:
		return append(append([]string{}, texts...), broken...)
	case reflect.Int, reflect.Int64:
		if kind == reflect.TypeFor[time.Duration]() {
			return durations
		}
		return ints
	case reflect.Int32, reflect.Uint32:
		return small
	case reflect.Float64:
		return floats
	case reflect.Bool:
		return bools
	case reflect.Slice:
		return lists
	case reflect.Map:
		return maps
	case reflect.Struct:
		return moments
	default:
		return anything
	}
}

// calls gives templates for all combinations of arguments, or as many of them at random as there
// may be. Every other one shows the type of the result as well.
func calls(random *rand.Rand, call string, pools [][]string) []string {
	all := 1
	for _, pool := range pools {
		all *= len(pool)
	}
	most := perFunction
	if len(pools) > 1 && all > perFunction && len(pools) != len(overrides[call]) {
		most = variants * 2
	}
	var out []string
	for index := range min(all, most) {
		rest := index
		if all > most {
			rest = random.Intn(all)
		}
		text := call
		for _, pool := range pools {
			text += " " + pool[rest%len(pool)]
			rest /= len(pool)
		}
		if index%2 == 0 {
			out = append(out, fmt.Sprintf("{{ %s }}", text))
		} else {
			out = append(out, fmt.Sprintf("{{ $x := %s }}{{ printf \"%%T %%v\" $x $x }}", text))
		}
	}
	return out
}

// Methods that the Go release of the reference does not have, and those whose answers modgate
// declares to lack.
var unavailable = []string{"Compare", "Abs", "IsDST", "Location"}

func methodCalls(random *rand.Rand, kind reflect.Type, receivers []string) []string {
	var out []string
	for index := range kind.NumMethod() {
		method := kind.Method(index)
		pools := [][]string{}
		known := true
		for parameter := 1; parameter < method.Type.NumIn(); parameter++ {
			in := method.Type.In(parameter)
			switch {
			case in == reflect.TypeFor[time.Month]() || in == reflect.TypeFor[*time.Location]() || in.Kind() == reflect.Slice:
				known = false
			case in.Kind() == reflect.String:
				pools = append(pools, layouts)
			case in.Kind() == reflect.Int:
				// What overflows depends on the release of Go.
				pools = append(pools, append(append([]string{}, small...), "1000", "-1000000"))
			default:
				pools = append(pools, poolOf(in))
			}
		}
		if !known || slices.Contains(unavailable, method.Name) || strings.HasPrefix(method.Name, "Marshal") || strings.HasPrefix(method.Name, "Go") {
			continue
		}
		for _, receiver := range receivers {
			out = append(out, calls(random, receiver+"."+method.Name, pools)...)
		}
	}
	return out
}
