// Package main is the one program that runs in the testbed's containers, and packs itself into their image.
//
//	program              waits until it is told to end
//	program show [PATH…] prints its environment and what stands under the paths, then waits
//	program image FILE   writes the image as `docker save` would
//
// It is static and uses the standard library alone, so the image is this program and nothing else.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sort"
	"syscall"
)

// The image's name, and the program's path in it.
const (
	name    = "docker.io/local/testbed:1"
	program = "program"
)

func main() {
	words := os.Args[1:]
	switch {
	case len(words) == 2 && words[0] == "image":
		if err := image(words[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case len(words) > 0 && words[0] == "show":
		show(words[1:])
	}
	wait()
}

// wait ends at the signal that ends containers. As process 1 of a pod's sandbox it also collects orphans.
func wait() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for got := range signals {
		if got != syscall.SIGCHLD {
			return
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}

func show(paths []string) {
	environment := os.Environ()
	sort.Strings(environment)
	for _, line := range environment {
		fmt.Println("env", line)
	}
	for _, path := range paths {
		err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				fmt.Println("error", err)
				return nil
			}
			fmt.Println("file", entry.Type(), path)
			return nil
		})
		if err != nil {
			fmt.Println("error", err)
		}
	}
	fmt.Println("end")
}

type file struct {
	name  string
	mode  int64
	bytes []byte
}

// image writes an archive of one layer that holds this program.
func image(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bytes, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	layer, err := archive([]file{{program, 0o755, bytes}})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/" + program}},
		"rootfs": map[string]any{
			"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))},
		},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return err
	}
	whole, err := archive([]file{
		{"manifest.json", 0o644, manifest}, {"config.json", 0o644, config}, {"layer.tar", 0o644, layer},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, whole, 0o644)
}

func archive(files []file) ([]byte, error) {
	var all bytes.Buffer
	writer := tar.NewWriter(&all)
	for _, file := range files {
		header := tar.Header{Name: file.name, Mode: file.mode, Size: int64(len(file.bytes))}
		if err := writer.WriteHeader(&header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(file.bytes); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}
