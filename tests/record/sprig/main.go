// Command sprig records what Go templates give that call Sprig's functions, Go's own and the methods
// of times, durations and versions, with values from pools of boundary values in every pair.
//
//	go run . -out ../../../conformance/languages
//
// The same seed gives the same templates.
package main

import (
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
)

func main() {
	out := flag.String("out", ".", "folder to write the recordings to")
	seed := flag.Int64("seed", 1, "seed of the random choice of templates")
	flag.Parse()
	if err := run(*out, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// A recording is one file: all templates see the same data.
type recording struct {
	About string          `json:"about"`
	Data  json.RawMessage `json:"data"`
	Cases []answer        `json:"cases"`
}

type answer struct {
	Template string            `json:"template"`
	Expect   map[string]string `json:"expect"`
}

func run(out string, seed int64) error {
	total := 0
	for _, group := range groups(seed) {
		var cases []answer
		dropped := 0
		seen := map[string]bool{}
		for _, text := range group.templates {
			if seen[text] {
				continue
			}
			seen[text] = true
			expect, same := record(text, group.sprig)
			if !same {
				dropped++
				continue
			}
			cases = append(cases, answer{text, expect})
		}
		total += len(cases)
		path := filepath.Join(out, group.name+".json.gz")
		about := fmt.Sprintf("%s, recorded with %s by tests/record/sprig; v = output, e = error text. Local zone UTC.", group.about, versions())
		if err := write(path, recording{about, json.RawMessage(data), cases}); err != nil {
			return err
		}
		fmt.Printf("%s: %d answers, %d dropped: they differ between runs\n", path, len(cases), dropped)
	}
	fmt.Printf("%d answers\n", total)
	return nil
}

func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown versions"
	}
	text := info.GoVersion
	for _, module := range info.Deps {
		if module.Path == "github.com/Masterminds/sprig/v3" {
			text += ", Sprig " + module.Version
		}
	}
	return text
}

func write(path string, content recording) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
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
