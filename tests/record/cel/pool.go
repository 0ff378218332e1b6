package main

// object is what every expression may read as `object`: values as they come from JSON.
const object = `{"n": 5, "neg": -1, "zero": 0, "f": 2.5, "whole": 3.0, "huge": 1e30, "b": true, "no": false,
 "nul": null, "s": "abc", "e": "", "q": "1Gi", "when": "2024-02-29T23:59:59Z", "d": "90s",
 "l": [1, 2, 3], "mixed": [1, "a", null, {"a": 1}, [2]], "none": [], "words": ["a", "b", "a"], "fs": [1.5, 1.0],
 "m": {"a": "x", "b": {"c": [true, null]}}, "empty": {}, "one": {"k": 1}, "nums": {"1": "one", "true": "yes"}}`

// pool holds values of each type, as CEL writes them.
var pool = map[string][]string{
	"bool": {"true", "false"},
	"int": {
		"0", "1", "-1", "2", "3", "5", "9", "10", "63", "64", "255", "256", "999", "1000", "65536", "-2147483649",
		"9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808", "9223372036854775806",
		"1700000000", "-62135596800", "-62135596801", "253402300799", "253402300800",
	},
	"uint": {
		"0u", "1u", "2u", "3u", "10u", "9007199254740993u", "9223372036854775807u", "9223372036854775808u",
		"18446744073709551615u",
	},
	"double": {
		"0.0", "-0.0", "1.0", "-1.0", "0.5", "1.5", "2.0", "2.5", "0.1", "0.3", "1e100", "-1e100", "1e20", "1e21",
		"1e-7", "5e-324", "1.7976931348623157e308", "9007199254740992.0", "9007199254740993.0",
		"9223372036854775807.0", "9223372036854774784.0", "-9223372036854775808.0", "-9223372036854777856.0",
		"18446744073709551615.0", "18446744073709549568.0", "900719925474099.25", "225179981368524.62",
		"4503599627370497.5", "5e-7", "123456789.125", "double('NaN')", "double('Infinity')", "double('-Infinity')",
	},
	"string": {
		"''", "'a'", "'b'", "'ab'", "'abc'", "'A'", "'aAbB'", "' a '", "'\\u00a0a\\u3000'", "'é'", "'e\\u0301'", "'日本語'",
		"'\\U0001F600'", "'a\\u0000b'", "'\\n'", "'a.b'", "'a-b'", "'1'", "'-1'", "'0'", "'1.0'", "'true'", "'null'",
		"'abcabcabc'", "'aaaa'", "'\\ufeffx'", "'\\\\'", "'\"'", "'a,b,c'", "','", "',,'", "'x'.replace('x', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy')",
		"'ſ'", "'K'", "'İ'", "'1Gi'", "'2024-01-01T00:00:00Z'", "'1h'", "'10.0.0.1'", "'1.2.3'",
	},
	"bytes": {"b''", "b'a'", "b'b'", "b'ab'", "b'\\xff'", "b'\\x00'", "b'abc'", "b'\\xc3\\xa9'", "b'\\xc3'"},
	"google.protobuf.Timestamp": {
		"timestamp(0)", "timestamp('1970-01-01T00:00:00Z')", "timestamp('2024-02-29T23:59:59.999999999Z')",
		"timestamp('2024-03-01T01:59:59.999999999+02:00')", "timestamp('0001-01-01T00:00:00Z')",
		"timestamp('9999-12-31T23:59:59.999999999Z')", "timestamp('1969-12-31T23:59:59.5Z')",
		"timestamp('2023-03-26T01:00:00Z')", "timestamp('2023-10-29T00:59:59Z')", "timestamp('1900-01-01T00:00:00Z')",
		"timestamp('2038-01-19T03:14:08Z')", "timestamp('2024-12-31T23:30:00-01:00')",
		"timestamp('1677-09-21T00:12:43.145224192Z')", "timestamp('1677-09-21T00:12:43.145224191Z')",
		"timestamp('2262-04-11T23:47:16.854775807Z')", "timestamp('2262-04-11T23:47:16.854775808Z')",
	},
	"google.protobuf.Duration": {
		"duration('0s')", "duration('1s')", "duration('-1s')", "duration('60s')", "duration('1m')", "duration('90m')",
		"duration('1h30m')", "duration('1.5s')", "duration('1ns')", "duration('-1ns')", "duration('1us')", "duration('1ms')",
		"duration('2562047h47m16.854775807s')", "duration('-2562047h47m16.854775808s')", "duration('24h')",
		"duration('0.1s')", "duration('100000h')", "duration('-90.000000001s')",
	},
	"null_type": {"null"},
	"type":      {"int", "string", "type(1)", "type(int)", "list", "map", "null_type", "type(optional.none())", "google.protobuf.Timestamp", "type(quantity('1'))"},
	"list": {
		"[]", "[1]", "[1, 2]", "[2, 1]", "[1, 1]", "[3, 1, 2]", "['a']", "['b', 'a']", "['a', 'a']", "[true, false]", "[null]",
		"[[1], [2]]", "[[], [1]]", "[{'a': 1}]", "[1.5, 1.0]", "[1u]", "[b'a']", "[dyn(1), dyn('a')]", "[dyn(1), dyn(1.0), dyn(1u)]",
		"[dyn(null), dyn(1)]", "[dyn('a'), dyn(1)]", "[double('NaN')]", "[duration('1s'), duration('1ms')]",
		"[timestamp(1), timestamp(0)]", "[optional.of(1), optional.none()]", "[quantity('1'), quantity('1000m')]", "[[[1]], [[2]]]",
		"object.l", "object.mixed", "object.none", "object.words", "object.fs", "lists.range(3)",
	},
	"map": {
		"{}", "{'a': 1}", "{'a': 2}", "{'a': 1.0}", "{1: 'a'}", "{1u: 'a'}", "{true: 'a'}", "{'a': [1]}", "{'a': {'b': 1}}",
		"{dyn(1.0): 'a'}", "{'a': null}", "{'': 1}", "object.m", "object.empty", "object.one",
	},
	"optional_type": {
		"optional.none()", "optional.of(1)", "optional.of('a')", "optional.of(null)", "optional.of(optional.none())", "optional.of([1])",
		"optional.of({'a': 1})", "optional.of(optional.of(1))", "optional.ofNonZeroValue(0)", "optional.ofNonZeroValue('a')", "{'a': 1}[?'a']", "{'a': 1}[?'b']",
		"object.?n", "object.?missing", "object.?m.?b.?c",
	},
	"kubernetes.Quantity":    wrap("quantity", texts["quantity"]),
	"kubernetes.Semver":      wrap("semver", texts["semver"]),
	"kubernetes.URL":         wrap("url", texts["url"]),
	"net.IP":                 wrap("ip", texts["ip"]),
	"net.CIDR":               wrap("cidr", texts["cidr"]),
	"kubernetes.NamedFormat": {"format.dns1123Label()", "format.dns1123Subdomain()", "format.dns1035Label()", "format.qualifiedName()", "format.dns1123LabelPrefix()", "format.dns1123SubdomainPrefix()", "format.dns1035LabelPrefix()", "format.labelValue()", "format.uri()", "format.uuid()", "format.byte()", "format.date()", "format.datetime()", "format.named('uuid').value()"},
}

