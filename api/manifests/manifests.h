// Reads and writes Kubernetes manifests in YAML and JSON, including files with several documents
// and Lists. api/manifests handles only text and message structure. api/convert interprets the
// objects.
//
// Fields that svcmap does not read are ignored, because real manifests contain many such fields.
// Fields that Kubernetes does not have are ignored, too, and reported, because they are probably
// misspelled. A value of the wrong type, a duplicate field or a syntax error invalidates only the
// document that contains it. Of objects whose kind svcmap does not read, only the syntax is
// checked. Memory use is a small multiple of the text size because nesting and alias expansion are
// limited. All functions are thread-safe and have no state.
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
  int document = 0;         // Document number, starting at 1. 0 for the whole file.
  int line = 0;             // Line number, starting at 1. 0 if unknown.
  std::string object = {};  // Object such as "Service shop/web", or empty if unknown.
  std::string field = {};   // Path such as "spec.ports[0].port", or empty for the whole document.
  std::string value = {};   // Value of the field in JSON syntax, truncated. May be empty.
  std::string reason = {};  // "must be an integer"
  // True for an ignored object whose kind does not exist in an API group of a supported kind, or
  // whose kind or API group is probably misspelled.
  bool misspelled = false;

  // Example: "web.yaml: document 2, line 14: Service shop/web: spec.ports[0].port: Invalid value:
  // "http": must be an integer"
  std::string ToString() const;
};

// An object and its location in the source, for later findings.
struct ManifestObject {
  v1::Object object;
  std::string source;
  int document = 0;  // Counted from 1.
  int line = 0;      // First line of the object.
  // Warnings about fields that Kubernetes does not have, at most kMaxUnknownFields.
  std::vector<ManifestError> unknown_fields = {};
};

struct Manifests {
  std::vector<ManifestObject> objects;  // Objects in order of appearance.
  // Errors about parts that are not in `objects`. Contains at most kMaxManifestErrors errors for
  // each source, and one additional error with the number of omitted errors. The same limits apply
  // to misspelled objects, which are counted separately.
  std::vector<ManifestError> errors;
  // Warnings about ignored objects. The limits are the same as for `errors`.
  std::vector<ManifestError> warnings;
};

// Reads `text` as JSON if the first character is '{', and as YAML otherwise. `source` is the name
// of the source in error messages.
Manifests ReadManifests(std::string_view text, std::string_view source);

// Reads one file, or all *.yaml, *.yml and *.json files of a directory, sorted by name, without
// subdirectories. Returns an error with the path if `path` itself cannot be opened or listed. If a
// file in a directory cannot be read or exceeds kMaxManifestBytes, `errors` contains an error for
// the file.
absl::StatusOr<Manifests> ReadManifestPath(const std::string& path);

// Reads a regular file. Returns an error with the path if the file exceeds kMaxManifestBytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

inline constexpr size_t kMaxManifestBytes = size_t{1} << 30;  // Maximum size of one file.
inline constexpr size_t kMaxManifestErrors = 100;
inline constexpr int kMaxManifestDepth = 64;  // Maximum nesting of maps and lists.
// Maximum number of values after alias expansion.
inline constexpr size_t kMaxAliasValues = 100'000;
inline constexpr size_t kMaxAliasBytes = 10'000'000;

// Return `objects` as Kubernetes manifests, which ReadManifests can read. JSON output is one
// object, or a List of several objects. YAML output consists of documents separated by "---".
std::string ManifestJson(const std::vector<v1::Object>& objects);
std::string ManifestYaml(const std::vector<v1::Object>& objects);

}  // namespace svcmap::api
