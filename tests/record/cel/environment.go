package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	base "k8s.io/apiserver/pkg/cel/environment"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// unstable stands for an answer that is another one each time, because it depends on the order in
// which Go walks a map.
const unstable = "\x00"

type environment struct {
	env    *cel.Env
	object map[string]any
}

func newEnvironment() (*environment, error) {
	set, err := base.MustBaseEnvSet(version.MajorMinor(1, 36)).Extend(base.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("object", cel.DynType), words},
	})
	if err != nil {
		return nil, err
	}
	env, err := set.Env(base.StoredExpressions)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := utiljson.Unmarshal([]byte(object), &values); err != nil {
		return nil, err
	}
	return &environment{env: env, object: values}, nil
}

// overloads writes each overload of each function as `name target(arguments)result`.
func (e *environment) overloads() []string {
	plain := regexp.MustCompile("<[A-Z]>")
	var lines []string
	for name, function := range e.env.Functions() {
		for _, overload := range function.OverloadDecls() {
			var args []string
			for _, arg := range overload.ArgTypes() {
				args = append(args, arg.String())
			}
			target := ""
			if overload.IsMemberFunction() {
				target, args = args[0], args[1:]
			}
			line := fmt.Sprintf("%s %s(%s)%s", name, target, strings.Join(args, ","), overload.ResultType())
			line = plain.ReplaceAllString(line, "dyn")
			line = strings.NewReplacer("google.protobuf.Timestamp", "timestamp", "google.protobuf.Duration", "duration").Replace(line)
			lines = append(lines, line)
		}
	}
	sort.Strings(lines)
	return lines
}

// answer evaluates an expression several times. The original does not survive some expressions: there
// is no answer to record then.
func (e *environment) answer(expression string) (answer string) {
	defer func() {
		if recover() != nil {
			answer = unstable
		}
	}()
	ast, issues := e.env.Compile(expression)
	if issues != nil && issues.Err() != nil {
		return "E"
	}
	program, err := e.env.Program(ast, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return "E"
	}
	first := e.once(program)
	for range 5 {
		if e.once(program) != first {
			return unstable
		}
	}
	return first
}

func (e *environment) once(program cel.Program) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	value, _, err := program.ContextEval(ctx, map[string]any{"object": e.object})
	if err != nil {
		return "E"
	}
	answer := encode(value)
	if strings.Contains(answer, "?error") {
		// The original cannot read its own map, where not-a-number is a key.
		return unstable
	}
	return answer
}

// encode writes a value so that two are equal exactly if their texts are: a letter for the type and
// an exact text.
func encode(value ref.Val) string {
	switch value := value.(type) {
	case types.Null:
		return "null"
	case types.Bool:
		return strconv.FormatBool(bool(value))
	case types.Int:
		return "i" + strconv.FormatInt(int64(value), 10)
	case types.Uint:
		return "u" + strconv.FormatUint(uint64(value), 10)
	case types.Double:
		if math.IsNaN(float64(value)) {
			return "dNaN"
		}
		return "d" + strconv.FormatUint(math.Float64bits(float64(value)), 16)
	case types.String:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(string(value)) + `"`
	case types.Bytes:
		return "b" + hex.EncodeToString(value)
	case types.Timestamp:
		return fmt.Sprintf("t%d.%d", value.Unix(), value.Nanosecond())
	case types.Duration:
		return fmt.Sprintf("D%d", value.Duration.Nanoseconds())
	case *types.Type:
		return "T" + value.TypeName()
	case *types.Optional:
		if !value.HasValue() {
			return "none"
		}
		return "some(" + encode(value.GetValue()) + ")"
	case apiservercel.Quantity:
		return "Q" + decimal(value)
	case apiservercel.Semver:
		plain := value.Version
		plain.Build = nil
		return "S" + plain.String()
	case apiservercel.URL:
		return "U" + value.URL.String()
	case apiservercel.IP:
		return "I" + value.Addr.String()
	case apiservercel.CIDR:
		return "C" + value.Prefix.String()
	case *apiservercel.Quantity:
		return encode(*value)
	case apiservercel.Format:
		return "F" + strings.ToLower(value.Name)
	case *apiservercel.Format:
		return encode(*value)
	case traits.Mapper:
		var entries []string
		for it := value.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			entries = append(entries, encode(key)+":"+encode(value.Get(key)))
		}
		sort.Strings(entries)
		return "{" + strings.Join(entries, ",") + "}"
	case traits.Lister:
		var items []string
		for it := value.Iterator(); it.HasNext() == types.True; {
			items = append(items, encode(it.Next()))
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	return "?" + value.Type().TypeName()
}

// decimal writes a quantity as digits without zeros at their end and a power of ten.
func decimal(quantity apiservercel.Quantity) string {
	copied := quantity.Quantity.DeepCopy()
	dec := copied.AsDec()
	digits := dec.UnscaledBig().String()
	power := -int(dec.Scale())
	for len(digits) > 1 && strings.HasSuffix(digits, "0") {
		digits = digits[:len(digits)-1]
		power++
	}
	if digits == "0" {
		return "0"
	}
	return fmt.Sprintf("%se%d", digits, power)
}
