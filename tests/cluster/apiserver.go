package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

type apiServer struct {
	url string
	// stopped receives once, when the server has ended.
	stopped chan error
}

// startAPIServer runs kube-apiserver as its command does, but for its listener and signals.
func startAPIServer(
	ctx context.Context, listener net.Listener, etcd string, s *secrets, more []string,
) (*apiServer, error) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	address, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		return nil, errors.New("not a TCP listener")
	}
	server := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, set := range server.Flags().FlagSets {
		flags.AddFlagSet(set)
	}
	err := flags.Parse(append([]string{
		"--etcd-servers=" + etcd,
		"--tls-cert-file=" + s.serverFile,
		"--tls-private-key-file=" + s.serverKeyFile,
		"--client-ca-file=" + s.caFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + s.tokenKeyFile,
		"--service-account-signing-key-file=" + s.tokenKeyFile,
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		// No controller makes the service account `default` that it would ask for.
		"--disable-admission-plugins=ServiceAccount",
		// Endpoints may not be on loopback, and there is nobody to use them.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/16",
	}, more...))
	if err != nil {
		return nil, err
	}
	server.SecureServing.Listener = listener
	server.SecureServing.BindPort = address.Port
	server.SecureServing.ExternalAddress = address.IP
	if err := server.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	completed, err := server.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) != 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- app.Run(ctx, completed) }()
	return &apiServer{url: fmt.Sprintf("https://%s", address), stopped: stopped}, nil
}

func (a *apiServer) clientConfig(s *secrets) *rest.Config {
	return &rest.Config{
		Host: a.url,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: s.caFile, CertFile: s.adminFile, KeyFile: s.adminKeyFile,
		},
		QPS:   400,
		Burst: 400,
	}
}

// wait returns the server's version once it is ready and has its first namespace.
func (a *apiServer) wait(
	ctx context.Context, config *rest.Config, timeout time.Duration,
) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			_, err = client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		}
		if err == nil {
			version, err := client.ServerVersion()
			if err != nil {
				return "", err
			}
			return version.GitVersion, nil
		}
		select {
		case stopped := <-a.stopped:
			return "", fmt.Errorf("stopped before it was ready: %w", stopped)
		case <-ctx.Done():
			return "", fmt.Errorf("not ready in time: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func writeKubeconfig(file, server string, s *secrets) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: s.caFile}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{
		ClientCertificate: s.adminFile, ClientKey: s.adminKeyFile,
	}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "admin"}
	config.CurrentContext = "test"
	return clientcmd.WriteToFile(*config, file)
}
