#include "api/manifests/manifests.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/convert/kinds.h"
#include "api/convert/quote.h"
#include "api/log/printable.h"
#include "api/manifests/fill.h"
#include "api/manifests/json_text.h"
#include "api/manifests/known_fields.h"
#include "api/manifests/readers.h"
#include "google/protobuf/util/json_util.h"

namespace svcmap::api {
namespace {

using Type = TreeNode::Type;

// Returns a string field of a map, or "" if the field is missing or not a string.
std::string_view StringField(const TreeNode* map, std::string_view key) {
  const TreeNode* value = map == nullptr ? nullptr : map->Find(key);
  return value != nullptr && value->type == Type::kString ? std::string_view(value->text) : "";
}

// Returns text such as "Service shop/web", or only the known parts of this text if the object is
// incomplete.
std::string DescribeObject(const TreeNode& root, std::string_view kind) {
  const TreeNode* metadata = root.Find("metadata");
  const std::string_view name_space = StringField(metadata, "namespace");
  const std::string_view name = StringField(metadata, "name");
  std::string text = kind.empty() ? "(no kind)" : Escape(kind);
  if (!name.empty()) {
    absl::StrAppend(&text, " ", name_space.empty() ? "" : Escape(name_space) + "/", Escape(name));
  }
  return text;
}

// Reads the documents of one source, one after another.
class Reader {
 public:
  Reader(std::string_view source, Manifests& out) : source_(source), out_(out) {}

  void Document(const ReadTree& read) {
    ++document_;
    if (const auto* error = std::get_if<SyntaxError>(&read)) {
      Error({.line = error->line, .reason = error->reason});
    } else if (const Tree& tree = std::get<Tree>(read);
               tree.root != nullptr && tree.root->type != Type::kNull) {
      flawed_ = tree.flawed;
      Value(*tree.root, {}, {});
    }
  }

  void End() {
    Count(errors_, "%d more errors omitted", out_.errors);
    Count(warnings_, "%d more ignored objects omitted", out_.warnings);
    Count(misspelled_, "%d more misspelled objects omitted", out_.errors, /*misspelled=*/true);
  }

 private:
  void Error(ManifestError error) { Keep(std::move(error), errors_, out_.errors); }

  void Keep(ManifestError error, size_t& count, std::vector<ManifestError>& out) {
    if (count++ >= kMaxManifestErrors) return;
    out.push_back(Located(std::move(error)));
  }

  ManifestError Located(ManifestError error) const {
    error.source = source_;
    error.document = document_;
    return error;
  }

  // Reports the first flaw in an object. Returns false if there is none.
  bool ReportFlaw(const TreeNode& node, std::string_view kind) {
    const TreeNode* flaw = flawed_ ? FindFlaw(node) : nullptr;
    if (flaw == nullptr) return false;
    Error({.line = flaw->line,
           .object = kind.empty() ? "" : DescribeObject(node, kind),
           .reason = flaw->text});
    return true;
  }

  void Count(size_t count, const absl::FormatSpec<size_t>& text, std::vector<ManifestError>& out,
             bool misspelled = false) {
    if (count <= kMaxManifestErrors) return;
    out.push_back({.source = source_,
                   .reason = absl::StrFormat(text, count - kMaxManifestErrors),
                   .misspelled = misspelled});
  }

  // `kind` and `api_version` come from a typed list, and apply to items without these fields.
  void Value(const TreeNode& node, std::string_view api_version, std::string_view kind) {
    if (node.type != Type::kMap) {
      if (ReportFlaw(node, {})) return;
      return Error({.line = node.line, .value = ShowScalar(node), .reason = "must be a map"});
    }
    if (node.Find("kind") != nullptr || kind.empty()) kind = StringField(&node, "kind");
    if (node.Find("apiVersion") != nullptr || api_version.empty()) {
      api_version = StringField(&node, "apiVersion");
    }
    for (const auto& [field, text] : {std::pair("kind", kind), {"apiVersion", api_version}}) {
      if (!text.empty() || (!kind.empty() && !IsReadKind(kind))) continue;
      if (ReportFlaw(node, kind)) return;
      return Error({.line = node.line,
                    .object = DescribeObject(node, kind),
                    .field = field,
                    .reason = "Required value: must be a string"});
    }
    if (kind.ends_with("List") && IsReadKind(kind)) {
      const TreeNode* items = node.Find("items");
      if (items == nullptr) {
        return Error({.line = node.line,
                      .object = DescribeObject(node, kind),
                      .field = "items",
                      .reason = "Required value: must be a list"});
      }
      kind.remove_suffix(4);
      return Items(*items, kind.empty() ? "" : api_version, kind);
    }
    Object(node, api_version, kind);
  }

