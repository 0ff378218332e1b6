package main

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"
)

// function is a built-in with the pools of its operands.
type function struct {
	name     string
	operands []string
}

// left out: what asks the outside, what reads policies as texts, and what other products need.
// `internal.` is what the compiler makes of syntax, and walk answers with a relation.
var leftOut = []string{
	"external_data", "graphql.", "http.send", "internal.", "io.jwt.encode_sign", "net.lookup_ip_addr", "opa.runtime",
	"print", "providers.", "rand.intn", "rego.", "time.now_ns", "trace", "uuid.rfc4122", "walk", "assign", "eq",
}

// special names the pools of functions whose operands mean something.
var special = map[string][]string{
	"base64.decode":                    {"encoded"},
	"base64.is_valid":                  {"encoded"},
	"base64url.decode":                 {"encoded"},
	"hex.decode":                       {"encoded"},
	"urlquery.decode":                  {"encoded"},
	"bits.lsh":                         {"numbers", "small"},
	"bits.rsh":                         {"numbers", "small"},
	"concat":                           {"strings", "lists"},
	"format_int":                       {"numbers", "bases"},
	"glob.match":                       {"globs", "delimiters", "paths"},
	"glob.quote_meta":                  {"globs"},
	"graph.reachable":                  {"graphs", "lists"},
	"graph.reachable_paths":            {"graphs", "lists"},
	"io.jwt.decode":                    {"tokens"},
	"io.jwt.verify_hs256":              {"tokens", "strings"},
	"io.jwt.verify_hs384":              {"tokens", "strings"},
	"io.jwt.verify_hs512":              {"tokens", "strings"},
	"json.filter":                      {"objects", "pointers"},
	"json.remove":                      {"objects", "pointers"},
	"json.patch":                       {"objects", "patches"},
	"json.is_valid":                    {"documents"},
	"json.unmarshal":                   {"documents"},
	"json.match_schema":                {"documented", "schemas"},
	"json.verify_schema":               {"schemas"},
	"yaml.is_valid":                    {"documents"},
	"yaml.unmarshal":                   {"documents"},
	"net.cidr_contains":                {"networks", "networks"},
	"net.cidr_intersects":              {"networks", "networks"},
	"net.cidr_overlap":                 {"networks", "networks"},
	"net.cidr_expand":                  {"smallnetworks"},
	"net.cidr_is_valid":                {"networks"},
	"net.cidr_merge":                   {"networklists"},
	"net.cidr_contains_matches":        {"networklists", "networklists"},
	"numbers.range":                    {"small", "small"},
	"numbers.range_step":               {"small", "small", "small"},
	"object.filter":                    {"objects", "keys"},
	"object.remove":                    {"objects", "keys"},
	"object.get":                       {"objects", "pointer", "mixed"},
	"object.subset":                    {"collections", "collections"},
	"object.union":                     {"objects", "objects"},
	"object.union_n":                   {"objectlists"},
	"intersection":                     {"setsofsets"},
	"union":                            {"setsofsets"},
	"regex.match":                      {"patterns", "subjects"},
	"re_match":                         {"patterns", "subjects"},
	"regex.is_valid":                   {"patterns"},
	"regex.split":                      {"patterns", "subjects"},
	"regex.find_n":                     {"patterns", "subjects", "small"},
	"regex.find_all_string_submatch_n": {"patterns", "subjects", "small"},
	"regex.replace":                    {"subjects", "patterns", "replacements"},
	"regex.globs_match":                {"globpatterns", "globpatterns"},
	"regex.template_match":             {"templates", "subjects", "opening", "closing"},
	"semver.compare":                   {"versions", "versions"},
	"semver.is_valid":                  {"versions"},
	"sprintf":                          {"formats", "lists"},
	"strings.render_template":          {"gotemplates", "objects"},
	"strings.replace_n":                {"replacers", "strings"},
	"strings.split_n":                  {"strings", "strings", "small"},
	"substring":                        {"strings", "small", "small"},
	"time.add_date":                    {"times", "small", "small", "small"},
	"time.clock":                       {"times"},
	"time.date":                        {"times"},
	"time.weekday":                     {"times"},
	"time.diff":                        {"times", "times"},
	"time.format":                      {"times"},
	"time.parse_duration_ns":           {"durations"},
	"time.parse_ns":                    {"layouts", "instants"},
	"time.parse_rfc3339_ns":            {"instants"},
	"units.parse":                      {"amounts"},
	"units.parse_bytes":                {"amounts"},
	"uri.parse":                        {"urls"},
	"uri.is_valid":                     {"urls"},
	"urlquery.decode_object":           {"urls"},
	"urlquery.encode_object":           {"objects"},
	"uuid.parse":                       {"uuids"},
	"crypto.x509.parse_certificates":   {"encoded"},
	"crypto.x509.parse_and_verify_certificates": {"encoded"},
	"crypto.x509.parse_certificate_request":     {"encoded"},
	"crypto.x509.parse_rsa_private_key":         {"encoded"},
	"crypto.parse_private_keys":                 {"encoded"},
}

