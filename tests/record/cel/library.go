package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v2"

	"k8s.io/apimachinery/pkg/util/version"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	base "k8s.io/apiserver/pkg/cel/environment"
)

// samples are those of the bench `library` of modgate-cel: a template, and a constraint with an object.
var samples = [][2]string{
	{"general/requiredlabels", "all-must-have-owner/example_disallowed"},
	{"pod-security-policy/privileged-containers", "psp-privileged-container/example_disallowed"},
	{"pod-security-policy/capabilities", "psp-capabilities-baseline/example_disallowed"},
	{"pod-security-policy/host-filesystem", "psp-host-filesystem/example_disallowed"},
}

// injected are the variables that Gatekeeper gives every template.
var injected = [][2]string{
	{"anyObject", "request.operation == 'DELETE' && object == null ? oldObject : object"},
	{"params", "has(params.spec) && has(params.spec.parameters) ? params.spec.parameters : null"},
}

// named is an expression as the API server compiles it.
type named struct {
	name, text string
	types      []*cel.Type
}

func (n named) GetName() string          { return n.name }
func (n named) GetExpression() string    { return n.text }
func (n named) ReturnTypes() []*cel.Type { return n.types }

// measure evaluates all validations and messages of the samples' templates, with the variables that they read,
// and prints how often it does so in a second. Inputs are maps already, so only cel-go is measured.
func measure(library string) error {
	for _, sample := range samples {
		folder := filepath.Join(library, sample[0])
		template, err := document(filepath.Join(folder, "template.yaml"))
		if err != nil {
			return err
		}
		programs, compiler, err := compile(template)
		if err != nil {
			return fmt.Errorf("%s: %w", sample[0], err)
		}
		object, err := document(filepath.Join(folder, "samples", sample[1]+".yaml"))
		if err != nil {
			return err
		}
		constraint, err := document(filepath.Join(folder, "samples", filepath.Dir(sample[1]), "constraint.yaml"))
		if err != nil {
			return err
		}
		once := func() (values int) {
			inputs := map[string]any{
				"object": object, "oldObject": nil, "namespaceObject": nil, "params": constraint,
				"request": map[string]any{"operation": "CREATE"},
			}
			composition := compiler.CreateContext(context.Background())
			inputs["variables"] = composition.Variables(inputs)
			for _, program := range programs {
				if _, _, err := program.ContextEval(composition, inputs); err == nil {
					values++
				}
			}
			return values
		}
		values := once()
		result := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				once()
			}
		})
		fmt.Printf("%s: %d of %d expressions with a value, %d ns, %.0f/s\n",
			sample[0], values, len(programs), result.NsPerOp(), 1e9/float64(result.NsPerOp()))
	}
	return nil
}

func compile(template map[string]any) ([]cel.Program, *plugin.CompositedCompiler, error) {
	compiler, err := plugin.NewCompositedCompiler(base.MustBaseEnvSet(version.MajorMinor(1, 36)))
	if err != nil {
		return nil, nil, err
	}
	source := source(template)
	with := plugin.OptionalVariableDeclarations{HasParams: true}
	variables := injected
	for _, variable := range list(source["variables"]) {
		variables = append(variables, [2]string{text(variable["name"]), text(variable["expression"])})
	}
	for _, variable := range variables {
		expression := named{variable[0], variable[1], []*cel.Type{cel.AnyType, cel.DynType}}
		if result := compiler.CompileAndStoreVariable(expression, with, base.StoredExpressions); result.Error != nil {
			return nil, nil, result.Error
		}
	}
	var programs []cel.Program
	add := func(expression string, of *cel.Type) error {
		result := compiler.CompileCELExpression(named{"", expression, []*cel.Type{of}}, with, base.StoredExpressions)
		if result.Error != nil {
			return result.Error
		}
		programs = append(programs, result.Program)
		return nil
	}
	for _, validation := range list(source["validations"]) {
		if err := add(text(validation["expression"]), cel.BoolType); err != nil {
			return nil, nil, err
		}
	}
	for _, validation := range list(source["validations"]) {
		if message := text(validation["messageExpression"]); message != "" {
			if err := add(message, cel.StringType); err != nil {
				return nil, nil, err
			}
		}
	}
	return programs, compiler, nil
}

// source is the CEL of a template.
func source(template map[string]any) map[string]any {
	spec, _ := template["spec"].(map[string]any)
	for _, target := range list(spec["targets"]) {
		for _, code := range list(target["code"]) {
			if code["engine"] == "K8sNativeValidation" {
				source, _ := code["source"].(map[string]any)
				return source
			}
		}
	}
	return nil
}

func list(value any) (all []map[string]any) {
	items, _ := value.([]any)
	for _, item := range items {
		if item, ok := item.(map[string]any); ok {
			all = append(all, item)
		}
	}
	return all
}

func text(value any) string {
	text, _ := value.(string)
	return text
}

func document(path string) (map[string]any, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var value any
	if err := yaml.Unmarshal(content, &value); err != nil {
		return nil, err
	}
	object, _ := plain(value).(map[string]any)
	return object, nil
}

// plain is a document as the API server has it.
func plain(value any) any {
	switch value := value.(type) {
	case map[any]any:
		members := map[string]any{}
		for key, member := range value {
			members[fmt.Sprint(key)] = plain(member)
		}
		return members
	case []any:
		items := make([]any, len(value))
		for index, item := range value {
			items[index] = plain(item)
		}
		return items
	case int:
		return int64(value)
	default:
		return value
	}
}
