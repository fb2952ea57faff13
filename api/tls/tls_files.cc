#include "api/tls/tls_files.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <memory>
#include <tuple>
#include <utility>

#include "nft/base/status.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxTlsFileBytes = 1024 * 1024;

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

absl::StatusOr<std::string> ReadPem(const std::string& path, const std::string& name) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) return ErrnoStatus(errno, name);
  std::string text;
  for (char block[16384];;) {
    const ssize_t bytes = read(file.get(), block, sizeof(block));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return ErrnoStatus(errno, name);
    if (bytes == 0) return text;
    text.append(block, static_cast<size_t>(bytes));
    if (text.size() > kMaxTlsFileBytes) {
      return absl::InvalidArgumentError(name + ": Too long: must have at most " +
                                        std::to_string(kMaxTlsFileBytes) + " bytes");
    }
  }
}

// Returns an error with `what` and the reason for OpenSSL's latest error. Clears OpenSSL's error
// queue of this thread, because gRPC also reads the queue.
absl::Status Problem(const std::string& what) {
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  const char* reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  return absl::InvalidArgumentError(reason == nullptr ? what : what + " (" + reason + ")");
}

Bio Open(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Fails for encrypted keys instead of prompting for a passphrase.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Status UsePair(SSL_CTX* context, const TlsMaterial& material, const TlsFiles& names) {
  const Bio certificates = Open(material.certificate);
  const Certificate certificate(PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr));
  if (!certificate) return Problem(names.certificate + ": contains no PEM certificate");
  if (SSL_CTX_use_certificate(context, certificate.get()) != 1) {
    return Problem(names.certificate + ": certificate rejected by OpenSSL");
  }
  while (Certificate next{PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr)}) {
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) {
      return Problem(names.certificate + ": intermediate certificate rejected by OpenSSL");
    }
  }
  ERR_clear_error();  // Clears the error that OpenSSL reports at the end of a PEM file.
  const Bio key_text = Open(material.key);
  const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, NoPassphrase, nullptr));
  if (!key) return Problem(names.key + ": contains no unencrypted PEM private key");
  if (X509_check_private_key(certificate.get(), key.get()) != 1) {
    return Problem(names.key + ": private key does not match the certificate in " +
                   names.certificate);
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return Problem(names.key + ": private key rejected by OpenSSL");
  }
  return absl::OkStatus();
}

absl::Status UseCa(SSL_CTX* context, const TlsMaterial& material, const TlsFiles& names) {
  const Bio text = Open(material.ca);
  size_t count = 0;
  while (const Certificate ca{PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr)}) {
    // Fails only for a certificate that is already in the store.
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), ca.get());
    SSL_CTX_add_client_CA(context, ca.get());
    ERR_clear_error();
    ++count;
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (count == 0) return Problem(names.ca + ": contains no PEM certificate");
  if (!at_end)
    return Problem(names.ca + ": invalid PEM data after certificate " + std::to_string(count));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files, const TlsFiles& names) {
  TlsMaterial material;
  material.server_name = files.server_name;
  for (const auto& [path, name, text] :
       {std::tuple(&files.certificate, &names.certificate, &material.certificate),
        std::tuple(&files.key, &names.key, &material.key),
        std::tuple(&files.ca, &names.ca, &material.ca)}) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> read = ReadPem(*path, *name);
    if (!read.ok()) return read.status();
    *text = *std::move(read);
  }
  return material;
}

absl::Status UseTlsMaterial(SSL_CTX* context, const TlsMaterial& material, const TlsFiles& names) {
  ERR_clear_error();
  absl::Status status;
  if (!names.certificate.empty() || !names.key.empty()) status = UsePair(context, material, names);
  if (status.ok() && !names.ca.empty()) status = UseCa(context, material, names);
  ERR_clear_error();
  return status;
}

absl::Status CheckTlsMaterial(const TlsMaterial& material, const TlsFiles& names) {
  return UseTlsMaterial(Context(SSL_CTX_new(TLS_method())).get(), material, names);
}

}  // namespace svcmap::api
