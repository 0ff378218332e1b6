// Command celspeed evaluates templates of the public Gatekeeper library with cel-go, compiled as Kubernetes' API
// server compiles the expressions of a ValidatingAdmissionPolicy, and prints how long one evaluation takes.
//
// It takes the templates and samples of `cargo bench -p modgate-cel --bench library`.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// What an evaluation may cost; no sample comes near it.
const costLimit = 10_000_000

// Each template, with one of its samples.
var cases = [][2]string{
	{"general/requiredlabels", "all-must-have-owner/example_disallowed"},
	{"pod-security-policy/privileged-containers", "psp-privileged-container/example_disallowed"},
	{"pod-security-policy/capabilities", "psp-capabilities-baseline/example_disallowed"},
	{"pod-security-policy/host-filesystem", "psp-host-filesystem/example_disallowed"},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: celspeed FOLDER\n\nFOLDER is `library` of the public Gatekeeper library.")
		os.Exit(2)
	}
	for _, known := range cases {
		folder := filepath.Join(os.Args[1], known[0])
		if err := measure(known[0], folder, filepath.Join(folder, "samples", known[1])); err != nil {
			fmt.Fprintf(os.Stderr, "error: %s: %v\n", known[0], err)
			os.Exit(1)
		}
	}
}

// measure prints the times of one template.
func measure(name, folder, sample string) error {
	template, err := document(filepath.Join(folder, "template.yaml"))
	if err != nil {
		return err
	}
	object, err := document(sample + ".yaml")
	if err != nil {
		return err
	}
	constraint, err := document(filepath.Join(filepath.Dir(sample), "constraint.yaml"))
	if err != nil {
		return err
	}
	code, err := source(template)
	if err != nil {
		return err
	}
	run, err := prepare(code, object, constraint)
	if err != nil {
		return err
	}
	// What the API server does for each evaluation before the first expression: it converts the objects.
	trivial := map[string]any{"validations": []any{map[string]any{"expression": "true"}}}
	convert, err := prepare(trivial, object, constraint)
	if err != nil {
		return err
	}
	whole, fastest := sampled(run)
	input, _ := sampled(convert)
	fmt.Printf("%-45s fastest %8.2f us, median %8.2f us, of which conversion %8.2f us\n", name,
		microseconds(fastest), microseconds(whole), microseconds(input))
	return nil
}

func microseconds(duration time.Duration) float64 {
	return duration.Seconds() * 1e6
}

// document reads an object as the API server decodes it: whole numbers are integers.
func document(path string) (map[string]any, error) {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	json, err := yaml.YAMLToJSON(bytes)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(json); err != nil {
		return nil, err
	}
	return object.Object, nil
}

// source finds the CEL of a template.
func source(template map[string]any) (map[string]any, error) {
	targets, _, err := unstructured.NestedSlice(template, "spec", "targets")
	if err != nil {
		return nil, err
	}
	for _, target := range targets {
		for _, code := range list(target, "code") {
			if text(code, "engine") == "K8sNativeValidation" {
				found, _ := code.(map[string]any)["source"].(map[string]any)
				return found, nil
			}
		}
	}
	return nil, fmt.Errorf("no CEL")
}

func text(value any, key string) string {
	object, _ := value.(map[string]any)
	found, _ := object[key].(string)
	return found
}

func list(value any, key string) []any {
	object, _ := value.(map[string]any)
	found, _ := object[key].([]any)
	return found
}

// expression is one that the API server compiles.
type expression struct {
	name, text string
	types      []*cel.Type
}

func (e expression) GetExpression() string    { return e.text }
func (e expression) GetName() string          { return e.name }
func (e expression) ReturnTypes() []*cel.Type { return e.types }

// prepare compiles a template; the result evaluates all of it once.
func prepare(code, object, constraint map[string]any) (func(), error) {
	base := environment.MustBaseEnvSet(version.MajorMinor(1, 36))
	compiler, err := plugin.NewCompositedCompiler(base)
	if err != nil {
		return nil, err
	}
	options := plugin.OptionalVariableDeclarations{HasParams: true}
	dynamic := []*cel.Type{cel.AnyType, cel.DynType}
	// Gatekeeper declares these two for each template.
	variables := []plugin.NamedExpressionAccessor{
		expression{"anyObject", `object == null ? oldObject : object`, dynamic},
		expression{"params", `has(params.spec.parameters) ? params.spec.parameters : null`, dynamic},
	}
	for _, variable := range list(code, "variables") {
		variables = append(variables, expression{text(variable, "name"), text(variable, "expression"), dynamic})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	var expressions []plugin.ExpressionAccessor
	for _, validation := range list(code, "validations") {
		condition := expression{text: text(validation, "expression"), types: []*cel.Type{cel.BoolType}}
		expressions = append(expressions, condition)
		if message := text(validation, "messageExpression"); message != "" {
			expressions = append(expressions, expression{text: message, types: []*cel.Type{cel.StringType}})
		}
	}
	evaluator := compiler.CompileCondition(expressions, options, environment.StoredExpressions)
	if errors := evaluator.CompilationErrors(); len(errors) > 0 {
		return nil, errors[0]
	}
	pod := &unstructured.Unstructured{Object: object}
	kind := pod.GroupVersionKind()
	resource := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "things"}
	attributes := &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(pod, nil, kind, pod.GetNamespace(), pod.GetName(), resource, "",
			admission.Create, nil, false, nil),
		VersionedKind:   kind,
		VersionedObject: pod,
	}
	request := &admissionv1.AdmissionRequest{Operation: admissionv1.Create}
	bindings := plugin.OptionalVariableBindings{VersionedParams: &unstructured.Unstructured{Object: constraint}}
	run := func() error {
		results, _, err := evaluator.ForInput(context.Background(), attributes, request, bindings, nil, costLimit)
		if err != nil {
			return err
		}
		for _, result := range results {
			if result.Error != nil {
				return result.Error
			}
		}
		return nil
	}
	if err := run(); err != nil {
		return nil, err
	}
	return func() { _ = run() }, nil
}

// sampled is the median and the fastest of 25 samples of at least 20 ms each.
func sampled(run func()) (median, fastest time.Duration) {
	count := 1
	for {
		start := time.Now()
		for range count {
			run()
		}
		if time.Since(start) > 20*time.Millisecond {
			break
		}
		count *= 2
	}
	var samples []time.Duration
	for range 25 {
		start := time.Now()
		for range count {
			run()
		}
		samples = append(samples, time.Since(start)/time.Duration(count))
	}
	slices.Sort(samples)
	return samples[len(samples)/2], samples[0]
}
