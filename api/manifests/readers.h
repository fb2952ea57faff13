// The two parsers: text to tree. Neither throws, neither recurses deeper than kMaxManifestDepth.
// Pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/manifests/tree.h"

namespace svcmap::api {

using ReadTree = std::variant<Tree, SyntaxError>;

// One piece of a YAML stream between "---" lines, and the line of the stream it begins at.
struct YamlPiece {
  std::string_view text;
  int line = 1;
};

// Splits as Kubernetes' tools do, so that an error in one document leaves the others readable.
// A piece of nothing but blanks, comments and directives before the first "---" is left out.
std::vector<YamlPiece> SplitYaml(std::string_view text);

// Reads one document with YAML's core schema: quoted scalars are strings; plain ones may be null,
// booleans or numbers.
ReadTree ReadYaml(const YamlPiece& piece, AliasBudget& aliases,
                  Repeats repeats = Repeats::kRefused);

// Reads one JSON value (RFC 8259) from the front of `text`, removes it and the blanks around it,
// and adds the lines passed to `line`.
ReadTree ReadJson(std::string_view& text, int& line, Repeats repeats = Repeats::kRefused);

// Calls `document` for each document of a text, which is JSON if it begins with "{", else YAML; up
// to the first one whose end is not known. A byte order mark is taken, and what is not UTF-8 is an
// error.
void ReadDocuments(std::string_view text, Repeats repeats,
                   const std::function<void(const ReadTree&)>& document);

// What a plain YAML scalar means in the core schema: kNull, kBool, kNumber or kString.
TreeNode::Type PlainScalarType(std::string_view text);

}  // namespace svcmap::api