  // Returns true for "Service", "ServiceList" and "List", even if svcmap does not read the API
  // group.
  static bool IsReadKind(std::string_view kind) {
    if (kind.ends_with("List")) kind.remove_suffix(4);
    return kind.empty() || std::any_of(kKinds.begin(), kKinds.end(),
                                       [&](const KindInfo& info) { return info.name == kind; });
  }

  // The same kind in another API group is another kind, for example in Knative. The groups of such
  // kinds contain a dot.
  static bool IsMisspelledGroup(std::string_view group, std::string_view expected) {
    return group.find('.') == std::string_view::npos || IsSimilar(group, expected);
  }

  void Items(const TreeNode& items, std::string_view api_version, std::string_view kind) {
    if (items.type == Type::kNull) return;
    if (items.type != Type::kList) {
      return Error({.line = items.line,
                    .field = "items",
                    .value = ShowScalar(items),
                    .reason = "must be a list"});
    }
    for (const TreeNode* item : items.items) Value(*item, api_version, kind);
  }

  void Object(const TreeNode& node, std::string_view api_version, std::string_view kind) {
    const KindInfo* known = FindKind(api_version, kind);
    if (known == nullptr) {
      std::string reason = absl::StrCat(
          "ignored because svcmap does not support this kind in apiVersion ", Quote(api_version));
      const auto similar = std::find_if(kKinds.begin(), kKinds.end(), [&](const KindInfo& info) {
        return kind == info.name ? IsMisspelledGroup(GroupOf(api_version), info.group)
                                 : IsSimilar(kind, info.name);
      });
      const bool misspelled = similar != kKinds.end() || !IsUnreadKind(api_version, kind);
      if (similar != kKinds.end()) {
        absl::StrAppend(&reason, "; did you mean ", Quote(similar->name), " in apiVersion ",
                        Quote(similar->api_version), "?");
      } else if (misspelled) {
        absl::StrAppend(&reason,
                        "; it supports Service and Node in v1, EndpointSlice in "
                        "discovery.k8s.io/v1, and ServiceCIDR in networking.k8s.io/v1");
      }
      return Keep({.line = node.line,
                   .object = DescribeObject(node, kind),
                   .reason = std::move(reason),
                   .misspelled = misspelled},
                  misspelled ? misspelled_ : warnings_, misspelled ? out_.errors : out_.warnings);
    }
    if (known->api_version != api_version) {
      return Error({.line = node.line,
                    .object = DescribeObject(node, kind),
                    .field = "apiVersion",
                    .value = Quote(api_version),
                    .reason = absl::StrCat("must be ", Quote(known->api_version))});
    }
    if (ReportFlaw(node, kind)) return;
    ManifestObject object;
    google::protobuf::Message& message = MutableMessage(*known, object.object);
    std::vector<UnknownField> unknown;
    if (auto error = FillMessage(node, message, unknown)) {
      return Error({.line = error->line,
                    .object = DescribeObject(node, kind),
                    .field = std::move(error->field),
                    .value = std::move(error->value),
                    .reason = std::move(error->reason)});
    }
    if (known->namespaced) DefaultNamespace(object.object);
    if (object.object.has_endpoint_slice()) {
      DefaultPortNames(*object.object.mutable_endpoint_slice());
    }
    object.source = source_;
    object.document = document_;
    object.line = node.line;
    for (UnknownField& field : unknown) {
      std::string reason = "unknown field, which is ignored";
      if (!field.similar.empty()) {
        absl::StrAppend(&reason, "; did you mean ", Quote(field.similar), "?");
      }
      object.unknown_fields.push_back(Located({.line = field.line,
                                               .object = DescribeObject(node, kind),
                                               .field = std::move(field.field),
                                               .reason = std::move(reason)}));
    }
    out_.objects.push_back(std::move(object));
  }

  // Sets an absent namespace to "default", as kubectl does without --namespace.
  static void DefaultNamespace(v1::Object& object) {
    v1::ObjectMeta* metadata = object.has_service()
                                   ? object.mutable_service()->mutable_metadata()
                                   : object.mutable_endpoint_slice()->mutable_metadata();
    if (metadata->namespace_().empty()) metadata->set_namespace_("default");
  }

  // Sets absent port names to "", as the Kubernetes API server does.
  static void DefaultPortNames(v1::EndpointSlice& slice) {
    for (v1::EndpointPort& port : *slice.mutable_ports()) {
      if (!port.has_name()) port.set_name("");
    }
  }

  std::string source_;
  Manifests& out_;
  int document_ = 0;
  bool flawed_ = false;  // The document contains a flaw.
  size_t errors_ = 0;
  size_t warnings_ = 0;
  size_t misspelled_ = 0;
};

// Returns the line of the first invalid UTF-8 sequence or NUL byte, or 0 if `text` is valid.
int FindBadUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0 || text[i] == '\0') {
      return 1 +
             static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(i), '\n'));
    }
    i += length;
  }
  return 0;
}

namespace fs = std::filesystem;

