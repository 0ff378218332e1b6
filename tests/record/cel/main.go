// Command cel records what CEL expressions give in the environment that Kubernetes evaluates
// admission policies in. It enumerates the functions of that environment, calls every overload with
// values from a pool of boundary values, of the declared types and of others, and writes the answers.
//
//	go run . -out ../../../conformance/languages
//	go run -modfile kubernetes.mod . -beside ../../../conformance/languages -out ../../../conformance/languages
//	go run -modfile kubernetes.mod . -library LIBRARY/library
//
// The same seed gives the same expressions.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"sync"
)

func main() {
	out := flag.String("out", ".", "folder to write the recordings to")
	seed := flag.Int64("seed", 1, "seed of the random choice of expressions")
	other := flag.String("beside", "", "folder with the recordings of another release: record what differs from them")
	library := flag.String("library", "", "folder library of the public Gatekeeper library: only measure its samples")
	flag.Parse()
	if *library != "" {
		if err := measure(*library); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*out, *seed, *other); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// A recording is one file: all expressions see the same object.
type recording struct {
	About  string          `json:"about"`
	Object json.RawMessage `json:"object"`
	// Expression and answer; "E" is an error.
	Cases [][2]string `json:"cases"`
}

func run(out string, seed int64, other string) error {
	environment, err := newEnvironment()
	if err != nil {
		return err
	}
	if other != "" {
		return beside(environment, other, out)
	}
	if err := environment.writeOverloads(filepath.Join(out, "cel-functions.json")); err != nil {
		return err
	}
	total := 0
	seen := map[string]bool{}
	for _, group := range generate(environment.env, seed) {
		var fresh []string
		for _, expression := range group.expressions {
			if !seen[expression] {
				seen[expression] = true
				fresh = append(fresh, expression)
			}
		}
		cases, dropped := record(fresh, environment.answer)
		total += len(cases)
		path := filepath.Join(out, "cel-pairs-"+group.name+".json.gz")
		if err := write(path, recording{About: about(group.about), Object: json.RawMessage(object), Cases: cases}); err != nil {
			return err
		}
		fmt.Printf("%s: %d answers, %d dropped: they differ between evaluations, or the original panics\n", path, len(cases), dropped)
	}
	fmt.Printf("%d answers\n", total)
	for _, group := range []group{
		{"typings", "Expressions whose types are in doubt: their type and their value or error, or why they do not compile", typings(seed)},
		{"calls", "Every function and operator with operands of types that only evaluation knows: their type and their value or error, or why they do not compile", calls(environment.env, seed)},
	} {
		cases, dropped := record(group.expressions, environment.text)
		path := filepath.Join(out, "cel-"+group.name+".json.gz")
		if err := write(path, recording{About: about(group.about), Object: json.RawMessage(object), Cases: cases}); err != nil {
			return err
		}
		fmt.Printf("%s: %d answers, %d dropped\n", path, len(cases), dropped)
	}
	return nil
}

func about(what string) string {
	versions := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			versions[module.Path] = module.Version
		}
	}
	return fmt.Sprintf("%s, recorded with k8s.io/apiserver %s and cel-go %s by tests/record/cel; E is an error",
		what, versions["k8s.io/apiserver"], versions["github.com/google/cel-go"])
}

// writeOverloads lists the functions of the environment.
func (e *environment) writeOverloads(path string) error {
	content := map[string]any{"about": about("Every overload of every function"), "overloads": e.overloads()}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(content); err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

func write(path string, content recording) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	packed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(packed)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(content); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return file.Close()
}

// record evaluates expressions on all processors and keeps their order.
func record(expressions []string, ask func(string) string) (cases [][2]string, dropped int) {
	answers := make([]string, len(expressions))
	var group sync.WaitGroup
	next := make(chan int, 64)
	for range 2 {
		group.Add(1)
		go func() {
			defer group.Done()
			for index := range next {
				answers[index] = ask(expressions[index])
			}
		}()
	}
	for index := range expressions {
		next <- index
	}
	close(next)
	group.Wait()
	for index, answer := range answers {
		if answer == unstable {
			dropped++
			continue
		}
		cases = append(cases, [2]string{expressions[index], answer})
	}
	sort.SliceStable(cases, func(a, b int) bool { return cases[a][0] < cases[b][0] })
	return cases, dropped
}
