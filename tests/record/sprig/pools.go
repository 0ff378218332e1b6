package main

// data is what every template sees.
const data = `{"text":"héllo Wörld","num":7,"f":1.5,"neg":-3,"big":12345678901234567890,"null":null,"yes":true,"empty":"",
"list":["a","b","a",""],"nums":[3,1,2,2,-1],"mixed":[0,1,"",null,"x",[],{},true,1.5],"texts":["B","a","10","9","é"],
"lists":[[1],[1,2],[]],"none":[],"map":{"a":1,"b":"two","c":null},"nested":{"a":{"b":{"c":"deep"}},"l":[{"x":1},{"x":2}]},"void":{}}`

// Expressions of the Go type a parameter has.
var (
	texts = quoted("", "a", "abc", "Hello World", "héllo wörld", "日本語", "😀x", "  a b\t", "a,b,,c", "1", "-1", "0x10", "010",
		"1.5", "1e3", "9223372036854775807", "9223372036854775808", "true", "null", "someCamelCaseHTTPServer", "snake_case-x.y z",
		"<a href='x'>&\"\\", "tab\tline\nreturn\r", "ǆ ﬁ ß İ", "a/b/../c.tar.gz", "%v|%d", "aGk=", "NBSXE===", `{"a":[1,{"b":null}]}`,
		`[1,"x",2.50,1e400]`, `"\ud83d\ude00\/\u00e9"`, "_0", "word word2\u00a0word3\u2028x", "ΑΣ ΌΔΟΣ")
	broken  = []string{`"\xff"`, `"a\xe2\x82"`, `"\xf0\x9f\x98\x80\xff b"`}
	small   = []string{"0", "1", "-1", "2", "3", "4", "5", "7", "10", "40", "-4"}
	ints    = append(append([]string{}, small...), "9223372036854775807", "-9223372036854775808", "2147483648", "1000000")
	floats  = []string{"0.0", "1.5", "-1.5", "2.5", "0.1", "1e21", "1e-7", "123456.789", "-0.0", "1e300"}
	bools   = []string{"true", "false"}
	lists   = []string{".list", ".nums", ".mixed", ".texts", ".lists", ".none", "(list)", `(list 1 "a" nil 1.5)`, "(until 5)", `(splitList "," "a,b")`, `(tuple .map (list 2))`}
	maps    = []string{".map", ".nested", ".void", "(dict)", `(dict "a" 1 "b" (list 1 2))`, `(dict "a" (dict "b" 5 "z" nil))`, `(split "," "x,y")`}
	moments = []string{`(toDate "2006-01-02" "2020-02-29")`, `(toDate "2006-01-02T15:04:05Z07:00" "1999-12-31T23:59:59.999999999+05:30")`,
		`(toDate "2006-01-02" "0001-01-01")`, `(toDate "2006-01-02T15:04:05Z" "9999-12-31T00:00:00Z")`, `(toDate "x" "y")`,
		`((toDate "2006-01-02" "2021-03-14").AddDate 0 0 -1)`}
	instants  = append(append([]string{}, moments...), "0", "1", "-1", "1600000000", "(int64 1600000000)", "4102444800")
	durations = []string{`((toDate "2006-01-02" "2020-02-29").Sub (toDate "2006-01-02" "2020-02-28"))`,
		`((toDate "2006-01-02T15:04:05" "2020-02-29T00:00:01.5").Sub (toDate "2006-01-02" "2020-02-29"))`,
		`((toDate "2006-01-02" "0001-01-01").Sub (toDate "2006-01-02" "9999-12-31"))`,
		`((toDate "2006-01-02" "2020-02-29").Sub (toDate "2006-01-02" "2020-02-29"))`}
	versionTexts = quoted("1.2.3", "v1.2.3", "1.2", "1", "0.0.0", "1.2.3-alpha", "1.2.3-alpha.1", "1.2.3-alpha.beta", "1.2.3-1", "1.2.3-01",
		"1.2.3+build.5", "2.0.0-rc.1+x", "18446744073709551615.0.0", "18446744073709551616.0.0", "01.2.3", "1.2.3.4", "", "a", " 1.2.3", "1.x", "0.2.3", "0.0.3")
	constraints = quoted("1.2.3", "=1.2.3", "!=1.2.3", ">1.2", "<2", ">=1.2.3-alpha", "<=1.2", "=>1", "=<1.2.3", "~1.2.3", "~1.2", "~1", "~>1.2",
		"^1.2.3", "^0.2.3", "^0.0.3", "^0", "^0.0", "*", "x", "1.x", "1.2.x", "1.*", ">=1.0, <2.0", ">=1.0 <2.0", "<1 || >=2", "1.2 - 2.0", "1.2 -2.0",
		"1.2.3-alpha - 1.2.3", "||", "", ">", "a", "!=1.x", ">1.x", "<=1.x", "^x", "~0.0.0", ">=1.2.3 ,<=1.2.3", "1.2.3-1 || 1.2.3+build.5", ">0-0", "v1.2")
	patterns = quoted("", "a", "[a-z]+", "(a)(b)?", "(?P<n>l+)(o)", "^", "$", "\\b", "\\w+", "[", "(", "a**", "(?i)HELLO", "é", "\\pL", ".", "(?s).", "x*", "\\d{2,3}",
		"a|ab", "(?U)a+", "\\Q.\\E", "[^a]", "(?m)^l", "\\x{1F600}", ",")
	replacements = quoted("", "x", "$0", "$1", "${1}x", "$1x", "$n", "${n}-", "$$", "$", "${", "\\1", "é$2")
	layouts      = quoted("2006-01-02", "Jan 2, 2006 at 3:04pm (MST)", "Monday 02-January-06 15:04:05.000 -0700", "20060102T150405Z0700", "", "_2 __2 002 .999 ,000 PM pm 05.9",
		"2006-01-02T15:04:05.999999999Z07:00", "Z070000 -07:00:00 -07", "January", "Jan Janx 1 01 15 3 03 4 04 5 05 06 6", "x", "Mon MST Sun")
	dates = quoted("2020-02-29", "2019-02-29", "2020-1-2", "Jan 5, 2020 at 1:02am (UTC)", "20200102T030405Z", "", "2020-02-29T23:59:60Z", "2020-02-29T12:00:00.5+05:30", "January", "x",
		"Monday 02-January-06 15:04:05.000 +0100", "5 PM")
	zones   = quoted("UTC", "Local", "", "America/New_York", "Asia/Kolkata", "Nowhere/Here", "Europe/London")
	amounts = quoted("1h", "-1.5h", "72h3m0.5s", "1ns", "0", "", "x", "1d", "2540400h10m", "9223372036854775807ns", "1h1h", "-5m", "+1s", "1µs")
	counts  = append(quoted("0", "1", "59", "3600", "86400", "-61", "31536000", "x", "1.5", "9223372036854775807"), "5", "-90", "1.5", "nil", ".nums")
	urls    = quoted("http://u:p@h:80/p%20q/r?x=1&y#f", "https://h", "//h/p", "/p?q", "a:b", "mailto:x@y", "", "http://[::1]:8080/a", "http://h:x/", "http://a b/", "http://h/%zz",
		"HTTP://H/../a;b?%", "http://é.x/ü?ö#ä", "http://u@h", "http://:@h/?#", "http://h/a//b/./c", "x://h:80:90", "http://[fe80::1%25en0]/", "*", "http://h/p?a=b;c")
	parts = []string{`(dict "scheme" "http" "host" "h:80" "path" "/a b" "query" "x=1&y" "fragment" "f")`, `(dict "scheme" "mailto" "opaque" "x@y")`, `(dict "host" "h")`, `(dict "path" "p")`,
		`(dict "userinfo" "u:p" "host" "h" "scheme" "s")`, `(dict)`, `(dict "scheme" 1)`, `(urlParse "http://u:p@h/p?q#f")`, `(dict "host" "h" "path" "//x" "query" "?" "fragment" "#")`}
	formats = quoted("%v", "%+v", "%#v", "%T", "%d", "%5d|%-5d|%05d", "%x|%X|%#x", "%o|%b|%c|%U", "%s|%q|%10s|%-10.2s", "%f|%.2f|%8.3f|%+f", "%e|%g|%G|%.3g", "%t", "%%|%", "%!|%z", "%[2]v %[1]v", "%*d", "%v %v %v",
		"% d|% x", "%6.2f%%", "%+q|%#q", "%08.3f", "%.0f", "%20v|%-20v|", "%x", "%#v %T")
	anything = concat(texts[:24], []string{"nil", "0", "1", "-1", "7", "1.5", "-0.0", "1e21", "true", "false", ".nope", ".null", ".text", ".num", ".f", ".big", "(int64 5)", "(float64 2)", `(semver "1.2.3-a+b")`},
		lists, maps, moments[:2], durations[:1])
)

