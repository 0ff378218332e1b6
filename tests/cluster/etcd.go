package main

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/embed"
)

var etcdVersion = version.Version

type etcd struct {
	*embed.Etcd
	// endpoint is what clients connect to.
	endpoint string
	sockets  string
}

// startEtcd runs etcd on sockets that only this user can open.
func startEtcd(dir string) (*etcd, error) {
	// The path of a socket may have about 100 bytes, which a data folder can exceed.
	sockets, err := os.MkdirTemp("", "mgc")
	if err != nil {
		return nil, err
	}
	client := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "client")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(sockets, "peer")}

	config := embed.NewConfig()
	config.Name = "default"
	config.Dir = dir
	config.ListenClientUrls, config.ListenPeerUrls = []url.URL{client}, []url.URL{peer}
	// What is advertised must have a port; nobody asks a single member for it.
	config.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2379"}}
	config.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:2380"}}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.LogLevel = "error"
	// Nobody keeps the data of a test beyond a crash of the machine.
	config.UnsafeNoFsync = true

	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(sockets))
	}
	e := &etcd{Etcd: server, endpoint: client.String(), sockets: sockets}
	select {
	case <-server.Server.ReadyNotify():
		return e, nil
	case err = <-server.Err():
	case <-time.After(readyTimeout):
		err = errors.New("not ready in time")
	}
	e.Close()
	return nil, err
}

func (e *etcd) Close() {
	e.Etcd.Close()
	_ = os.RemoveAll(e.sockets)
}

// listen opens the port the folder's last run had, or any free one.
func listen(portFile string) (net.Listener, error) {
	address := "127.0.0.1:0"
	if last, err := os.ReadFile(portFile); err == nil {
		address = string(last)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return listener, os.WriteFile(portFile, []byte(listener.Addr().String()), 0o600)
}
