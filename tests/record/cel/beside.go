package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
)

// beside asks this release of cel-go every expression that another one was asked, and records the
// answers that differ. The other's recordings are in the folder of that name.
func beside(environment *environment, folder, out string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "cel-pairs-*.json.gz"))
	if err != nil {
		return err
	}
	sort.Strings(paths)
	var all [][2]string
	for _, path := range paths {
		others, err := read(path)
		if err != nil {
			return err
		}
		expressions := make([]string, len(others.Cases))
		answers := map[string]string{}
		for index, known := range others.Cases {
			expressions[index] = known[0]
			answers[known[0]] = known[1]
		}
		cases, dropped := record(expressions, environment.answer)
		differ := 0
		for _, known := range cases {
			if answers[known[0]] != known[1] {
				all = append(all, known)
				differ++
			}
		}
		fmt.Printf("%s: %d differ, %d dropped\n", path, differ, dropped)
	}
	path := filepath.Join(out, "cel-kubernetes.json.gz")
	what := "Expressions of cel-pairs-*.json.gz to which another release of cel-go gives another answer"
	return write(path, recording{About: about(what), Object: json.RawMessage(object), Cases: all})
}

func read(path string) (content recording, err error) {
	file, err := os.Open(path)
	if err != nil {
		return content, err
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		return content, err
	}
	return content, json.NewDecoder(packed).Decode(&content)
}
