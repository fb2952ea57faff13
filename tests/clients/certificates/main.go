// Writes a CA, another CA, and the certificates of a server on 127.0.0.1 and of a client to a folder. The
// files expired-server.pem and expired-client.pem contain certificates that have expired.
package main

import (
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

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// issue writes a certificate that the parent signs, or a CA if there is no parent.
func issue(name string, valid time.Duration, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		BasicConstraintsValid: true, IsCA: parent == nil,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	check(err)
	private, err := x509.MarshalECPrivateKey(key)
	check(err)
	path := filepath.Join(os.Args[1], name)
	check(os.WriteFile(path+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check(os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}), 0o600))
	return template, key
}

func main() {
	ca, key := issue("ca", time.Hour, nil, nil)
	issue("other-ca", time.Hour, nil, nil)
	issue("server", time.Hour, ca, key)
	issue("client", time.Hour, ca, key)
	issue("expired-server", -time.Minute, ca, key)
	issue("expired-client", -time.Minute, ca, key)
}
