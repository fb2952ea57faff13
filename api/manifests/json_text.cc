#include "api/manifests/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "api/log/printable.h"
#include "api/manifests/readers.h"

namespace svcmap::api {
namespace {

using Json = nlohmann::ordered_json;

// Returns `value` as JSON, which is also valid as a flow collection or scalar of YAML. `indent` is
// -1 for JSON on one line.
std::string Print(const Json& value, int indent) {
  const std::string json =
      value.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
  std::string out;
  for (std::string_view rest = json; !rest.empty();) {
    const size_t length = Utf8Length(rest);
    const std::string_view character = rest.substr(0, length);
    // A line break is indentation, because JSON escapes line breaks in strings.
    const bool escaped = character != "\n" && IsUnprintable(character);
    out += escaped ? Printable(character, length) : std::string(character);
    rest.remove_prefix(length);
  }
  // YAML does not allow noncharacters, and a parser may drop a byte order mark.
  return absl::StrReplaceAll(out,
                             {{"\ufeff", "\\ufeff"}, {"\ufffe", "\\ufffe"}, {"\uffff", "\\uffff"}});
}

// Returns true if a YAML 1.1 or 1.2 parser could interpret the plain scalar `text` as a type other
// than string. Examples from YAML 1.1: "no", "1_000".
bool NeedsQuotes(std::string_view text) {
  const auto harmless = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("-._/").find(c) != std::string_view::npos;
  };
  if (text.size() < 4 || !std::all_of(text.begin(), text.end(), harmless)) {
    constexpr std::string_view kShortWords[] = {"TCP", "UDP", "VIP", "web", "dns"};
    return std::find(std::begin(kShortWords), std::end(kShortWords), text) == std::end(kShortWords);
  }
  return !absl::ascii_isalpha(static_cast<unsigned char>(text[0])) ||
         PlainScalarType(text) != TreeNode::Type::kString;
}

std::string YamlScalar(const Json& value) {
  const bool plain = value.is_string() && !NeedsQuotes(value.get_ref<const std::string&>());
  return plain ? value.get<std::string>() : Print(value, -1);
}

// Returns the text before a value. YAML limits a key without "?" to 1,024 characters.
std::string YamlKey(const std::string& key, const std::string& indent) {
  const std::string scalar = YamlScalar(key);
  return scalar.size() > 1000 ? absl::StrCat("? ", scalar, "\n", indent, ":") : scalar + ":";
}

// Appends a map or list. The first line has no indentation.
void AppendYaml(const Json& collection, const std::string& indent, std::string& out) {
  std::string_view before;
  for (const auto& [key, value] : collection.items()) {
    absl::StrAppend(&out, std::string(before), collection.is_array() ? "-" : YamlKey(key, indent));
    before = indent;
    if (!value.is_structured() || value.empty()) {
      absl::StrAppend(&out, " ", YamlScalar(value), "\n");
    } else if (collection.is_array()) {
      out += ' ';
      AppendYaml(value, indent + "  ", out);
    } else {
      const std::string inner = value.is_array() ? indent : indent + "  ";
      absl::StrAppend(&out, "\n", inner);
      AppendYaml(value, inner, out);
    }
  }
}

}  // namespace

std::string JsonText(const Json& value) { return Print(value, 2) + "\n"; }

std::string JsonLine(const Json& value) { return Print(value, -1) + "\n"; }

std::string YamlText(const Json& value) {
  if (value.empty()) return JsonLine(value);
  std::string out;
  AppendYaml(value, "", out);
  return out;
}

}  // namespace svcmap::api