absl::Status PathError(const std::string& path, std::string_view problem) {
  return absl::NotFoundError(absl::StrCat(path, ": ", std::string(problem)));
}

bool IsManifestName(const fs::path& path) {
  return path.extension() == ".yaml" || path.extension() == ".yml" || path.extension() == ".json";
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    // Subdirectories are ignored, as in kubectl. Dangling links and special files cause an error
    // when they are read.
    std::error_code ignored;
    if (IsManifestName(entry->path()) && !entry->is_directory(ignored)) {
      files.push_back(entry->path().string());
    }
  }
  if (error) return PathError(path, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

template <typename T>
void MoveAppend(std::vector<T>& from, std::vector<T>& to) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

// Returns `object` with apiVersion and kind, or an empty map if no field of `object` is set. The
// fields are sorted by name, as in the output of kubectl.
nlohmann::json ManifestTree(v1::Object object) {
  const KindInfo* kind = FindKindOfField(object.object_case());
  if (kind == nullptr) return nlohmann::json::object();
  std::string text;
  // Fails only for values that the protocol does not allow, such as a Timestamp out of range.
  if (!google::protobuf::util::MessageToJsonString(MutableMessage(*kind, object), &text).ok()) {
    text = "{}";
  }
  nlohmann::json tree = nlohmann::json::parse(text);
  tree["apiVersion"] = kind->api_version;
  tree["kind"] = kind->name;
  return tree;
}

}  // namespace

std::string ManifestError::ToString() const {
  std::string text = source;
  if (document > 0) absl::StrAppend(&text, ": document ", document);
  if (line > 0) absl::StrAppend(&text, ", line ", line);
  if (!object.empty()) absl::StrAppend(&text, ": ", object);
  if (!field.empty()) absl::StrAppend(&text, ": ", field);
  if (!value.empty()) absl::StrAppend(&text, ": Invalid value: ", value);
  absl::StrAppend(&text, ": ", reason);
  return text;
}

void ReadDocuments(std::string_view text, Flaws flaws,
                   const std::function<void(const ReadTree&)>& document) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // Skips a byte order mark.
  if (const int line = FindBadUtf8(text); line > 0) {
    return document(SyntaxError{line, "must be UTF-8 text"});
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return;
  if (text[first] != '{') {
    AliasBudget aliases = {kMaxAliasValues, kMaxAliasBytes};
    for (const YamlPiece& piece : SplitYaml(text)) document(ReadYaml(piece, aliases, flaws));
    return;
  }
  int line = 1;
  while (!text.empty()) {
    const ReadTree read = ReadJson(text, line, flaws);
    document(read);
    if (std::holds_alternative<SyntaxError>(read))
      return;  // Stops, because the start of the next document is unknown.
  }
}

Manifests ReadManifests(std::string_view text, std::string_view source) {
  Manifests manifests;
  Reader reader(source, manifests);
  ReadDocuments(text, Flaws::kMarked, [&](const ReadTree& read) { reader.Document(read); });
  reader.End();
  return manifests;
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);  // Fails unless `path` is a regular file.
  if (error) return PathError(path, error.message());
  if (size > kMaxManifestBytes) {
    return PathError(path,
                     absl::StrCat("Too long: must have at most ", kMaxManifestBytes, " bytes"));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (!file && !file.eof()) return PathError(path, "read failed");
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

absl::StatusOr<Manifests> ReadManifestPath(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const absl::StatusOr<std::string> text = ReadTextFile(path);
    if (!text.ok()) return text.status();
    return ReadManifests(*text, path);
  }
  const absl::StatusOr<std::vector<std::string>> files = ListDirectory(path);
  if (!files.ok()) return files.status();
  Manifests all;
  for (const std::string& file : *files) {
    const absl::StatusOr<std::string> text = ReadTextFile(file);
    if (!text.ok()) {
      const std::string message(text.status().message());
      all.errors.push_back({.source = file, .reason = message.substr(file.size() + 2)});
      continue;
    }
    Manifests some = ReadManifests(*text, file);
    MoveAppend(some.objects, all.objects);
    MoveAppend(some.errors, all.errors);
    MoveAppend(some.warnings, all.warnings);
  }
  return all;
}

std::string ManifestJson(const std::vector<v1::Object>& objects) {
  if (objects.size() == 1) return JsonText(ManifestTree(objects[0]));
  nlohmann::json items = nlohmann::json::array();
  for (const v1::Object& object : objects) items.push_back(ManifestTree(object));
  return JsonText({{"apiVersion", "v1"}, {"items", std::move(items)}, {"kind", "List"}});
}

std::string ManifestYaml(const std::vector<v1::Object>& objects) {
  std::string out;
  for (const v1::Object& object : objects) {
    absl::StrAppend(&out, out.empty() ? "" : "---\n", YamlText(ManifestTree(object)));
  }
  return out;
}

}  // namespace svcmap::api
