// Command rego records what OPA answers when each of its built-in functions is called with every
// pair, and a sample of the triples, of boundary values.
//
//	go run . -out ../../../conformance/languages
//
// The OPA that answers is the one go.mod names: the version of Gatekeeper's current release.
// pools.go holds the values, and which of them a function is called with.
package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/version"
)

const (
	// maxCalls is how many calls of one function are recorded.
	maxCalls = 1600
	// maxAnswer is the longest answer that is written out; a longer one is its hash.
	maxAnswer = 160
	// maxTime ends a call that OPA does not end itself.
	maxTime = time.Second
)

// recording is the layout of a file.
type recording struct {
	About string              `json:"about"`
	OPA   string              `json:"opa"`
	Pools map[string][]string `json:"pools"`
	Cases []call              `json:"cases"`
}

// call is one function with the pools of its operands.
type call struct {
	Function string   `json:"call"`
	Operands []string `json:"operands"`
	// Rows are the calls: the place of each operand in its pool.
	Rows [][]int `json:"rows"`
	// Answers are those of the rows: a term, "error", "undefined" or "sha256:" and a hash.
	Answers []string `json:"answers"`
}

func main() {
	out := flag.String("out", ".", "folder to write to")
	signatures := flag.Bool("signatures", false, "print the types of every built-in instead")
	flag.Parse()
	if *signatures {
		for _, builtin := range ast.Builtins {
			fmt.Printf("%s\t%s\n", builtin.Name, builtin.Decl)
		}
		return
	}
	files := map[string]*recording{}
	total := 0
	for _, function := range functions() {
		started := time.Now()
		file := fileOf(function.name)
		if files[file] == nil {
			files[file] = &recording{
				About: "what OPA answers to calls of its built-ins with boundary values; made by tests/record/rego",
				OPA:   version.Version,
				Pools: map[string][]string{},
			}
		}
		recorded, err := record(function)
		if err != nil {
			log.Fatalf("%s: %v", function.name, err)
		}
		for _, pool := range function.operands {
			files[file].Pools[pool] = pools[pool]
		}
		files[file].Cases = append(files[file].Cases, recorded)
		total += len(recorded.Answers)
		if took := time.Since(started); took > 5*time.Second {
			log.Printf("%s took %s", function.name, took)
		}
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := write(filepath.Join(*out, name), files[name]); err != nil {
			log.Fatal(err)
		}
	}
	log.Printf("%d answers of OPA %s in %d files", total, version.Version, len(files))
}

// fileOf spreads the functions over files, so that several cores can run them.
func fileOf(name string) string {
	hash := sha256.Sum256([]byte(name))
	return fmt.Sprintf("rego-pairs-%d.json.gz", hash[0]%4)
}

func write(path string, recorded *recording) error {
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
	if err := encoder.Encode(recorded); err != nil {
		return err
	}
	return packed.Close()
}

// record calls one function with its operands.
func record(function function) (call, error) {
	recorded := call{Function: function.name, Operands: function.operands}
	places := make([]string, len(function.operands))
	sizes := make([]int, len(function.operands))
	for i, pool := range function.operands {
		if len(pools[pool]) == 0 {
			return recorded, fmt.Errorf("no pool %q", pool)
		}
		places[i] = fmt.Sprintf("input[%d]", i)
		sizes[i] = len(pools[pool])
	}
	query := fmt.Sprintf("x = %s(%s)", function.name, strings.Join(places, ", "))
	compiler := ast.NewCompiler()
	body, err := compiler.QueryCompiler().Compile(ast.MustParseBody(query))
	if err != nil {
		return recorded, err
	}
	for _, row := range rows(function.name, sizes) {
		operands := make([]*ast.Term, len(row))
		for i, at := range row {
			operands[i], err = term(pools[function.operands[i]][at])
			if err != nil {
				return recorded, err
			}
		}
		answer, ok := answer(compiler, body, ast.ArrayTerm(operands...))
		if !ok {
			log.Printf("%s %v: OPA did not answer", function.name, operands)
			continue
		}
		recorded.Rows = append(recorded.Rows, row)
		recorded.Answers = append(recorded.Answers, answer)
	}
	return recorded, nil
}

// rows is every combination of places, or a sample of them that is always the same.
func rows(name string, sizes []int) [][]int {
	all := 1
	for _, size := range sizes {
		all *= size
	}
	chosen := make([]int, 0, all)
	if all <= maxCalls {
		for at := range all {
			chosen = append(chosen, at)
		}
	} else {
		hash := sha256.Sum256([]byte(name))
		source := rand.New(rand.NewSource(int64(hash[0])<<8 | int64(hash[1])))
		known := map[int]bool{}
		for len(chosen) < maxCalls {
			if at := source.Intn(all); !known[at] {
				known[at] = true
				chosen = append(chosen, at)
			}
		}
		sort.Ints(chosen)
	}
	rows := make([][]int, len(chosen))
	for i, at := range chosen {
		row := make([]int, len(sizes))
		for operand := len(sizes) - 1; operand >= 0; operand-- {
			row[operand] = at % sizes[operand]
			at /= sizes[operand]
		}
		rows[i] = row
	}
	return rows
}

// now is what time.now_ns would say.
var now = time.Unix(1790000000, 0).UTC()

var terms = map[string]*ast.Term{}

// term evaluates the text of a pool's value: a term, or a call that makes one.
func term(text string) (*ast.Term, error) {
	if known, ok := terms[text]; ok {
		return known, nil
	}
	compiler := ast.NewCompiler()
	body, err := compiler.QueryCompiler().Compile(ast.MustParseBody("x = " + text))
	if err != nil {
		return nil, err
	}
	results, err := topdown.NewQuery(body).WithCompiler(compiler).WithStrictBuiltinErrors(true).
		Run(context.Background())
	if err != nil {
		return nil, fmt.Errorf("pool value %s: %w", text, err)
	}
	if len(results) != 1 {
		return nil, fmt.Errorf("pool value %s: %d values", text, len(results))
	}
	terms[text] = results[0]["x"]
	return terms[text], nil
}

// answer is what a call gives; false where OPA panics or does not come to an end.
func answer(compiler *ast.Compiler, body ast.Body, operands *ast.Term) (string, bool) {
	type result struct {
		text string
		ok   bool
	}
	// A call that goes on for ever keeps its goroutine: not all of OPA looks at Cancel.
	done := make(chan result, 1)
	cancel := topdown.NewCancel()
	go func() {
		defer func() {
			if recover() != nil {
				done <- result{}
			}
		}()
		text, ok := evaluate(compiler, body, operands, cancel)
		done <- result{text, ok}
	}()
	select {
	case found := <-done:
		return found.text, found.ok
	case <-time.After(maxTime):
		cancel.Cancel()
		return "", false
	}
}

func evaluate(compiler *ast.Compiler, body ast.Body, operands *ast.Term, cancel topdown.Cancel) (string, bool) {
	results, err := topdown.NewQuery(body).
		WithCompiler(compiler).
		WithInput(operands).
		WithStrictBuiltinErrors(true).
		WithCancel(cancel).
		WithTime(now).
		Run(context.Background())
	if err != nil {
		return "error", true
	}
	var values []string
	for _, result := range results {
		values = append(values, result["x"].Value.String())
	}
	if len(values) == 0 {
		return "undefined", true
	}
	sort.Strings(values)
	text := strings.Join(values, " ; ")
	if len(text) > maxAnswer {
		hash := sha256.Sum256([]byte(text))
		return "sha256:" + hex.EncodeToString(hash[:12]), true
	}
	return text, true
}
