// Generates certificates for tests, and a TLS client that reports the result of its handshake.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

struct evp_pkey_st;
struct x509_st;

namespace svcmap::testing {

// A certificate and its private key, both as PEM.
struct KeyPair {
  std::string certificate;
  std::string key;
};

class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);
  ~CertificateAuthority();

  const std::string& certificate() const { return pem_; }  // The certificate as PEM.

  // Issues a certificate. `names` contains subject alternative names in OpenSSL's notation, for
  // example "URI:spiffe://test/writer, DNS:a". A negative `lasts` issues an expired certificate.
  KeyPair Issue(const std::string& common_name, const std::string& names,
                std::chrono::seconds lasts = std::chrono::hours(1)) const;

 private:
  evp_pkey_st* key_ = nullptr;
  x509_st* certificate_ = nullptr;
  std::string pem_;
};

struct TlsProbe {
  KeyPair client;       // Empty for no client certificate.
  int max_version = 0;  // For example TLS1_1_VERSION. 0 permits the newest version.
};

struct TlsProbed {
  std::string server;  // Common name of the server certificate. Empty if the client received none.
  // Empty on success, otherwise OpenSSL's reason, for example "tlsv1 alert unknown ca".
  std::string problem;
};

// Connects to a gRPC server on 127.0.0.1. Returns when the server sends data or closes the
// connection.
TlsProbed ProbeTls(uint16_t port, const TlsProbe& probe);

// Returns a currently unused port.
uint16_t FreeTcpPort();

}  // namespace svcmap::testing
