// Kubernetes manifests as objects: reads YAML and JSON text, several documents, Lists, and writes
// held objects back in the same form. What the objects mean is api/convert's business; this room
// only knows text and the shape the protocol gives the objects.
//
// Fields the protocol does not have are skipped, as they are normal in real manifests. A value of
// the wrong type, a field given twice or a syntax error makes the document an error and the other
// documents are still read. Never more memory than a small multiple of the text: nesting and
// expanded aliases are bounded. Any thread; no state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::api {

// What is wrong with a piece of a manifest, for people.
struct ManifestError {
  std::string source = {};  // File name, as given.
  int document = 0;         // Counted from 1; 0: the file as a whole.
  int line = 0;             // Counted from 1; 0: unknown.
  std::string object = {};  // "Service shop/web"; empty: unknown.
  std::string field = {};   // "spec.ports[0].port"; empty: the document as a whole.
  std::string value = {};   // What stood there, as JSON would write it, shortened; may be empty.
  std::string reason = {};  // "is not an integer"

  // "web.yaml: document 2, line 14: Service shop/web: spec.ports[0].port "http" is not an integer"
  std::string ToString() const;
};

// Where an object came from, to name it in later findings.
struct ManifestObject {
  v1::Object object;
  std::string source;
  int document = 0;  // Counted from 1.
  int line = 0;      // Where the object begins.
};

struct Manifests {
  std::vector<ManifestObject> objects;  // In order of appearance.
  // Pieces that could not be read; none of them is in `objects`. At most kMaxManifestErrors of one
  // source, then one that counts the rest.
  std::vector<ManifestError> errors;
  std::vector<ManifestError> warnings;  // Objects of a kind we do not use; bounded like errors.
};

// Reads `text`; `source` only names it in errors. JSON when the first character is '{', YAML
// otherwise (which can be JSON too).
Manifests ReadManifests(std::string_view text, std::string_view source);

// Reads one file, or every *.yaml, *.yml and *.json directly in a directory, sorted by name.
// An error (naming the path) only when `path` itself cannot be opened or listed; a file of a
// directory that cannot be read, or is over kMaxManifestBytes, is one of the `errors`.
absl::StatusOr<Manifests> ReadManifestPath(const std::string& path);

// A regular file; an error that names the path also when it is over kMaxManifestBytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

inline constexpr size_t kMaxManifestBytes = size_t{1} << 30;  // Of one file.
inline constexpr size_t kMaxManifestErrors = 100;
inline constexpr int kMaxManifestDepth = 64;        // Nested maps and lists.
inline constexpr size_t kMaxAliasValues = 100'000;  // Of one text, all aliases written out.
inline constexpr size_t kMaxAliasBytes = 10'000'000;

// Kubernetes manifests of `objects`: one JSON object, or a List when there are several; YAML
// documents separated by "---". ReadManifests gives the same objects back.
std::string ManifestJson(const std::vector<v1::Object>& objects);
std::string ManifestYaml(const std::vector<v1::Object>& objects);

}  // namespace svcmap::api