// functions is every built-in of OPA that is recorded.
func functions() []function {
	var found []function
	for _, builtin := range ast.Builtins {
		if slices.ContainsFunc(leftOut, func(name string) bool {
			return builtin.Name == name || strings.HasSuffix(name, ".") && strings.HasPrefix(builtin.Name, name)
		}) {
			continue
		}
		operands := special[builtin.Name]
		if operands == nil {
			for _, argument := range builtin.Decl.FuncArgs().Args {
				operands = append(operands, poolOf(argument))
			}
		}
		found = append(found, function{builtin.Name, operands})
	}
	return found
}

// poolOf is the pool for an operand of a type.
func poolOf(kind types.Type) string {
	if named, ok := kind.(*types.NamedType); ok {
		kind = named.Type
	}
	switch kind := kind.(type) {
	case types.String:
		return "strings"
	case types.Number:
		return "numbers"
	case *types.Set:
		return "sets"
	case *types.Array:
		return "lists"
	case *types.Object:
		return "objects"
	case types.Any:
		if len(kind) > 0 {
			return "collections"
		}
	}
	return "mixed"
}

// with is one pool after the other.
func with(pools ...[]string) []string {
	return slices.Concat(pools...)
}

// wrong holds a value of every type, for operands of any.
var wrong = []string{`null`, `true`, `1`, `"s"`, `["s"]`, `{"s": 1}`, `{"s"}`}