// native holds values as they come from an object, by type.
var native = map[string][]string{
	"int": {"object.n", "object.neg", "object.zero"}, "double": {"object.f", "object.whole", "object.huge"},
	"bool": {"object.b", "object.no"}, "null_type": {"object.nul"},
	"string": {"object.s", "object.e", "object.q", "object.when", "object.d"},
	"list":   {"object.l", "object.mixed", "object.none", "object.words"}, "map": {"object.m", "object.empty", "object.nums"},
}

// texts holds strings that a function reads something from, by the function.
var texts = map[string][]string{
	"quantity": {
		"0", "1", "-1", "1000m", "1k", "1000", "1e3", "1E3", "1Ki", "1024", "1Mi", "1048576", "1M", "1000000", "1Gi", "1073741824",
		"4Gi", "8Gi", "4294967296", "5Gi", "9", "5", "3.4", "3.5", "0.5", "500m", "0.1", "100m", "1.5Gi", "1610612736", "1n", "0.000000001",
		"0.0000000001", "1u", "6Ei", "9Ei", "8Ei", "7Ei", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9Ei",
		"1e30", "1e-30", "12345678901234567890", "0.123456789123", "1.0", "01", "+1", "1P", "1Pi", "1T", "1Ti", "340282366920938463463374607431768211456",
		"99999999999999999999999999999999999999999", "0Ki", "-0", "1E", "1e18", "3.4Gi", "3.4G", "-5Gi", "-8Gi", ".5", "5.", "1.000000000000000000001",
	},
	"notquantity": {"", "a", "1Kii", "1kI", "--1", "1e", "1e+3", "1e99999999", "1 ", " 1", "1_0", "0x1", "Gi", ".", "+", "1.2.3", "1ki", "1mi", "1K", "1e3Gi", "1Z", "١"},
	"semver": {
		"1.0.0", "0.0.0", "1.2.3", "1.2.10", "1.10.0", "2.0.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-1", "1.0.0-2", "1.0.0-10", "1.0.0-rc.1",
		"1.0.0+build", "1.0.0+other", "1.0.0-a+b", "1.0.0--", "1.0.0-0", "18446744073709551615.0.0", "9223372036854775808.1.2", "1.0.0-A",
	},
	"notsemver": {"", "1", "1.0", "v1.0.0", "v1", "01.0.0", "1.01.0", "1.0.0-", "1.0.0-01", "1.0.0+", "1.0.0-a..b", "a.b.c", "1.0.0.0", "v1.02.3", "1.0-a", "1.0.0-é", " 1.0.0", "18446744073709551616.0.0", "-1.0.0", "V1.0.0", "00.0.0"},
	"url": {
		"http://a", "https://example.com:80/", "https://example.com/path?x=1&x=2&y#frag", "http://[::1]:8080/a%20b", "/abs/path", "mailto:a@b.c", "http://user:pw@h/p",
		"HTTP://A", "http://a/b c", "http://a?b=%zz", "http://a?a=1;b=2", "http://a/%2f", "http://é.de/ü", "http://a:/", "http://a#", "http://a?", "//a/b", "http://a/b/../c",
		"file:///etc/x", "http://a/?q=+%2B", "urn:a:b", "http://%61/", "http:a", "http://a:80:80/", "*",
	},
	"noturl": {"", "a", "../x", "http://a b/", "http://[::1", "http://a:b/", ":a", "http://%zz/", "1http://a", "http://a\\u007f", "?x", "#x", "http://[1.2.3.4]/", "http://a%00b/", "http://[fe80::1%25en0]/"},
	"ip": {
		"0.0.0.0", "127.0.0.1", "10.0.0.1", "192.168.1.1", "224.0.0.1", "224.0.1.1", "169.254.1.1", "255.255.255.255", "8.8.8.8", "::", "::1", "fe80::1", "ff02::1", "ff05::2", "2001:db8::1", "2001:DB8::1", "2001:db8:0:0:0:0:0:1", "64:ff9b::1.2.3.4", "fc00::1", "::2", "1::",
	},
	"notip": {"", "a", "1.2.3", "1.2.3.4.5", "256.1.1.1", "01.2.3.4", "::ffff:1.2.3.4", "fe80::1%eth0", "::1::", "1.2.3.4/8", " 1.2.3.4", "1:2:3:4:5:6:7:8:9", "12345::", "::g", "1.2.3.-4", "[::1]", "0x7f.0.0.1", "::ffff:0:0"},
	"cidr": {
		"0.0.0.0/0", "10.0.0.0/8", "10.1.2.3/8", "192.168.0.0/16", "192.168.1.0/24", "127.0.0.1/32", "::/0", "2001:db8::/32", "2001:db8::1/128", "fe80::/10", "10.0.0.0/0", "1.2.3.4/31",
	},
	"notcidr":        {"", "a", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "::/129", "10.0.0.0/8/8", "::ffff:1.2.3.4/96", "fe80::1%a/64", "10.0.0.0/", "/8", "10.0.0/8", "10.0.0.0/+8"},
	"timestamp":      {"2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:60Z", "0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z", "2024-01-01", "2024-01-01T00:00:00", "2024-01-01t00:00:00z", "2024-01-01T00:00:00.1234567891Z", "2024-01-01T00:00:00,5Z", "2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00+23:59", "2024-01-01T00:00:00-00:00", "2024-1-1T0:0:0Z", "2024-01-01 00:00:00Z", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "", "0"},
	"duration":       {"1h", "1h30m", "1.5h", "-1h", "+1h", "1d", "1", "0", "", "s", "1 s", "1ms1us1ns", "1µs", "1μs", ".5s", "1.s", "1e3s", "9223372036854775807ns", "9223372036854775808ns", "-9223372036854775808ns", "2562047h48m", "1h-1m", "0.0000000001s", "１s"},
	"number":         {"0", "-0", "+0", "1", "+1", "-1", "01", "007", "1.0", "1.", ".1", "1e3", "1E3", "1e400", "-1e400", "1e-400", "0x10", "0x1p-2", "0X1P3", "0b1", "0o7", "1_0", "1__0", "_1", "1_", "0x_1p0", "inf", "Inf", "INF", "+inf", "-Infinity", "infinity", "nan", "NaN", "-nan", " 1", "1 ", "", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616", "1u", "１", "1e", "e1", "0x", "0x1", "0x1.8p1", "-0x1p-1074", "1.7976931348623159e308", "4.9e-324", "2.4703282292062327e-324", "9007199254740993", "0.1e1_0", "true"},
	"bool":           {"true", "false", "True", "TRUE", "tRUE", "t", "T", "1", "0", "f", "F", "False", "FALSE", "yes", "", " true", "01"},
	"zone":           {"UTC", "", "Local", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "+02:00", "-02:30", "02:00", "-00:30", "+14:00", "+99:99", "99:00", "1:2:3", ":", "a:b", "europe/berlin", "Etc/GMT+5", "Z", "+0200", "../UTC"},
	"regexp":         {"", "a", "^a", "a$", "^$", ".", ".*", "a+?", "(a)(b)?", "[a-c]+", "[^a]", "\\\\d+", "\\\\bab", "(?i)AB", "(?s).", "a{2}", "a{1001}", "(", "[", "a**", "\\\\p{Greek}", "(?P<n>a)", "\\\\1", "a|b|", "x*", "(?m)^b", "\\\\xff", "\\\\C", "[[:alpha:]]", "(?=a)", "\\\\z", "\\\\pL+", "(?U)a+"},
	"format":         {"%s", "%d", "%f", "%e", "%x", "%X", "%o", "%b", "%.2f", "%.0f", "%.3e", "%%", "%", "%s%s", "%5d", "%v", "%.s", "%.2d", "a%sb", "%.100f", "%.256f", "%.300f", "%.1000f", "%.1000000000000f", "%-s", "%", "%.2", "%s %d %f"},
	"name":           {"dns1123Label", "uuid", "uri", "byte", "nope", "", "dns1123label", "date", "datetime", "qualifiedName", "labelValue"},
	"validate":       {"a", "", "A", "a.b", "a-b", "-a", "a-", "a..b", ".a", "a/b", "a/b/c", "A_b", "/a", "a/", "1a", "a_b", "é", "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", "123e4567-e89b-12d3-a456-426614174000", "123E4567-E89B-12D3-A456-426614174000", "123e4567e89b12d3a456426614174000", "Zm9v", "Zm8=", "Zm8", "Zm9v\\n", "_-", "2024-02-29", "2023-02-29", "2024-2-1", "2024-02-29T00:00:00Z", "2024-02-29T00:00:00.5+01:00", "2024-02-29T00:00:00", "http://a", "/a", "a:b", "0", "a\\n"},
	"mostlystrings":  {"abc", "", "é"},
	"unusual string": {"\\u0007\\b\\f\\n\\r\\t\\u000b\\\\\\\"\\u0001\\u007f", "\\U0001F600é"},
}

// wanted says which texts the string arguments of a function are taken from, beside plain strings.
var wanted = map[string][]string{
	"quantity": {"quantity", "notquantity"}, "isQuantity": {"quantity", "notquantity"},
	"semver": {"semver", "notsemver"}, "isSemver": {"semver", "notsemver"},
	"url": {"url", "noturl"}, "isURL": {"url", "noturl"},
	"ip": {"ip", "notip"}, "isIP": {"ip", "notip"}, "ip.isCanonical": {"ip", "notip"}, "containsIP": {"ip", "notip"},
	"cidr": {"cidr", "notcidr"}, "isCIDR": {"cidr", "notcidr"}, "containsCIDR": {"cidr", "notcidr"},
	"timestamp": {"timestamp"}, "duration": {"duration"}, "int": {"number"}, "uint": {"number"}, "double": {"number"}, "bool": {"bool"},
	"getFullYear": {"zone"}, "getMonth": {"zone"}, "getDayOfYear": {"zone"}, "getDayOfMonth": {"zone"}, "getDate": {"zone"},
	"getDayOfWeek": {"zone"}, "getHours": {"zone"}, "getMinutes": {"zone"}, "getSeconds": {"zone"}, "getMilliseconds": {"zone"},
	"matches": {"regexp"}, "find": {"regexp"}, "findAll": {"regexp"}, "format": {"format"}, "format.named": {"name"},
	"validate": {"validate"}, "strings.quote": {"unusual string"},
}

func wrap(function string, values []string) []string {
	var calls []string
	for _, value := range values {
		calls = append(calls, function+"('"+value+"')")
	}
	return calls
}

func quoted(values []string) []string {
	var literals []string
	for _, value := range values {
		literals = append(literals, "'"+value+"'")
	}
	return literals
}
