// Reads and writes Kubernetes manifests: YAML and JSON, several documents, Lists. api/manifests
// handles only text and message structure. api/convert interprets the objects.
//
// Fields that the protocol does not have are ignored because real manifests contain many of them. A
// value of the wrong type, a duplicate field or a syntax error invalidates only the document that
// contains it. Memory use is a small multiple of the text size because nesting and alias expansion
// are limited. The functions are thread-safe and have no state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// An error or warning about a part of a manifest.
struct ManifestError {
  std::string source = {};  // File name.
  int document = 0;         // Counted from 1. 0 for the whole file.
  int line = 0;             // Counted from 1. 0 if unknown.
  std::string object = {};  // "Service shop/web". Empty if unknown.
  std::string field = {};   // "spec.ports[0].port". Empty for the whole document.
  std::string value = {};   // Value of the field in JSON syntax, truncated. May be empty.
  std::string reason = {};  // "must be an integer"

  // "web.yaml: document 2, line 14: Service shop/web: spec.ports[0].port: Invalid value: "http":
  // must be an integer"
  std::string ToString() const;
};

// An object and its location in the source, for later findings.
struct ManifestObject {
  v1::Object object;
  std::string source;
  int document = 0;  // Counted from 1.
  int line = 0;      // First line of the object.
};

struct Manifests {
  std::vector<ManifestObject> objects;  // Objects in order of appearance.
  // Errors; the affected parts are not in `objects`. At most kMaxManifestErrors for each source,
  // and one more that counts the omitted errors.
  std::vector<ManifestError> errors;
  std::vector<ManifestError> warnings;  // Ignored objects. Limited in the same way as `errors`.
};

// Reads `text` as JSON if the first character is '{', and as YAML otherwise. `source` is the name
// in errors.
Manifests ReadManifests(std::string_view text, std::string_view source);

// Reads one file, or all *.yaml, *.yml and *.json files of a directory, sorted by name, without
// subdirectories. Returns an error with the path if `path` itself cannot be opened or listed. Files
// of a directory that cannot be read, or that exceed kMaxManifestBytes, are in `errors`.
absl::StatusOr<Manifests> ReadManifestPath(const std::string& path);

// Reads a regular file. Returns an error with the path if the file exceeds kMaxManifestBytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

inline constexpr size_t kMaxManifestBytes = size_t{1} << 30;  // Maximum size of one file.
inline constexpr size_t kMaxManifestErrors = 100;
inline constexpr int kMaxManifestDepth = 64;  // Maximum nesting of maps and lists.
// Maximum number of values after alias expansion.
inline constexpr size_t kMaxAliasValues = 100'000;
inline constexpr size_t kMaxAliasBytes = 10'000'000;

// Return Kubernetes manifests of `objects`. JSON: one object, or a List of several objects. YAML:
// documents separated by "---". ReadManifests reads the same objects back.
std::string ManifestJson(const std::vector<v1::Object>& objects);
std::string ManifestYaml(const std::vector<v1::Object>& objects);

}  // namespace svcmap::api