var pools = map[string][]string{
	"numbers": with(wrong, []string{
		`0`, `-0`, `-1`, `2`, `3`, `7`, `10`, `-10`, `63`, `64`, `100`, `999`, `1000`, `1001`, `0.5`, `-0.5`, `1.5`, `-1.5`, `2.5`, `1.0`,
		`1.10`, `10.0`, `100.0`, `0.1`, `0.2`, `0.3`, `1e3`, `1E3`, `1e-3`, `1e20`, `1e21`, `1.5e300`, `1e-300`, `123456789.123456789`,
		`2147483648`, `4294967296`, `9007199254740991`, `9007199254740993`, `9223372036854775807`, `-9223372036854775808`,
		`9223372036854775808`, `18446744073709551615`, `18446744073709551616`, `36893488147419103233`, `99999999999999999999.5`,
		`12345678901234567890.25`, `123456789012345678901234567890`, `1.7976931348623157e308`,
	}),
	"small": with(wrong, []string{
		`0`, `-1`, `2`, `3`, `5`, `-7`, `16`, `64`, `70`, `1.0`, `1.5`, `1e1`, `100`, `1001`,
	}),
	"bases": with(wrong, []string{`2`, `8`, `10`, `16`, `10.0`, `3`, `0`, `-2`, `36`}),
	"strings": with(wrong, []string{
		`""`, `" "`, `"a"`, `"A"`, `"b"`, `"ab"`, `"abc"`, `"aab"`, `"aaaa"`, `"ABC"`, `"a.b.c"`, `"."`, `"a,b,,c"`, `","`, `"  a b\t"`, `"\n"`,
		`"a\nb"`, `"é"`, `"e\u0301"`, `"É"`, `"日本語"`, `"本"`, `"😀a😀"`, `"ß"`, `"İ"`, `"ı"`, `"ǅ"`, `"\u0000"`, `"\ufffd"`, `"\ufeffa"`, `"\u2028"`, `"10"`, `"-1.5e3"`, `"0x10"`, `"<&>\"'\\"`, `"a%20b+c"`,
		`base64.decode("gA==")`, `base64.decode("/w==")`, `base64.decode("YYD/Yg==")`, `base64.decode("w6k=")`, `base64.decode("ww==")`, `base64.decode("qQ==")`,
	}),
	"encoded": with(wrong, []string{
		`""`, `"YQ=="`, `"YQ"`, `"YWI="`, `"YWJj"`, `"gA=="`, `"/w=="`, `"_w=="`, `"_w"`, `"+/+/"`, `"-_-_"`, `"Y Q=="`, `"YQ=\n="`, `"YQ==YQ=="`, `"Y"`, `"===="`, `"YR=="`,
		`"80ff"`, `"80FF"`, `"8"`, `"zz"`, `"c3a9"`, `"%zz"`, `"%80"`, `"%C3%A9"`, `"a%"`, `"a+b"`, `"a%2Bb%20"`, `"é"`, `base64.decode("gA==")`,
		`"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----"`, `"-----BEGIN X-----\n-----END X-----"`,
	}),
	"lists": with(wrong, []string{
		`[]`, `[""]`, `["a"]`, `["a", "b"]`, `["b", "a"]`, `["", "", ""]`, `["é", "日本"]`, `[1]`, `[1, 2]`, `[1, 1.0]`, `[1.5]`, `[1e3]`, `[1.0]`, `[12345678901234567890]`, `[1e300]`, `[-1]`, `[true, false]`, `[true]`, `[null]`, `[[], {}]`,
		`[set()]`, `[{1, 2}]`, `[{"a": [1]}]`, `["a", 1]`, `[1, "a"]`, `[9223372036854775807, 1]`, `[0.1, 0.2]`, `["a", "b", "c", "d"]`, `set()`, `{"a", "b"}`, `{1, 2.5}`, `{"b", "a", 1}`,
		`[base64.decode("gA==")]`, `[base64.decode("gA=="), "a"]`, `{base64.decode("/w=="), "é"}`, `{}`, `[["a", 1], ["b"]]`,
	}),
	"sets": with(wrong, []string{
		`set()`, `{1}`, `{1.0}`, `{1, 2}`, `{2, 3}`, `{"a"}`, `{"a", 1}`, `{null}`, `{true, false}`, `{[1]}`, `{{"a": 1}}`, `{{1}, {2}}`, `{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}`, `{1e0}`, `{10}`, `{0.5}`, `{"é"}`, `[1]`, `{}`,
	}),
	"setsofsets": with(wrong, []string{
		`set()`, `{set()}`, `{{1}, {1, 2}}`, `{{1}, {2}}`, `{{1.0, 2}, {1}}`, `{{"a", "b"}, {"b", "c"}, {"b"}}`, `{1}`, `{{1}, 1}`, `[]`,
	}),
	"collections": with(wrong, []string{
		`""`, `"abc"`, `"é"`, `[]`, `[1, 2, 3]`, `[3, 1, 2]`, `[2, 3]`, `[1, 1]`, `[[1], [2]]`, `["a", "b"]`, `[null, true, 1, "a", [], {}, set()]`, `{}`, `{"a": 1}`, `{"a": 1, "b": {"c": 2, "d": 3}}`, `{"b": {"c": 2}}`, `{"b": {"c": 2.0}}`, `{"a": {"c"}}`,
		`{1: 2}`, `set()`, `{1, 2}`, `{1, 2, 3}`, `{1.5, 0.5}`, `{"a", "b"}`, `{{1}, {2}}`, `[1.0, 1]`, `[1e3, 2]`, `[0.1, 0.2, 0.3]`, `[9223372036854775807, 1]`, `[1, "a"]`, `[true, true]`, `[true, false]`, `{"x": [1, {"y": {2}}]}`, `[100000000000000000000, 1]`, `[base64.decode("gA==")]`,
	}),
	"objects": with(wrong, []string{
		`{}`, `{"a": 1}`, `{"a": 1.0}`, `{"a": 2}`, `{"a": null}`, `{"a": "x", "b": "y"}`, `{"a": ["x", "y"]}`, `{"a": {"x", "y"}}`, `{"a": {"b": 1}}`, `{"a": {"b": {"c": 1}}}`, `{"a": {"c": 2}}`, `{"a": [1, {"b": 2}]}`, `{"a/b": 1, "~": 2}`, `{"": 0}`, `{1: "x"}`, `{1.0: "y"}`,
		`{[1]: 2}`, `{{1}: 2}`, `{null: 1}`, `{true: 1}`, `{"é": "ü"}`, `{"b": [], "a": {}}`, `{"a": [[1, 2], [3]]}`, `{"a b": "c&d=e"}`, `{"a": "<é>"}`, `{"i": 10, "s": "z", "l": [1, 2], "o": {"k": "v"}}`, `[1, [2, 3]]`, `{base64.decode("gA=="): 1}`, `{"a": base64.decode("gA==")}`,
	}),
	"objectlists": with(wrong, []string{
		`[]`, `[{}]`, `[{"a": 1}, {"b": 2}]`, `[{"a": 1}, {"a": 2}]`, `[{"a": {"b": 1}}, {"a": {"c": 2}}]`, `[{"a": {"b": 1}}, {"a": 3}, {"a": {"d": 1}}]`, `[{"a": 1}, 1]`, `[{1: 1}, {1.0: 2}]`,
	}),
	"keys": with(wrong, []string{
		`[]`, `["a"]`, `["a", "b"]`, `[1]`, `[1.0]`, `{"a"}`, `{"a", 1}`, `set()`, `{"a": "b"}`, `{}`, `[[1]]`, `[null]`, `{1: 2}`, `["é", ""]`, `[{1}]`, `[true]`,
	}),
	"pointer": with(wrong, []string{`"a"`, `"b"`, `[]`, `["a"]`, `["a", "b"]`, `["a", "b", "c"]`, `["a", 1]`, `["a", 1, "b"]`, `["a", "x"]`, `[1]`, `1.0`, `[1, 1]`, `""`, `["a", 1.0]`, `["a", -1]`}),
	"pointers": with(wrong, []string{
		`[]`, `["a"]`, `["a/b"]`, `["/a"]`, `["a", "a/b"]`, `["a/0"]`, `["a/1/b"]`, `["a~1b"]`, `["~0"]`, `[""]`, `[["a", "b"]]`, `[["a", 1]]`, `[["a", "1", "b"]]`, `{"a"}`, `set()`, `[[]]`, `["x/y"]`, `[1]`, `[["a"], "b"]`, `["1"]`, `[["a", 0, 1]]`, `["a//b"]`, `["é"]`,
	}),
	"patches": with(wrong, []string{
		`[]`, `[{"op": "add", "path": "/a", "value": 9}]`, `[{"op": "add", "path": "/b", "value": 9}]`, `[{"op": "add", "path": "/a/b", "value": 9}]`, `[{"op": "add", "path": "/a/-", "value": 9}]`, `[{"op": "add", "path": "/a/0", "value": 9}]`, `[{"op": "add", "path": "/a/1", "value": 9}]`,
		`[{"op": "remove", "path": "/a"}]`, `[{"op": "remove", "path": "/a/0"}]`, `[{"op": "remove", "path": "/x"}]`, `[{"op": "replace", "path": "/a", "value": {"n": 1}}]`, `[{"op": "replace", "path": "/x", "value": 1}]`, `[{"op": "move", "from": "/a", "path": "/z"}]`, `[{"op": "copy", "from": "/a", "path": "/z"}]`, `[{"op": "test", "path": "/a", "value": 1}]`,
		`[{"op": "test", "path": "/a", "value": 1.0}]`, `[{"op": "add", "path": ["a"], "value": 1}]`, `[{"op": "add", "path": ["a", "b"], "value": 1}]`, `[{"op": "add", "path": "", "value": 1}]`, `[{"op": "nop", "path": "/a"}]`, `[{"op": "add", "path": "/a"}]`, `[{"path": "/a"}]`, `[{"op": "add", "path": "/a~1b", "value": 3}]`, `[{"op": "add", "path": "/a/x", "value": 3}]`, `[{"op": "add", "path": "/a", "value": {1}}]`,
	}),
	"documents": with(wrong, []string{
		`""`, `"null"`, `"1"`, `"1.0"`, `"1e3"`, `"-0"`, `"01"`, `"[1,2"`, `"[1,2]"`, `"{\"a\": 1, \"a\": 2}"`, `"{\"b\": 1, \"a\": [true, null]}"`, `"a: 1"`, `"a: b: c"`, `"- a\n- b"`, `"a: |\n  x\n  y\n"`, `"a: &x 1\nb: *x"`, `"yes"`, `"on: off"`, `"0x1f"`, `"0o17"`, `"017"`, `"1_000"`, `"~"`, `".inf"`, `".nan"`, `"2001-01-01"`, `"!!str 1"`, `"\"\\u00e9\\ud83d\\ude00\""`, `"\"\\ud83d\""`, `"'a''b'"`,
		`"12345678901234567890"`, `"1e400"`, `"225179981368524.62"`, `"a: 225179981368524.62"`, `"---\na: 1\n---\nb: 2"`, `"1 2"`, `"{} {}"`, `" \t\n"`, `"\ufeff1"`, `"a:\n\tb: 1"`, `"{a: [1, {b: c}]}"`, `"? a\n: b"`, `"a: 1 # c"`, `"true"`, `"True"`, `"TRUE"`, `"tRue"`, `base64.decode("gA==")`, `"\"\u007f\""`, `"nul"`, `"[1,]"`, `"a: \u0085b"`,
	}),
	"documented": with(wrong, []string{`{}`, `{"a": 1}`, `{"a": "x"}`, `{"a": 1.5, "b": null}`, `[]`, `[1, 2]`, `[1, 1]`, `"{\"a\": 1}"`, `"[1,"`, `""`, `"abcdef"`, `5`, `5.0`, `-3`, `100`, `{"a": {"b": [1, "2"]}}`, `"2020-01-01"`, `"a@b.c"`, `"10.0.0.1"`}),
	"schemas": with(wrong, []string{
		`{}`, `{"type": "object"}`, `{"type": "string"}`, `{"type": ["string", "null"]}`, `{"type": "integer"}`, `{"type": "number", "minimum": 2}`, `{"type": "number", "exclusiveMaximum": 5}`, `{"maximum": 5, "multipleOf": 2.5}`, `{"required": ["a"]}`, `{"properties": {"a": {"type": "string"}}}`, `{"properties": {"a": {"type": "integer"}}, "additionalProperties": false}`, `{"minLength": 3}`, `{"maxLength": 3}`, `{"pattern": "^a"}`,
		`{"enum": [1, "x", {"a": 1}]}`, `{"const": {"a": 1}}`, `{"items": {"type": "integer"}}`, `{"uniqueItems": true}`, `{"minItems": 1, "maxItems": 1}`, `{"anyOf": [{"type": "string"}, {"type": "null"}]}`, `{"allOf": [{"type": "string"}, {"minLength": 2}]}`, `{"oneOf": [{"type": "integer"}, {"type": "number"}]}`, `{"not": {"type": "object"}}`, `{"format": "date"}`, `{"format": "email"}`, `{"format": "ipv4"}`,
		`{"type": "nope"}`, `{"$ref": "#/definitions/x", "definitions": {"x": {"type": "string"}}}`, `{"patternProperties": {"^a": {"type": "string"}}}`, `{"minProperties": 2}`, `{"dependencies": {"a": ["b"]}}`, `"{\"type\": \"object\"}"`, `"{"`, `{"type": 1}`, `{"required": "a"}`, `{"pattern": "("}`,
	}),
	"networks": with(wrong, []string{
		`""`, `"0.0.0.0/0"`, `"10.0.0.0/8"`, `"10.0.0.0/30"`, `"10.0.0.1/30"`, `"10.0.0.4/30"`, `"10.0.0.1"`, `"10.0.0.1/32"`, `"10.0.0.0/33"`, `"10.0.0.256"`, `"010.0.0.1"`, `"10.0.0"`, `"192.168.1.0/24"`, `"192.168.1.255"`, `"::/0"`, `"::1"`, `"::1/128"`, `"2001:db8::/126"`, `"2001:db8::1"`, `"2001:DB8:0:0::2/127"`, `"::ffff:10.0.0.1"`, `"::ffff:10.0.0.0/104"`, `"fe80::1%eth0"`, `"1::2::3"`, `"10.0.0.0/08"`, `" 10.0.0.1"`, `"10.0.0.0/-1"`,
	}),
	"smallnetworks": with(wrong, []string{`""`, `"10.0.0.1"`, `"10.0.0.1/32"`, `"10.0.0.1/30"`, `"10.0.0.0/29"`, `"10.0.0.0/33"`, `"2001:db8::/126"`, `"::ffff:10.0.0.0/127"`, `"::1/128"`, `"x"`}),
	"networklists": with(wrong, []string{
		`[]`, `["10.0.0.0/8"]`, `["10.0.0.0/9", "10.128.0.0/9"]`, `["10.0.0.0/25", "10.0.0.128/25", "10.0.1.0/24"]`, `["192.0.2.0/24", "10.0.0.1"]`, `{"10.0.0.0/8", "11.0.0.0/8"}`, `["::1", "::2", "::3"]`, `["2001:db8::/33", "2001:db8:8000::/33"]`, `"10.0.0.0/8"`, `"10.1.2.3"`, `{"a": "10.0.0.0/8", "b": "10.1.0.0/16"}`, `[["10.0.0.0/8", "x"], ["11.0.0.0/8", "y"]]`, `["nope"]`, `[1]`, `set()`, `["10.0.0.1", "10.0.0.1"]`,
	}),
	"graphs": with(wrong, []string{
		`{}`, `{"a": ["b"], "b": ["c"], "c": []}`, `{"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}`, `{"a": {"b"}, "b": {"a"}}`, `{"a": ["a"]}`, `{"a": null, "b": ["a"]}`, `{"a": ["x"]}`, `{"a": "b", "b": []}`, `{1: [2], 2: [1.0]}`, `{"a": [], "b": []}`,
	}),
	"globs": with(wrong, []string{
		`""`, `"*"`, `"**"`, `"?"`, `"??"`, `"?*"`, `"*?"`, `"a"`, `"a*"`, `"*a"`, `"*a*"`, `"a*b"`, `"*.b"`, `"a.*"`, `"*.*"`, `"**.b"`, `"[ab]"`, `"[!a]"`, `"[a-c]*"`, `"[!a-c]"`, `"[]"`, `"[a"`, `"{a,b}"`, `"{a*,b}.*"`, `"{a,}"`, `"{a"`, `"{ab,a}c"`, `"a\\*"`, `"\\"`, `"é"`, `"é*"`, `"*é"`, `"?é"`, `"{a,b}é"`, `"**[!a]??"`, `"a/**/b"`, `"a/*/b"`, `"*/*"`, `"{*,b}/c"`, `"[!a]*"`, `"a??"`, `"*[ab]"`, `"**a"`, `"a**"`,
	}),
	"delimiters": {`null`, `[]`, `["."]`, `["/"]`, `[".", "/"]`, `["é"]`, `["ab"]`, `[""]`, `[1]`, `"."`},
	"paths": with(wrong, []string{
		`""`, `"a"`, `"b"`, `"c"`, `"ab"`, `"abc"`, `"a.b"`, `"a.b.c"`, `".b"`, `"a."`, `"a/b"`, `"a/b/c"`, `"a/x/b"`, `"a/x/y/b"`, `"/"`, `"aa."`, `"aab"`, `"é"`, `"aé"`, `"bé"`, `"cé"`, `"a*"`, `"\\"`, `"aac"`, `"日本"`, `"a.é"`,
	}),
	"globpatterns": with(wrong, []string{`""`, `"a"`, `"a*"`, `".*"`, `"[a-c]"`, `"[a-c]+"`, `"[^a]"`, `"a.b"`, `"a+b*"`, `"[bc]*"`, `"a*[a-c]"`, `"\\d"`, `"\\*"`, `"[0-9a-z]+x"`, `"ab|c"`, `"("`, `"["`, `"é"`, `"a?"`, `"x.*y"`}),
	"patterns": with(wrong, []string{
		`""`, `"a"`, `"^a"`, `"a$"`, `"^$"`, `"a*"`, `"a+?"`, `"(a)(b)?"`, `"(?P<n>a)|b"`, `"[a-c]+"`, `"[^a]"`, `"\\d+"`, `"\\w"`, `"\\s"`, `"\\b"`, `"(?i)A"`, `"(?s)."`, `"(?m)^b$"`, `"."`, `"a|ab"`, `"(a|ab)(c|bcd)"`, `"x*"`, `"("`, `"["`, `"a{2}"`, `"a{1001}"`, `"\\p{L}"`, `"\\pZ"`, `"\\p{Greek}"`, `"[[:alpha:]]"`, `"\\Qa.b\\E"`, `"a**"`, `"(?<n>a)"`, `"\\x{e9}"`, `"é"`, `"[é-ü]"`, `"\\C"`, `"(?=a)"`, `"\\1"`, `"\\z"`, `"(?U)a+"`, `","`, `"\\."`,
	}),
	"subjects":     with(wrong, []string{`""`, `"a"`, `"b"`, `"ab"`, `"aab"`, `"abcd"`, `"a.b"`, `"a,b,,c"`, `"a\nb\n"`, `"A1 b2"`, `"é"`, `"éa日本"`, `"αβγ"`, `"😀"`, `"aaaa"`, `" "`, `"_"`, `"\u2028"`, `base64.decode("gA==")`, `base64.decode("YYBh")`, `"urn:a:b"`, `"a{b}"`}),
	"replacements": with(wrong, []string{`""`, `"x"`, `"$0"`, `"$1"`, `"${1}x"`, `"$1x"`, `"$n"`, `"$$"`, `"$"`, `"é$0"`, `"${"`}),
	// OPA keeps what it compiles under the text of the pattern alone, whatever the delimiters are and
	// whether it is a template: none of these may occur with others, or in "patterns".
	"templates": with(wrong, []string{`"tt"`, `"{a}"`, `"urn:{.*}:b"`, `"urn:{[a-z]}:{b|c}"`, `"{"`, `"}"`, `"a{{b}}"`, `"{(}"`, `"t.b"`, `"a<b>"`, `"{a{2}}"`, `"{a}{b}"`, `"{[é-ü]}"`}),
	"opening":   {`"{"`, `""`, `"{{"`, `1`},
	"closing":   {`"}"`, `""`, `"é"`, `null`},
	"versions": with(wrong, []string{
		`""`, `"1"`, `"1.0"`, `"1.0.0"`, `"v1.0.0"`, `"1.0.0-alpha"`, `"1.0.0-alpha.1"`, `"1.0.0-alpha.beta"`, `"1.0.0-beta.2"`, `"1.0.0-beta.11"`, `"1.0.0-rc.1"`, `"1.0.0+build"`, `"1.0.0+b.2"`, `"1.0.0-a+b"`, `"01.0.0"`, `"1.0.0-01"`, `"1.2.3"`, `"1.10.0"`, `"1.9.9"`, `"10.0.0"`, `"1.0.0-"`, `"1.0.0-a..b"`, `"9223372036854775807.0.0"`, `"9223372036854775808.0.0"`, `"1.0.0-é"`, `" 1.0.0"`, `"1.0.0-1"`, `"1.0.0-A"`,
	}),
	"formats": with(wrong, []string{
		`""`, `"x"`, `"%v"`, `"%s"`, `"%d"`, `"%q"`, `"%x"`, `"%X"`, `"%o"`, `"%b"`, `"%c"`, `"%U"`, `"%e"`, `"%f"`, `"%.2f"`, `"%8.3f|"`, `"%g"`, `"%G"`, `"%t"`, `"%T"`, `"%p"`, `"%%"`, `"%"`, `"%z"`, `"%5v|"`, `"%-5v|"`, `"%05d"`, `"%+d"`, `"% d"`, `"%#v"`, `"%+v"`, `"%#x"`, `"%.1s"`, `"%v %v"`, `"%[2]v %[1]v"`, `"%[3]v"`, `"%*d"`, `"%.*f"`, `"é%v"`, `"%s-%d"`, `"%.3v"`, `"%6q"`, `"% x"`, `"%+q"`, `"%#q"`, `"%010.3f"`, `"%w"`, `"%!"`,
	}),
	"gotemplates": with(wrong, []string{`""`, `"x"`, `"{{.a}}"`, `"{{.missing}}"`, `"{{range .a}}{{.}},{{end}}"`, `"{{if .a}}y{{else}}n{{end}}"`, `"{{.a.b}}"`, `"{{len .a}}"`, `"{{printf \"%v-%s\" .a .s}}"`, `"{{"`, `"{{index .l 0}}"`, `"{{.i | printf \"%d\"}}"`, `"{{with .o}}{{.k}}{{end}}"`, `"{{eq .s \"z\"}}"`, `"{{html .a}}"`, `"{{. }}"`, `"{{upper .s}}"`, `"{{range $k, $v := .}}{{$k}}={{$v}};{{end}}"`, `"{{urlquery .s}}"`, `"{{js .a}}"`}),
	"replacers":   with(wrong, []string{`{}`, `{"a": "b"}`, `{"a": "b", "b": "a"}`, `{"ab": "x", "a": "y"}`, `{"": "-"}`, `{"a": ""}`, `{"é": "e"}`, `{"a": 1}`, `{1: "a"}`, `{"aa": "b", "a": "c"}`, `{"b": "bb", "": "."}`}),
	"times": with(wrong, []string{
		`0`, `1`, `-1`, `1e9`, `1.5`, `1577836800000000000`, `1582934400000000000`, `1711846800000000000`, `1790000000123456789`, `-62135596800000000000`, `9223372036854775807`, `-9223372036854775808`, `9223372036854775808`, `[0, "UTC"]`, `[0, ""]`, `[1711846800000000000, "Europe/Berlin"]`, `[1711846800000000000, "America/New_York"]`, `[1582934400000000000, "Asia/Kolkata"]`, `[0, "Nowhere/Land"]`, `[0, "Local"]`, `[0, "UTC", "RFC1123"]`, `[1790000000123456789, "UTC", "2006-01-02T15:04:05.999999999Z07:00"]`,
		`[1790000000123456789, "Asia/Tokyo", "RFC3339Nano"]`, `[0, "UTC", "Kitchen"]`, `[0, "UTC", "Mon Jan _2"]`, `[0]`, `[]`, `["a"]`, `[0, 1]`, `[1.5, "UTC"]`, `-1000000000000000000`,
	}),
	"durations": with(wrong, []string{`""`, `"0"`, `"1"`, `"1s"`, `"-1.5h"`, `"1h30m"`, `"100ns"`, `"1us"`, `"1µs"`, `"1μs"`, `"1d"`, `".5s"`, `"1."`, `"1.s"`, `"."`, `"+5s"`, `"9223372036854775807ns"`, `"9223372036854775808ns"`, `"2562047h47m16.854775807s"`, `"1h1h"`, `" 1s"`}),
	"layouts":   with(wrong, []string{`"2006-01-02"`, `"RFC3339"`, `"RFC822"`, `"RFC1123Z"`, `"ANSIC"`, `"Kitchen"`, `"2006-01-02T15:04:05Z07:00"`, `"Jan _2 2006"`, `"02/01/06 3PM"`, `""`, `"x"`, `"2006-01-02 15:04:05.000 -0700 MST"`}),
	"instants": with(wrong, []string{
		`""`, `"2020-02-29"`, `"2021-02-29"`, `"2020-01-01T00:00:00Z"`, `"2020-01-01T00:00:00+05:30"`, `"2020-01-01T00:00:00.123456789Z"`, `"2020-01-01T24:00:00Z"`, `"2020-01-01T23:59:60Z"`, `"2020-01-01 00:00:00Z"`, `"2020-1-1T00:00:00Z"`, `"1677-09-21T00:12:43Z"`, `"1677-09-21T00:12:44Z"`, `"2262-04-11T23:47:16Z"`, `"2262-04-11T23:47:17Z"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`, `"2020-01-01T00:00:00z"`, `"02 Jan 06 15:04 MST"`, `"Mon, 02 Jan 2006 15:04:05 -0700"`, `"3:04PM"`, `"Mon Jan  2 15:04:05 2006"`, `"2020-01-01T00:00:00,5Z"`, `"2020-01-01T00:00:00-00:00"`, `"Jan  5 2020"`, `"05/06/20 3PM"`, `"2020-01-01 10:00:00.123 +0100 CET"`,
	}),
	"amounts": with(wrong, []string{
		`""`, `"0"`, `"1"`, `"1.5"`, `"1k"`, `"1K"`, `"1Ki"`, `"1KB"`, `"1KiB"`, `"1m"`, `"100m"`, `"1M"`, `"1Mi"`, `"1MB"`, `"1MiB"`, `"2G"`, `"2Gi"`, `"3T"`, `"3Ti"`, `"4P"`, `"5E"`, `"5Ei"`, `"1e3"`, `"1E3"`, `"-1"`, `"-1.5Gi"`, `"1 Gi"`, `" 1"`, `"\"1k\""`, `"1x"`, `"k"`, `"."`, `"1."`, `".5"`, `"0.1Ki"`, `"0x10"`, `"1_000"`, `"9223372036854775807"`, `"1e400"`, `"1b"`, `"1B"`, `"0.000000001"`, `"1kib"`, `"1u"`, `"1n"`, `"1.5.2"`, `"١"`, `"8Ei"`, `"-0"`,
	}),
	"urls": with(wrong, []string{
		`""`, `"http://a.b/c?d=e#f"`, `"http://u:p@a.b:8080/x"`, `"http://[::1]:80/"`, `"http://[fe80::1%25en0]/"`, `"mailto:a@b"`, `"//a/b"`, `"/a/b"`, `"a/b"`, `"a:b"`, `":a"`, `"http://a b/"`, `"http://a/%zz"`, `"http://a/%2F"`, `"http://a/b c"`, `"HTTP://A.B"`, `"http://a:b/"`, `"?a=1&b=2&a=3"`, `"a=1&b=2&a=3"`, `"a=%20+&%C3%A9=1"`, `"a;b"`, `"a=%zz"`, `"a&b=&=c"`, `"http://é.x/é"`, `"http://a/\u007f"`, `"file:///a/b"`, `"http://a?"`, `"http://a#"`, `"http://a#%zz"`, `"a=%80"`, `"1http://a"`, `"http://a@b@c/"`, `"x:"`, `"http://a/b;c=d"`, `"http://a.b:"`, `"*"`, `"http://[::1"`,
	}),
	"uuids":  with(wrong, []string{`""`, `"00000000-0000-0000-0000-000000000000"`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, `"6BA7B810-9DAD-11D1-80B4-00C04FD430C8"`, `"urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"`, `"{6ba7b810-9dad-11d1-80b4-00c04fd430c8}"`, `"6ba7b8109dad11d180b400c04fd430c8"`, `"123e4567-e89b-42d3-a456-426614174000"`, `"018f4e6a-1b2c-7d3e-8f4a-5b6c7d8e9f00"`, `"6ba7b810-9dad-21d1-80b4-00c04fd430c8"`, `"6ba7b810-9dad-11d1-80b4-00c04fd430c"`, `"zba7b810-9dad-11d1-80b4-00c04fd430c8"`, `"6ba7b810-9dad-11d1-c0b4-00c04fd430c8"`, `"6ba7b810-9dad-11d1-e0b4-00c04fd430c8"`, `"1ec9414c-232a-6b00-b3c8-9e6bdeced846"`}),
	"tokens": with(wrong, []string{`""`, `"a.b.c"`, `"eyJhbGciOiJIUzI1NiJ9.e30.x"`, `"eyJhbGciOiJIUzI1NiJ9.e30"`, `"eyJhbGciOiJub25lIn0.eyJhIjoxfQ."`, `"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxIiwiZXhwIjoxZTMsImEiOlsxLDIuNV19.AAAA"`, `"eyJ.e30.x"`, `"W10.W10.W10"`, `"...."`, `"eyJhbGciOiJIUzI1NiJ9.gA.AA"`}),
	"mixed": with(wrong, []string{
		`0`, `-1`, `1.0`, `1.5`, `1e3`, `10`, `12345678901234567890`, `0.1`, `""`, `"a"`, `"A"`, `"é"`, `"1"`, `"1.5"`, `" 1"`, `"0x1"`, `"1e3"`, `"-0"`, `"inf"`, `"true"`, `"a\nb"`, `"a: b"`, `"- x"`, `"\ufeffa"`, `"\u2028"`, `"<&>"`, `"null"`, `"yes"`, `"|"`, `"# c"`, `" a"`, `"\t"`, `false`, `[]`, `[1, "a"]`, `[[]]`, `{}`, `{"a": [1, {"b": null}]}`, `{"a\nb": 1}`, `{"x": "a\nb\n"}`, `{"x": "a\n\nb"}`, `{1: 2}`,
		`{[1]: {2}}`, `set()`, `{1, "a"}`, `{{1}}`, `base64.decode("gA==")`, `[1.0, 1e2]`, `{"n": 1e21, "m": 0.1, "k": 1.0}`, `"+5"`, `".5"`, `"007"`, `"5."`, `"1_0"`, `"NaN"`, `"9223372036854775808"`,
	}),
}
