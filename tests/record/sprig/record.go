package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
)

func init() {
	time.Local = time.UTC
}

// record executes a template several times: what differs depends on chance, and no answer is kept.
func record(text string, withSprig bool) (map[string]string, bool) {
	first := execute(text, withSprig)
	for range 3 {
		again := execute(text, withSprig)
		if again["v"] != first["v"] || (again["e"] == "") != (first["e"] == "") {
			return nil, false
		}
	}
	return first, true
}

// execute gives the output, in which encoding/json replaces each byte that is no text, of a template over the data, or its error; a panic is an error too.
func execute(text string, withSprig bool) (expect map[string]string) {
	defer func() {
		if caught := recover(); caught != nil {
			expect = map[string]string{"e": fmt.Sprint("panic: ", caught)}
		}
	}()
	parser := template.New("x")
	if withSprig {
		functions := sprig.GenericFuncMap()
		delete(functions, "env")
		delete(functions, "expandenv")
		parser = parser.Funcs(functions)
	}
	parsed, err := parser.Parse(text)
	if err != nil {
		return map[string]string{"e": err.Error()}
	}
	var document any
	if err := json.Unmarshal([]byte(data), &document); err != nil {
		panic(err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, document); err != nil {
		return map[string]string{"e": err.Error()}
	}
	return map[string]string{"v": out.String()}
}
