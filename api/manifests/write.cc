// Writes manifests. Fields are sorted by name, as in the output of kubectl.
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/convert/control_character.h"
#include "api/convert/quote.h"
#include "api/manifests/kinds.h"
#include "api/manifests/manifests.h"
#include "api/manifests/readers.h"
#include "google/protobuf/util/json_util.h"

namespace svcmap::api {
namespace {

using Type = TreeNode::Type;

void SortFields(TreeNode& node) {
  std::sort(node.fields.begin(), node.fields.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

// Returns `object` as a tree with apiVersion and kind, or an empty map if no field of `object` is
// set.
Tree ManifestTree(v1::Object object) {
  std::string json = "{}";
  const ManifestKind* kind = ManifestKindOf(object);
  if (kind != nullptr) {
    json.clear();
    // Fails only for values that the protocol does not allow, such as a Timestamp out of range.
    if (!google::protobuf::util::MessageToJsonString(MutableMessage(*kind, object), &json).ok()) {
      json = "{}";
    }
  }
  std::string_view rest = json;
  int line = 1;
  ReadTree read = ReadJson(rest, line);
  if (std::holds_alternative<SyntaxError>(read)) return Tree{};
  Tree tree = std::get<Tree>(std::move(read));
  TreeNode& root = tree.nodes.front();  // The root is the first node.
  if (kind != nullptr) {
    for (const auto& [field, text] :
         {std::pair("apiVersion", kind->api_version), {"kind", kind->name}}) {
      tree.nodes.push_back({Type::kString, 0, std::string(text), {}, {}});
      root.fields.emplace_back(field, &tree.nodes.back());
    }
  }
  for (TreeNode& node : tree.nodes) SortFields(node);
  return tree;
}

std::string JsonString(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (IsC1Control(text.substr(i))) {
      absl::StrAppendFormat(&out, "\\u%04x", static_cast<uint8_t>(text[++i]));
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
    } else {
      out += c;
    }
  }
  return out += '"';
}

void AppendJson(const TreeNode& node, const std::string& indent, std::string& out) {
  const std::string inner = indent + "  ";
  const bool map = node.type == Type::kMap;
  switch (node.type) {
    case Type::kMap:
    case Type::kList: {
      out += map ? "{" : "[";
      const char* separator = "\n";
      for (const auto& [name, value] : node.fields) {
        absl::StrAppend(&out, separator, inner, JsonString(name), ": ");
        AppendJson(*value, inner, out);
        separator = ",\n";
      }
      for (const TreeNode* item : node.items) {
        absl::StrAppend(&out, separator, inner);
        AppendJson(*item, inner, out);
        separator = ",\n";
      }
      if (*separator == ',') absl::StrAppend(&out, "\n", indent);
      out += map ? "}" : "]";
      return;
    }
    case Type::kString:
      out += JsonString(node.text);
      return;
    case Type::kNull:
      out += "null";
      return;
    default:
      out += node.text;
  }
}

// Returns true if a YAML 1.1 or 1.2 parser could interpret the plain scalar `text` as a type other
// than string. Examples from YAML 1.1: "no", "1_000".
bool NeedsQuotes(std::string_view text) {
  const auto harmless = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._/").find(c) != std::string_view::npos;
  };
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.size() < 4 || !std::all_of(text.begin(), text.end(), harmless)) {
    constexpr std::string_view kShortWords[] = {"TCP", "UDP", "VIP", "web", "dns"};
    return std::find(std::begin(kShortWords), std::end(kShortWords), text) == std::end(kShortWords);
  }
  if (!letter(text[0])) return true;
  return PlainScalarType(text) != Type::kString || text == "False" || text == "True";
}

uint32_t CodePoint(std::string_view utf8) {
  const auto first = static_cast<uint8_t>(utf8[0]);
  uint32_t code = utf8.size() == 1 ? first : first & (0x7fu >> utf8.size());
  for (const char c : utf8.substr(1)) code = code << 6 | (static_cast<uint8_t>(c) & 0x3fu);
  return code;
}

// Returns true for characters that are not printable in YAML, line breaks of YAML 1.1, and
// noncharacters.
bool NeedsEscape(uint32_t code) {
  return (code >= 0x7f && code <= 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff ||
         (code & 0xfffe) == 0xfffe || (code >= 0xfdd0 && code <= 0xfdef);
}

// Returns `text` as a double-quoted YAML scalar. yaml-cpp's quoting is not used, because it
// replaces noncharacters such as U+FFFE with U+FFFD.
std::string YamlString(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = std::max<size_t>(Utf8Length(text), 1);
    const std::string_view one = text.substr(0, length);
    if (const uint32_t code = CodePoint(one); NeedsEscape(code)) {
      out += absl::StrFormat("\\U%08x", code);
    } else {
      const std::string quoted = JsonString(one);
      out.append(quoted, 1, quoted.size() - 2);
    }
    text.remove_prefix(length);
  }
  return out += '"';
}

void EmitString(const std::string& text, YAML::Emitter& out) {
  if (NeedsQuotes(text)) {
    out.WriteIntegralType(YamlString(text));  // Writes the text unchanged.
  } else {
    out << text;
  }
}

void EmitYaml(const TreeNode& node, YAML::Emitter& out) {
  switch (node.type) {
    case Type::kMap:
      if (node.fields.empty()) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const auto& [name, value] : node.fields) {
        out << YAML::Key;
        EmitString(name, out);
        out << YAML::Value;
        EmitYaml(*value, out);
      }
      out << YAML::EndMap;
      return;
    case Type::kList:
      if (node.items.empty()) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const TreeNode* item : node.items) EmitYaml(*item, out);
      out << YAML::EndSeq;
      return;
    case Type::kString:
      return EmitString(node.text, out);
    case Type::kNull:
      out << YAML::Null;
      return;
    default:
      out << node.text;
  }
}

}  // namespace

std::string ManifestJson(const std::vector<v1::Object>& objects) {
  std::string out;
  if (objects.size() == 1) {
    const Tree tree = ManifestTree(objects[0]);
    if (tree.root != nullptr) AppendJson(*tree.root, "", out);
    return out += "\n";
  }
  out = "{\n  \"apiVersion\": \"v1\",\n  \"items\": [";
  const char* separator = "\n    ";
  for (const v1::Object& object : objects) {
    const Tree tree = ManifestTree(object);
    if (tree.root == nullptr) continue;
    out += separator;
    AppendJson(*tree.root, "    ", out);
    separator = ",\n    ";
  }
  return out +=
         objects.empty() ? "],\n  \"kind\": \"List\"\n}\n" : "\n  ],\n  \"kind\": \"List\"\n}\n";
}

std::string ManifestYaml(const std::vector<v1::Object>& objects) {
  std::string out;
  for (const v1::Object& object : objects) {
    const Tree tree = ManifestTree(object);
    if (tree.root == nullptr) continue;
    YAML::Emitter emitter;
    EmitYaml(*tree.root, emitter);
    absl::StrAppend(&out, out.empty() ? "" : "---\n", emitter.c_str(), "\n");
  }
  return out;
}

}  // namespace svcmap::api
