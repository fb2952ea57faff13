// Parsers for YAML and JSON text. The parsers throw no exceptions and limit their recursion depth
// to kMaxManifestDepth. Pure functions.
#pragma once

#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "api/manifests/tree.h"

namespace svcmap::api {

using ReadTree = std::variant<Tree, SyntaxError>;

// A part of a YAML stream between "---" lines, and the number of its first line in the stream.
struct YamlPiece {
  std::string_view text;
  int line = 1;
};

// Splits a YAML stream at "---" lines, as the Kubernetes tools do, so a syntax error affects only
// one document. Omits the first part if this part contains only whitespace, comments and
// directives.
std::vector<YamlPiece> SplitYaml(std::string_view text);

// Reads one document with the YAML core schema: quoted scalars are strings, and plain scalars can
// also be null, booleans or numbers.
ReadTree ReadYaml(const YamlPiece& piece, AliasBudget& aliases, Flaws flaws = Flaws::kRejected);

// Reads one JSON value (RFC 8259) at the start of `text`. Removes the value and surrounding
// whitespace from `text`, and adds the number of removed lines to `line`.
ReadTree ReadJson(std::string_view& text, int& line, Flaws flaws = Flaws::kRejected);

// Calls `document` for each document in `text`. `text` is JSON if the first character is "{", and
// YAML otherwise. Stops after a JSON syntax error. Skips a byte order mark. Text that is not valid
// UTF-8 causes an error.
void ReadDocuments(std::string_view text, Flaws flaws,
                   const std::function<void(const ReadTree&)>& document);

// Returns the type of a plain YAML scalar in the core schema: kNull, kBool, kNumber or kString.
TreeNode::Type PlainScalarType(std::string_view text);

}  // namespace svcmap::api
