#include "api/config/fields.h"

#include <cmath>
#include <functional>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "api/config/go_duration.h"
#include "api/convert/quote.h"
#include "api/manifests/fill.h"
#include "api/manifests/readers.h"

namespace svcmap::api {
namespace {

constexpr char kUnknown[] = "unknown field of KubeProxyConfiguration, ignored";

using Type = TreeNode::Type;
using Duration = KubeProxyConfiguration::Duration;

// Result of a Read function: the expected type if the value has a different type, or nullopt on
// success.
using Wanted = std::optional<std::string>;

Wanted Read(const TreeNode& node, std::string& value) {
  if (node.type != Type::kString) return "a string";
  value = node.text;
  return std::nullopt;
}

Wanted Read(const TreeNode& node, bool& value) {
  if (node.type != Type::kBool) return "true or false";
  value = node.text == "true";
  return std::nullopt;
}

Wanted Read(const TreeNode& node, int32_t& value) {
  if (node.type != Type::kNumber || !absl::SimpleAtoi(node.text, &value)) {
    return "a 32-bit integer";
  }
  return std::nullopt;
}

Wanted Read(const TreeNode& node, double& value) {
  if (node.type != Type::kNumber || !absl::SimpleAtod(node.text, &value) || !std::isfinite(value)) {
    return "a number";
  }
  return std::nullopt;
}

Wanted Read(const TreeNode& node, Duration& value) {
  const auto duration = node.type == Type::kString ? ParseGoDuration(node.text) : std::nullopt;
  if (!duration) return "a duration, such as \"30s\" or \"1h15m0s\"";
  value = *duration;
  return std::nullopt;
}

Wanted Read(const TreeNode& node, AnyScalar& value) {
  if (node.type == Type::kList || node.type == Type::kMap) return "a single value";
  value.text = node.text;
  return std::nullopt;
}

Wanted Read(const TreeNode& node, Unread& value) {
  value.set = !node.items.empty() || !node.fields.empty();
  return std::nullopt;
}

Wanted Read(const TreeNode& node, std::vector<std::string>& value) {
  if (node.type != Type::kList) return "a list of strings";
  std::vector<std::string> items(node.items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    if (Read(*node.items[i], items[i])) return "a list of strings";
  }
  value = std::move(items);
  return std::nullopt;
}

std::string ShowNode(const TreeNode& node) {
  if (node.type == Type::kList) return "a list";
  if (node.type == Type::kMap) return "a map";
  return ShowScalar(node);
}

Wanted Read(const TreeNode& node, std::map<std::string, bool>& value) {
  std::map<std::string, bool> gates;
  constexpr char kGates[] = "a map of names to true or false";
  if (node.type != Type::kMap) return kGates;
  for (const auto& [name, item] : node.fields) {
    if (!Read(*item, gates[name])) continue;
    return absl::StrCat(kGates, ", but the value of ", Escape(name), " is ", ShowNode(*item));
  }
  value = std::move(gates);
  return std::nullopt;
}

class ConfigurationReader {
 public:
  explicit ConfigurationReader(ReadConfiguration& result) : result_(result) {
    VisitConfigurationFields(result.config, [this](const char* path, auto& member, Use) {
      readers_[path] = [&member](const TreeNode& node) { return Read(node, member); };
    });
  }

  void Root(const TreeNode& root) {
    if (root.type != Type::kMap) return Error(root, "the file", "a map of fields");
    const bool version = CheckHead(root, "apiVersion", kConfigurationApiVersion);
    const bool kind = CheckHead(root, "kind", kConfigurationKind);
    if (version && kind) Map(root, "");
  }

 private:
  // Checks apiVersion or kind.
  bool CheckHead(const TreeNode& root, std::string_view name, std::string_view wanted) {
    const TreeNode* value = root.Find(name);
    if (value != nullptr && value->type == Type::kString && value->text == wanted) return true;
    if (value != nullptr) {
      Error(*value, std::string(name), Quote(wanted));
    } else {
      result_.errors.push_back(
          absl::StrCat(std::string(name), ": Required value: must be ", Quote(wanted)));
    }
    return false;
  }

  // Reads the fields of a section. `prefix` is "" or ends with a dot.
  void Map(const TreeNode& map, const std::string& prefix) {
    std::map<std::string_view, size_t> last;  // Position of the last occurrence of each key.
    for (size_t i = 0; i < map.fields.size(); ++i) {
      const auto& [name, value] = map.fields[i];
      if (const auto [at, first] = last.emplace(name, i); !first) {
        at->second = i;
        Find(*value, Escape(prefix + name), "duplicate field, the last value is used");
      }
    }
    for (size_t i = 0; i < map.fields.size(); ++i) {
      const auto& [name, value] = map.fields[i];
      if (last[name] != i) continue;
      // The key "conntrack.min" does not refer to the field "min" of the section "conntrack".
      if (std::string_view(name).find('.') == std::string_view::npos) {
        Field(prefix + name, *value);
      } else {
        Find(*value, Escape(prefix + name), kUnknown);
      }
    }
  }

  void Field(const std::string& path, const TreeNode& value) {
    if (path == "apiVersion" || path == "kind") return;
    if (const auto reader = readers_.find(path); reader != readers_.end()) {
      if (value.type == Type::kNull) return;
      if (const Wanted wanted = reader->second(value)) Error(value, path, *wanted);
    } else if (IsSection(path)) {
      if (value.type == Type::kMap) return Map(value, path + ".");
      if (value.type != Type::kNull) Error(value, path, "a map of fields");
    } else {
      Find(value, Escape(path), kUnknown);
    }
  }

  bool IsSection(const std::string& path) const {
    const auto next = readers_.lower_bound(path + ".");
    return next != readers_.end() && next->first.starts_with(path + ".");
  }

  void Find(const TreeNode& node, const std::string& path, const char* what) {
    result_.findings.push_back(absl::StrCat(path, " (line ", node.line, "): ", what));
  }

  void Error(const TreeNode& node, const std::string& path, const std::string& wanted) {
    result_.errors.push_back(absl::StrCat(
        path, " (line ", node.line, "): Invalid value: ", ShowNode(node), ": must be ", wanted));
  }

  ReadConfiguration& result_;
  std::map<std::string, std::function<Wanted(const TreeNode&)>> readers_;
};

}  // namespace

void ReadConfigurationFields(std::string_view text, ReadConfiguration& result) {
  int documents = 0;
  ReadDocuments(text, Flaws::kKeepRepeats, [&](const ReadTree& read) {
    const auto* error = std::get_if<SyntaxError>(&read);
    if (++documents == 2) {
      result.findings.push_back(
          "the file has several YAML documents, only the first document is used");
    } else if (documents == 1 && error != nullptr) {
      result.errors.push_back(absl::StrCat("line ", error->line, ": ", error->reason));
    } else if (documents == 1 && std::get<Tree>(read).root == nullptr) {
      documents = 0;  // The document contains only comments.
    } else if (documents == 1) {
      ConfigurationReader(result).Root(*std::get<Tree>(read).root);
    }
  });
  if (documents == 0) {
    result.errors.push_back("the file is empty: must contain a KubeProxyConfiguration");
  }
}

}  // namespace svcmap::api
