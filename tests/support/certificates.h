// Certificates for tests, made on the spot, and a TLS client that says how its handshake ended.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

struct evp_pkey_st;
struct x509_st;

namespace svcmap::testing {

// PEM.
struct KeyPair {
  std::string certificate;
  std::string key;
};

class CertificateAuthority {
 public:
  explicit CertificateAuthority(const std::string& name);
  ~CertificateAuthority();

  const std::string& certificate() const { return pem_; }  // PEM

  // `names` as OpenSSL writes subject alternative names: "URI:spiffe://test/writer, DNS:a"; none if
  // empty. `lasts` < 0: expired.
  KeyPair Issue(const std::string& common_name, const std::string& names,
                std::chrono::seconds lasts = std::chrono::hours(1)) const;

 private:
  evp_pkey_st* key_ = nullptr;
  x509_st* certificate_ = nullptr;
  std::string pem_;
};

struct TlsProbe {
  KeyPair client;       // Empty: none is shown.
  int max_version = 0;  // TLS1_1_VERSION and the like; 0: the newest.
};

struct TlsProbed {
  std::string server;   // Common name of its certificate; empty if it was not seen.
  std::string problem;  // Empty: let in. Else OpenSSL's reason: "tlsv1 alert unknown ca".
};

// Connects to a gRPC server on 127.0.0.1; returns when the server spoke or hung up.
TlsProbed ProbeTls(uint16_t port, const TlsProbe& probe);

// That nobody listens on just now.
uint16_t FreeTcpPort();

}  // namespace svcmap::testing
