// Command syntax records OPA's errors about modules with mistakes: v1 read as v0, and modules of both versions of
// which one or two tokens are lost, doubled, swapped or replaced.
//
//	go run ./syntax 4000 > ../../../conformance/languages/rego-syntax.json
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

const head = "package p\n\n"

// tokens are roughly Rego's.
var tokens = regexp.MustCompile(`"[^"\n]*"|[A-Za-z_]\w*|\d+|:=|==|!=|\n|[^\s]`)

// others take the place of a token.
var others = []string{
	"if", "contains", "every", "in", "some", "not", "else", "default", "import", "package", "{", "}", "[", "]", "(", ")",
	",", ";", ":", "=", ":=", "==", `"s"`, "1", "x", "input", ".", "|", "with", "as", "null", "true", "\n",
}

type module struct{ name, text string }

var modules = []module{
	{"g09", "violation contains {\"msg\": msg} if {\n  required := input.parameters.labels[_]\n  not input.review.object.metadata.labels[required]\n  msg := sprintf(\"label %v is missing\", [required])\n}\n"},
	{"contains_noif", "violation contains {\"msg\": msg} {\n  msg := \"x\"\n}\n"},
	{"contains_var", "violation contains msg if {\n  msg := {\"msg\": \"x\"}\n}\n"},
	{"if_body", "violation[{\"msg\": msg}] if {\n  msg := \"x\"\n}\n"},
	{"if_one", "allow if input.x == 1\n"},
	{"if_value", "allow := true if { input.x == 1 }\n"},
	{"if_func", "f(x) if { x == 1 }\n"},
	{"if_func_value", "f(x) := y if { y := x }\n"},
	{"every", "violation[{\"msg\": msg}] {\n  every c in input.review.object.spec.containers { c.image == \"x\" }\n  msg := \"x\"\n}\n"},
	{"every_kv", "ok {\n  every i, c in input.xs { c == i }\n}\n"},
	{"some_in", "violation[{\"msg\": msg}] {\n  some c in input.review.object.spec.containers\n  c.image == \"x\"\n  msg := \"x\"\n}\n"},
	{"some_kv_in", "ok {\n  some i, c in input.xs\n  c == i\n}\n"},
	{"in", "ok {\n  \"a\" in input.xs\n}\n"},
	{"in_assign", "ok {\n  y := \"a\" in input.xs\n  y\n}\n"},
	{"not_in", "ok {\n  not \"a\" in input.xs\n}\n"},
	{"in_paren", "ok {\n  (\"a\" in input.xs) == true\n}\n"},
	{"two_rules", "violation contains {\"msg\": msg} if {\n  msg := \"x\"\n}\n\nhelper(x) if {\n  x == 1\n}\n"},
	{"else_if", "f(x) := 1 if { x == 1 } else := 2 if { x == 2 }\n"},
	{"else_if_only", "f(x) = 1 { x == 1 } else = 2 if { x == 2 }\n"},
	{"contains_short", "s contains \"a\"\n"},
	{"contains_multi", "violation contains {\n  \"msg\": msg,\n  \"details\": {},\n} if {\n  msg := \"x\"\n}\n"},
	{"default_if", "default allow := false\n\nallow if {\n  input.x\n}\n"},
	{"comment_first", "# METADATA\n# title: x\nviolation contains {\"msg\": msg} if {\n  msg := \"x\"\n}\n"},
	{"setcomp_in", "ok {\n  xs := {x | some x in input.xs}\n  count(xs) > 0\n}\n"},
	{"arrcomp_every", "ok {\n  xs := [x | x := input.xs[_]; every y in x { y > 1 }]\n  count(xs) > 0\n}\n"},
	{"good_then_v1", "a {\n  input.x\n}\n\nb if {\n  input.y\n}\n\nc contains 1\n"},
	{"if_newline", "allow if\n  input.x\n"},
	{"contains_object_var", "deny contains msg if {\n  some c in input.xs\n  msg := c\n}\n"},
	{"import_some_only", "import future.keywords.in\n\nviolation contains {\"msg\": \"x\"} if {\n  some x in input.xs\n}\n"},
	{"import_contains_only", "import future.keywords.contains\n\nviolation contains {\"msg\": \"x\"} if {\n  input.x\n}\n"},
	{"import_if_only", "import future.keywords.if\n\nviolation contains {\"msg\": \"x\"} if {\n  input.x\n}\n"},
	{"ref_head", "a.b.c := 1 if { input.x }\n"},
	{"ref_head_contains", "a.b contains 1 if { input.x }\n"},
	{"func_brackets", "violation[{\"msg\": msg}] {\n  is_bad(x) if { x }\n}\n"},
	{"if_braces_line", "violation[{\"msg\": msg}] if\n{\n  msg := \"x\"\n}\n"},
	{"template", "x := $\"a {input.b}\"\n"},
	{"every_sameline", "ok { every x in [1] { x == 1 } }\n"},
	{"not_every", "ok { not every x in [1] { x == 1 } }\n"},
	{"some_in_sameline", "ok { some x in [1]; x == 1 }\n"},
	{"in_call", "ok { count(1 in [1]) }\n"},
	{"in_array", "ok { x := [1 in [1], 2] }\n"},
	{"in_object", "ok { x := {\"a\": 1 in [1]} }\n"},
	{"in_head", "ok = x in [1] { x := 1 }\n"},
	{"import_rego_alias", "import rego.v1 as x\n\nok { true }\n"},
	{"nobody", "violation contains {\"msg\": \"x\"}\n"},
	{"assign_if_noBrace", "x := 1 if input.y\n"},
	{"partial_obj", "m[k] := v if { k := 1; v := 2 }\n"},
	{"partial_obj2", "m[k] if { k := 1 }\n"},
	{"default_func", "default f(x) := 1\nf(x) := 2 if x == 3\n"},
	{"if_else", "a := 1 if { input.x } else := 2\n"},
	{"if_else2", "a := 1 if input.x\nelse := 2 if input.y\n"},
	{"contains_call", "violation contains f(x) if { x := 1 }\n"},
	{"contains_arr", "violation contains [1,2] if { x := 1 }\n"},
	{"contains_str", "violation contains \"a\" if { x := 1 }\n"},
	{"contains_num", "violation contains 1 if { x := 1 }\n"},
	{"contains_set", "violation contains {msg} if { msg := 1 }\n"},
	{"contains_setcomp", "violation contains {msg | msg := 1} if { true }\n"},
	{"contains_ref", "violation contains input.x if { true }\n"},
	{"contains_nl", "violation contains\n  {\"msg\": \"x\"} if { true }\n"},
	{"contains_two_keys", "violation contains {\"msg\": msg, \"details\": {\"a\": 1}} if {\n msg := \"x\" }\n"},
	{"contains_nested", "violation contains {\"msg\": sprintf(\"%v\", [x])} if {\n x := 1 }\n"},
	{"contains_varkey", "violation contains {msg: 1} if { msg := 1 }\n"},
	{"contains_empty", "violation contains {} if { msg := 1 }\n"},
	{"tabs", "violation contains {\"msg\": msg} if {\n\tsome x in input.xs\n\tmsg := x\n}\n"},
	{"other-0", "p[x] { x := 1 }\n"},
	{"other-1", "p = 1\nq := 2 { true } else = 3 { false }\n"},
	{"other-2", "f(x) = y { y := x } { y := 2 }\n"},
	{"other-3", "default p = false\np { not q with input as {\"a\": 1} }\nq { input.a == 2 }\n"},
	{"other-4", "p { x := [y | y := input.a[_]; y > 1]; count(x) > 0 }\n"},
	{"other-5", "a.b[c] = d { c := \"x\"; d := 1 }\n"},
	{"other-6", "import data.lib as l\np { l.f(1) }\n"},
	{"other-7", "violation[{\"msg\": m}] { m := sprintf(\"%v\", [input.x]) }\n"},
	{"other-8", "p = 1; q = 2\n"},
	{"other-9", "p with input as 1\n"},
	{"other-10", "not p\n"},
	{"other-11", "[1, 2]\n"},
	{"other-12", "input\n"},
	{"other-13", "p := x { x := 1 } with input as 2\n"},
	{"other-14", "p [x] = 1\n"},
}

