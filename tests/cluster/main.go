// Command cluster runs a Kubernetes control plane for tests, all of it in this one process and on
// loopback: kube-apiserver with RBAC, etcd, and the controllers of namespaces, of garbage and of the status of policies.
//
// When it is ready it prints one line of JSON (see Ready); logs go to standard error. It stops on
// SIGTERM or SIGINT, when its standard input ends, or after --run-for, and leaves nothing behind
// unless --data-dir names a folder to keep.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Ready is what is printed when everything answers.
type Ready struct {
	// Kubeconfig is a file with the credentials of an administrator.
	Kubeconfig string `json:"kubeconfig"`
	// Server is the URL of the API server.
	Server string `json:"server"`
	// CA is a file with the certificate the server is checked with.
	CA string `json:"ca"`
	// Kubernetes is the version the API server tells, such as v1.36.3.
	Kubernetes string `json:"kubernetes"`
	// Etcd is the version of the embedded etcd.
	Etcd string `json:"etcd"`
	// DataDir holds everything that was written.
	DataDir string `json:"dataDir"`
	// Milliseconds is how long the start took.
	Milliseconds int64 `json:"milliseconds"`
}

const (
	readyTimeout = 2 * time.Minute
	// Requests under way at the end are given this long.
	stopTimeout = 10 * time.Second
)

func main() {
	dataDir := flag.String("data-dir", "",
		"folder for certificates and data, kept and used again; a temporary one, removed, if empty")
	runFor := flag.Duration("run-for", 0, "stop after this long; 0 means never")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(),
			"usage: cluster [flags] [-- flags of kube-apiserver]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*dataDir, *runFor, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(1)
	}
}

func run(dataDir string, runFor time.Duration, apiServerFlags []string) (err error) {
	started := time.Now()
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	if runFor > 0 {
		ctx, cancel = context.WithTimeout(ctx, runFor)
		defer cancel()
	}
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	go func() {
		// Whoever started this process holds the other end, also when it is killed.
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	if dataDir == "" {
		dataDir, err = os.MkdirTemp("", "modgate-cluster-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dataDir)) }()
	}
	if dataDir, err = filepath.Abs(dataDir); err != nil {
		return err
	}
	if err = os.MkdirAll(dataDir, 0o700); err != nil {
		return err
	}

	secrets, err := loadSecrets(filepath.Join(dataDir, "pki"))
	if err != nil {
		return err
	}
	listener, err := listen(filepath.Join(dataDir, "port"))
	if err != nil {
		return err
	}
	etcd, err := startEtcd(filepath.Join(dataDir, "etcd"))
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	defer etcd.Close()

	// The API server outlives the controllers, so that they are not seen failing.
	serverCtx, stopServer := context.WithCancel(context.Background())
	defer stopServer()
	server, err := startAPIServer(serverCtx, listener, etcd.endpoint, secrets, apiServerFlags)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	config := server.clientConfig(secrets)
	version, err := server.wait(ctx, config, readyTimeout)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	if err = startControllers(ctx, config); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	kubeconfig := filepath.Join(dataDir, "kubeconfig")
	if err = writeKubeconfig(kubeconfig, server.url, secrets); err != nil {
		return err
	}
	err = json.NewEncoder(os.Stdout).Encode(Ready{
		Kubeconfig:   kubeconfig,
		Server:       server.url,
		CA:           secrets.caFile,
		Kubernetes:   version,
		Etcd:         etcdVersion,
		DataDir:      dataDir,
		Milliseconds: time.Since(started).Milliseconds(),
	})
	if err != nil {
		return err
	}

	select {
	case <-ctx.Done():
	case err := <-server.stopped:
		return fmt.Errorf("kube-apiserver stopped by itself: %w", err)
	}
	stopServer()
	select {
	case <-server.stopped:
	case <-time.After(stopTimeout):
	}
	return nil
}
