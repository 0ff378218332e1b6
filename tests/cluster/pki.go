package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// secrets are the files of one cluster's own certificate authority.
type secrets struct {
	caFile, caKeyFile         string
	serverFile, serverKeyFile string
	// An administrator: group system:masters.
	adminFile, adminKeyFile string
	// What service account tokens are signed with.
	tokenKeyFile string
}

const lifetime = 30 * 24 * time.Hour

// loadSecrets makes the files of a folder, or finds those that an earlier run made.
func loadSecrets(dir string) (*secrets, error) {
	file := func(name string) string { return filepath.Join(dir, name) }
	s := &secrets{
		caFile: file("ca.crt"), caKeyFile: file("ca.key"),
		serverFile: file("server.crt"), serverKeyFile: file("server.key"),
		adminFile: file("admin.crt"), adminKeyFile: file("admin.key"),
		tokenKeyFile: file("token.key"),
	}
	if _, err := os.Stat(s.tokenKeyFile); err == nil {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	ca := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "modgate test cluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caKey, err := issue(ca, ca, nil, s.caFile, s.caKeyFile)
	if err != nil {
		return nil, err
	}
	server := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if _, err := issue(server, ca, caKey, s.serverFile, s.serverKeyFile); err != nil {
		return nil, err
	}
	admin := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if _, err := issue(admin, ca, caKey, s.adminFile, s.adminKeyFile); err != nil {
		return nil, err
	}
	// Last, as its presence says that the others are complete.
	_, err = newKey(s.tokenKeyFile)
	return s, err
}

// issue writes a certificate, signed by itself if there is no key of a parent, and its key.
func issue(
	template, parent *x509.Certificate, parentKey crypto.Signer, file, keyFile string,
) (crypto.Signer, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(lifetime)
	key, err := newKey(keyFile)
	if err != nil {
		return nil, err
	}
	if parentKey == nil {
		parentKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, err
	}
	return key, writePEM(file, "CERTIFICATE", der)
}

func newKey(file string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// The one form in which kube-apiserver also reads the public key from the file.
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(file, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