type recorded struct {
	ID      string   `json:"id"`
	Version int      `json:"version"`
	Modules []string `json:"modules"`
	Query   string   `json:"query"`
	Stage   string   `json:"stage,omitempty"`
	Errors  []string `json:"errors,omitempty"`
	Rows    []string `json:"rows,omitempty"`
}

// record asks OPA; false where the module parses and does not compile.
func record(id, text string, version int) (recorded, bool) {
	got := recorded{ID: id, Version: version, Modules: []string{text}, Query: "true"}
	rego := ast.RegoV0
	if version == 1 {
		rego = ast.RegoV1
	}
	parsed, err := ast.ParseModuleWithOpts("test-0.rego", text, ast.ParserOptions{RegoVersion: rego})
	if err == nil {
		compiler := ast.NewCompiler()
		compiler.Compile(map[string]*ast.Module{"test-0.rego": parsed})
		got.Rows = []string{""}
		return got, !compiler.Failed()
	}
	got.Stage = "parse"
	if all, ok := err.(ast.Errors); ok {
		for _, each := range all {
			got.Errors = append(got.Errors, each.Error())
		}
	} else {
		got.Errors = []string{err.Error()}
	}
	return got, true
}

func mutant(random *rand.Rand) string {
	text := head + modules[random.Intn(len(modules))].text
	for range 1 + random.Intn(4)/3 {
		found := tokens.FindAllStringIndex(text, -1)
		if len(found) == 0 {
			return text
		}
		at := found[random.Intn(len(found))]
		other := others[random.Intn(len(others))]
		switch random.Intn(4) {
		case 0:
			text = text[:at[0]] + text[at[1]:]
		case 1:
			text = text[:at[0]] + other + text[at[1]:]
		case 2:
			text = text[:at[1]] + " " + other + " " + text[at[1]:]
		default:
			to := found[random.Intn(len(found))]
			if at[0] > to[0] {
				at, to = to, at
			}
			if at[1] <= to[0] {
				text = text[:at[0]] + text[to[0]:to[1]] + text[at[1]:to[0]] + text[at[0]:at[1]] + text[to[1]:]
			}
		}
	}
	return text
}

func main() {
	count := 4000
	if len(os.Args) > 1 {
		var err error
		if count, err = strconv.Atoi(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	var all []recorded
	seen := map[string]bool{}
	add := func(id, text string, version int) {
		key := fmt.Sprint(version, text)
		if seen[key] {
			return
		}
		seen[key] = true
		if got, ok := record(fmt.Sprintf("%s-v%d", id, version), text, version); ok {
			all = append(all, got)
		}
	}
	for _, each := range modules {
		add(each.name, head+each.text, 0)
		add(each.name, head+each.text, 1)
	}
	random := rand.New(rand.NewSource(14))
	for number := 1; len(all) < count; number++ {
		version := 0
		if random.Intn(4) == 0 {
			version = 1
		}
		add("mutant-"+strconv.Itoa(number), mutant(random), version)
	}
	about := "Modules of Rego v0 and v1 with mistakes, most of them v1 read as v0, and every error of OPA 1.17.1: its " +
		"place and the line that it shows. tests/record/rego/syntax made it."
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"about": about, "cases": all}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
