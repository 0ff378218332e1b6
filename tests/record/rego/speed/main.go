// Command speed evaluates templates of the public Gatekeeper library with OPA, and prints how long one evaluation of
// `violation` takes.
//
// It takes the cases of `cargo bench -p modgate-rego-corpora --bench library`. The query is compiled before, and the
// input is a value of OPA's own, so that only evaluation is measured.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"sigs.k8s.io/yaml"
)

// Each suite, with a test and a case of it.
var cases = [][3]string{
	{"general/requiredlabels", "must-have-owner", "example-disallowed"},
	{"general/allowedrepos", "allowed-repos", "container-disallowed"},
	{"general/containerlimits", "container-limits", "example-disallowed"},
	{"pod-security-policy/privileged-containers", "privileged-containers-disallowed", "example-disallowed"},
	{"pod-security-policy/users", "users-and-groups-together", "example-disallowed"},
	{"pod-security-policy/capabilities", "capabilities-baseline", "example-disallowed"},
	{"pod-security-policy/seccompv2", "seccomp-restricted", "example-disallowed-container"},
	{"pod-security-policy/host-filesystem", "host-filesystem", "example-disallowed"},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: speed FOLDER\n\nFOLDER is `library` of the public Gatekeeper library.")
		os.Exit(2)
	}
	for _, known := range cases {
		if err := measure(filepath.Join(os.Args[1], known[0]), known[0], known[1], known[2]); err != nil {
			fmt.Fprintf(os.Stderr, "error: %s: %v\n", known[0], err)
			os.Exit(1)
		}
	}
}

type suite struct {
	Tests []struct {
		Name, Template, Constraint string
		Cases                      []struct{ Name, Object string }
	}
}

// measure prints the times of one case.
func measure(folder, name, test, sample string) error {
	var suite suite
	if err := read(filepath.Join(folder, "suite.yaml"), &suite); err != nil {
		return err
	}
	for _, found := range suite.Tests {
		for _, known := range found.Cases {
			if found.Name != test || known.Name != sample {
				continue
			}
			run, err := prepare(filepath.Join(folder, found.Template), filepath.Join(folder, found.Constraint),
				filepath.Join(folder, known.Object))
			if err != nil {
				return err
			}
			measured := sampled(run)
			fmt.Printf("%-45s processor %8.2f us, fastest %8.2f us, median %8.2f us\n", name, microseconds(measured.processor),
				microseconds(measured.fastest), microseconds(measured.median))
			return nil
		}
	}
	return fmt.Errorf("the suite has no case `%s` of `%s`", sample, test)
}

func microseconds(duration time.Duration) float64 {
	return duration.Seconds() * 1e6
}

func read(path string, into any) error {
	bytes, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(bytes, into)
}

type template struct {
	Spec struct {
		Targets []struct {
			Rego string
			Libs []string
			Code []struct {
				Engine string
				Source struct {
					Rego string
					Libs []string
				}
			}
		}
	}
}

// modules finds the Rego of a template, its own module first.
func (t template) modules() ([]string, error) {
	for _, target := range t.Spec.Targets {
		if target.Rego != "" {
			return append([]string{target.Rego}, target.Libs...), nil
		}
		for _, code := range target.Code {
			if code.Engine == "Rego" {
				return append([]string{code.Source.Rego}, code.Source.Libs...), nil
			}
		}
	}
	return nil, errors.New("the template has no Rego")
}

// prepare compiles a template; the result evaluates it once for an object and a constraint's parameters.
func prepare(templatePath, constraintPath, objectPath string) (func(), error) {
	var found template
	var constraint struct {
		Spec struct{ Parameters map[string]any }
	}
	var object map[string]any
	if err := errors.Join(read(templatePath, &found), read(constraintPath, &constraint), read(objectPath, &object)); err != nil {
		return nil, err
	}
	texts, err := found.modules()
	if err != nil {
		return nil, err
	}
	options := []func(*rego.Rego){rego.SetRegoVersion(ast.RegoV0), rego.StrictBuiltinErrors(false)}
	for index, text := range texts {
		module, err := ast.ParseModuleWithOpts(fmt.Sprint("module", index), text, ast.ParserOptions{RegoVersion: ast.RegoV0})
		if err != nil {
			return nil, err
		}
		if index == 0 {
			options = append(options, rego.Query(module.Package.Path.String()+".violation"))
		}
		options = append(options, rego.ParsedModule(module))
	}
	query, err := rego.New(options...).PrepareForEval(context.Background())
	if err != nil {
		return nil, err
	}
	input, err := ast.InterfaceToValue(map[string]any{
		"parameters": constraint.Spec.Parameters,
		"review":     review(object),
	})
	if err != nil {
		return nil, err
	}
	run := func() (rego.ResultSet, error) {
		return query.Eval(context.Background(), rego.EvalParsedInput(input))
	}
	results, err := run()
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("%d results", len(results))
	}
	if violations, _ := results[0].Expressions[0].Value.([]any); len(violations) == 0 {
		return nil, errors.New("the case has no violation")
	}
	return func() { _, _ = run() }, nil
}

// review is what Gatekeeper makes of an object.
func review(object map[string]any) map[string]any {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	apiVersion, _ := object["apiVersion"].(string)
	group, version, hasGroup := strings.Cut(apiVersion, "/")
	if !hasGroup {
		group, version = "", apiVersion
	}
	return map[string]any{
		"kind":      map[string]any{"group": group, "version": version, "kind": object["kind"]},
		"name":      name,
		"namespace": namespace,
		"operation": "",
		"userInfo":  map[string]any{},
		"oldObject": nil,
		"object":    object,
	}
}

// measured is what one evaluation takes.
type measured struct {
	// processor is the processor time of this program, garbage collection included.
	processor time.Duration
	// median and fastest are wall times.
	median, fastest time.Duration
}

// sampled takes 25 samples of at least 20 ms each.
func sampled(run func()) (result measured) {
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
	var clock, processor []time.Duration
	for range 25 {
		start, before := time.Now(), spent()
		for range count {
			run()
		}
		clock = append(clock, time.Since(start)/time.Duration(count))
		processor = append(processor, (spent()-before)/time.Duration(count))
	}
	slices.Sort(clock)
	slices.Sort(processor)
	return measured{processor: processor[len(processor)/2], median: clock[len(clock)/2], fastest: clock[0]}
}

// spent is the processor time of this program so far.
func spent() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
