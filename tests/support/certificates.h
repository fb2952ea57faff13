// Generates certificates for tests, and a TLS client that reports the result of its handshake.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

struct evp_pkey_st;
struct ssl_ctx_st;
struct x509_st;

namespace svcmap::testing {

// A certificate and its private key, both as PEM.
struct KeyPair {
  std::string certificate;
  std::string key;
};

// Configures the certificate and the key of one side of a TLS connection.
bool UsePair(ssl_ctx_st* context, const KeyPair& pair);

class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);
  ~CertificateAuthority();

  const std::string& certificate() const { return pem_; }  // The certificate as PEM.

  // Issues a certificate. `names` lists subject alternative names in OpenSSL's notation, for
  // example "URI:spiffe://test/writer, DNS:a". A negative `lasts` issues an expired certificate.
  KeyPair Issue(const std::string& common_name, const std::string& names,
                std::chrono::seconds lasts = std::chrono::hours(1)) const;

 private:
  evp_pkey_st* key_ = nullptr;
  x509_st* certificate_ = nullptr;
  std::string pem_;
};

struct TlsProbe {
  KeyPair client;       // Client certificate and key. Empty if the client has no certificate.
  int max_version = 0;  // Maximum TLS version, for example TLS1_1_VERSION. 0 permits all versions.
  std::string source = "127.0.0.1";  // IPv4 address of the client.
};

struct TlsProbed {
  // Common name of the server certificate. Empty if the client did not receive a certificate.
  std::string server;
  // OpenSSL's reason for the failure, for example "tlsv1 alert unknown ca". Empty on success.
  std::string problem;
};

// Connects to a gRPC server on 127.0.0.1. Returns when the server has sent data or closed the
// connection.
TlsProbed ProbeTls(uint16_t port, const TlsProbe& probe);

// Returns a currently unused port, and each port only once in a process.
uint16_t FreeTcpPort();

}  // namespace svcmap::testing
