// Command gatekeeper answers as `gator` does, one program a line: the peer of
// `cargo xtask differential`.
//
// Input is one JSON object a line: {"verb": "test" or "expand", "file": "..."}. Output is one a
// line too: {"results": [...]} with what `gator test -o json` prints, {"objects": [...]} with what
// `gator expand` prints, {"error": "..."}, {"panic": "..."} or {"timeout": true}.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/open-policy-agent/gatekeeper/v3/pkg/gator/expand"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/gator/reader"
	"github.com/open-policy-agent/gatekeeper/v3/pkg/gator/test"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// limit ends a program that the original does not end itself; a busy machine needs seconds for the others.
const limit = time.Minute

type question struct {
	Verb string `json:"verb"`
	File string `json:"file"`
}

type answer struct {
	Results []*test.GatorResult          `json:"results"`
	Objects []*unstructured.Unstructured `json:"objects"`
	Error   string                       `json:"error,omitempty"`
	Panic   string                       `json:"panic,omitempty"`
	Timeout bool                         `json:"timeout,omitempty"`
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	// What reads the file reads a piped standard input, too.
	nothing, err := os.Open(os.DevNull)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Stdin = nothing
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			return
		}
		done := make(chan answer, 1)
		go func() { done <- ask(line) }()
		var got answer
		select {
		case got = <-done:
		case <-time.After(limit):
			got = answer{Timeout: true}
		}
		if err := out.Encode(got); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if got.Timeout {
			// The evaluation goes on in this process: the caller starts another.
			return
		}
	}
}

func ask(line []byte) (got answer) {
	defer func() {
		if cause := recover(); cause != nil {
			got = answer{Panic: fmt.Sprint(cause)}
		}
	}()
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: "question: " + err.Error()}
	}
	objects, err := reader.ReadSources([]string{asked.File}, nil, "")
	if err != nil {
		return answer{Error: "reading: " + err.Error()}
	}
	if len(objects) == 0 {
		return answer{Error: "no input data identified"}
	}
	if asked.Verb == "expand" {
		expanded, err := expand.Expand(objects)
		if err != nil {
			return answer{Error: "error expanding resources: " + err.Error()}
		}
		return answer{Objects: expanded}
	}
	responses, err := test.Test(objects, test.WithK8sCEL(false))
	if err != nil {
		return answer{Error: "auditing objects: " + err.Error()}
	}
	return answer{Results: responses.Results()}
}
