// Replaces the names of Kubernetes objects in a support bundle with hashes.
#pragma once

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// Equal names have equal hashes within a bundle. Hashes cannot be reversed by hashing likely names,
// because each bundle has another random salt, which is not stored. Addresses, ports and port names
// are not replaced.
class NameHash {
 public:
  explicit NameHash(std::string salt) : salt_(std::move(salt)) {}
  static std::string RandomSalt();

  // Adds the namespace and the names of `object`, and the node names of its endpoints.
  void Learn(const v1::Object& object);
  // Adds a name. Ignores names without letters, because a number in a text is usually not a name.
  void Learn(const std::string& name);

  // Replaces all words that are names. A word consists of letters, digits, dots and hyphens.
  std::string Text(std::string_view text) const;
  // Replaces only words between quotation marks, so that keywords of a language stay readable.
  std::string QuotedText(std::string_view text) const;
  // Replaces words in all string values of lines of JSON, but not in keys such as label names.
  std::string JsonLines(std::string_view lines) const;

 private:
  std::string Word(std::string_view word) const;

  const std::string salt_;
  absl::flat_hash_map<std::string, std::string> hashes_;
};

}  // namespace svcmap::api