func concat(pools ...[]string) []string {
	var all []string
	for _, pool := range pools {
		all = append(all, pool...)
	}
	return all
}

// overrides are the pools of parameters whose values must have some form to be worth a call; "" is
// the pool of the parameter's type.
var overrides = map[string][][]string{
	// How words are cut where bytes are no text is a declared difference.
	"kebabcase": {texts}, "snakecase": {texts},
	// A map that holds itself ends the original for good when it is printed.
	"set":   {maps, texts, concat(texts[:6], bools, floats)},
	"until": {small}, "untilStep": {small, small, small}, "seq": {small},
	"semver": {versionTexts}, "semverCompare": {constraints, versionTexts},
	"regexMatch": {patterns, texts}, "mustRegexMatch": {patterns, texts}, "regexFind": {patterns, texts}, "mustRegexFind": {patterns, texts},
	"regexFindAll": {patterns, texts, small}, "mustRegexFindAll": {patterns, texts, small}, "regexSplit": {patterns, texts, small}, "mustRegexSplit": {patterns, texts, small},
	"regexReplaceAll": {patterns, texts, replacements}, "mustRegexReplaceAll": {patterns, texts, replacements},
	"regexReplaceAllLiteral": {patterns, texts, replacements}, "mustRegexReplaceAllLiteral": {patterns, texts, replacements},
	"date": {layouts, instants}, "dateInZone": {layouts, instants, zones}, "date_in_zone": {layouts, instants, zones}, "htmlDate": {instants}, "htmlDateInZone": {instants, zones},
	"dateModify": {amounts, moments}, "date_modify": {amounts, moments}, "mustDateModify": {amounts, moments}, "must_date_modify": {amounts, moments},
	"toDate": {layouts, dates}, "mustToDate": {layouts, dates}, "unixEpoch": {moments}, "duration": {counts}, "durationRound": {concat(amounts, ints, durations)},
	"urlParse": {urls}, "urlJoin": {parts}, "printf": {formats, anything, anything},
	"indent": {small, texts}, "nindent": {small, texts}, "repeat": {small, texts}, "wrap": {small, texts}, "wrapWith": {small, texts, texts},
	"derivePassword": {{"1", "2"}, quoted("long", "maximum", "pin", "x"), quoted("pw"), quoted("user"), quoted("example.com")},
	"round":          {floats, small}, "chunk": {small, lists}, "mustChunk": {small, lists},
}

// skipped functions depend on the time, on chance, on a network or take seconds.
var skipped = map[string]bool{
	"now": true, "ago": true, "getHostByName": true, "htpasswd": true, "bcrypt": true, "encryptAES": true, "uuidv4": true, "shuffle": true, "randInt": true,
	"randAlpha": true, "randAlphaNum": true, "randAscii": true, "randNumeric": true, "randBytes": true, "genPrivateKey": true, "genCA": true, "genCAWithKey": true,
	"genSelfSignedCert": true, "genSelfSignedCertWithKey": true, "genSignedCert": true, "genSignedCertWithKey": true, "buildCustomCert": true, "env": true, "expandenv": true,
}
