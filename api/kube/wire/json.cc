// Reads lists item by item, because a tree of the whole list would take many times its size.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "api/convert/fields.h"
#include "api/convert/quote.h"
#include "api/kube/wire/encodings.h"
#include "api/kube/wire/item.h"
#include "api/manifests/fill.h"
#include "api/manifests/readers.h"
#include "svcmap/v1/control.pb.h"

namespace svcmap::kube {
namespace {

using api::TreeNode;

const TreeNode* JsonField(const TreeNode* map, std::string_view key) {
  return map == nullptr ? nullptr : map->Find(key);
}

std::string_view JsonText(const TreeNode* node) {
  return node != nullptr && node->type == TreeNode::Type::kString ? std::string_view(node->text)
                                                                  : std::string_view();
}

int32_t JsonNumber(const TreeNode* node) {
  int32_t number = 0;
  if (node != nullptr && node->type == TreeNode::Type::kNumber) {
    std::from_chars(node->text.data(), node->text.data() + node->text.size(), number);
  }
  return number;
}

std::optional<ObjectError> CheckJsonKind(Resource resource, const TreeNode& node,
                                         std::string_view suffix) {
  const std::string_view kind = JsonText(node.Find("kind"));
  const std::string_view api_version = JsonText(node.Find("apiVersion"));
  if (IsKind(kind, api_version, resource, suffix)) return std::nullopt;
  return ObjectError{"", absl::StrCat("unexpected kind \"", OneLine(kind), "\" of apiVersion \"",
                                      OneLine(api_version), "\"")};
}

// Reads an object. If `whole` is false, reads only its key and resourceVersion, for deleted
// objects.
std::optional<ObjectError> ReadJsonItem(Resource resource, const TreeNode& node, bool whole,
                                        Item& item) {
  if (const auto error = CheckJsonKind(resource, node, "")) return error;
  const TreeNode* metadata = node.Find("metadata");
  item.resource_version = JsonText(JsonField(metadata, "resourceVersion"));
  const auto set_key = [&] {
    return SetKey(resource, JsonText(JsonField(metadata, "namespace")),
                  JsonText(JsonField(metadata, "name")), item);
  };
  if (!whole) return set_key();
  v1::Object object;
  google::protobuf::Message& message = MutableMessage(KindOf(resource), object);
  if (const auto error = FillMessage(node, message)) {
    return ObjectError{error->field,
                       error->value.empty()
                           ? error->reason
                           : absl::StrCat("Invalid value: ", error->value, ": ", error->reason)};
  }
  if (const auto error = set_key()) return error;
  return SetChange(resource, api::Serialize(message), item);
}

bool TakeJsonStatus(const TreeNode* node, ApiStatus& status) {
  if (JsonText(JsonField(node, "kind")) != "Status") return false;
  status.code = JsonNumber(node->Find("code"));
  status.reason = OneLine(JsonText(node->Find("reason")));
  status.message = OneLine(JsonText(node->Find("message")));
  const int32_t seconds = JsonNumber(JsonField(node->Find("details"), "retryAfterSeconds"));
  status.retry_after_seconds = std::max(seconds, 0);
  return true;
}

// Reads {"kind":...,"metadata":{...},"items":[...]} in any order.
class JsonListReader {
 public:
  JsonListReader(Resource resource, std::string_view body, uint64_t max_items)
      : resource_(resource), rest_(body), max_items_(max_items) {}

  absl::StatusOr<ListPage> Read() {
    absl::Status status = Fields();
    if (status.ok() && !rest_.empty())
      status = WireError(resource_, "list", "unexpected data after the end");
    if (!status.ok()) return status;
    return std::move(page_);
  }

 private:
  absl::Status Fields() {
    if (!Next('{')) return Unexpected("{");
    if (Next('}')) return absl::OkStatus();
    while (true) {
      absl::StatusOr<api::Tree> key = Value("list");
      if (!key.ok()) return key.status();
      if (key->root->type != TreeNode::Type::kString) return Unexpected("a field");
      if (!Next(':')) return Unexpected(":");
      const absl::Status status =
          key->root->text == "items" && IsNext('[') ? Items() : Field(key->root->text);
      if (!status.ok()) return status;
      if (Next('}')) return absl::OkStatus();
      if (!Next(',')) return Unexpected(",");
    }
  }

  absl::Status Field(const std::string& name) {
    absl::StatusOr<api::Tree> value = Value(name);
    if (!value.ok()) return value.status();
    if (name == "metadata") {
      page_.resource_version = JsonText(value->root->Find("resourceVersion"));
      page_.continue_token = JsonText(value->root->Find("continue"));
    } else if (name == "kind" && !IsKind(JsonText(value->root), "", resource_, "List")) {
      return WireError(resource_, "list",
                       "unexpected kind \"" + OneLine(JsonText(value->root)) + "\"");
    } else if (name == "items" && value->root->type != TreeNode::Type::kNull) {
      return WireError(resource_, "items", "must be a list");
    }
    return absl::OkStatus();
  }

  absl::Status Items() {
    Next('[');
    if (Next(']')) return absl::OkStatus();
    while (true) {
      if (page_.items.size() >= max_items_) return TooManyItems(max_items_);
      const std::string where = absl::StrCat("items[", page_.items.size(), "]");
      absl::StatusOr<api::Tree> tree = Value(where);
      if (!tree.ok()) return tree.status();
      const auto error = ReadJsonItem(resource_, *tree->root, true, page_.items.emplace_back());
      if (error) return WireError(resource_, where, *error);
      if (Next(']')) return absl::OkStatus();
      if (!Next(',')) return Unexpected(",");
    }
  }

  absl::StatusOr<api::Tree> Value(std::string_view where) {
    api::ReadTree read = api::ReadJson(rest_, line_);
    if (auto* tree = std::get_if<api::Tree>(&read)) return std::move(*tree);
    return WireError(resource_, where, std::get<api::SyntaxError>(read).reason);
  }

  bool IsNext(char c) {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size()));
    return rest_.starts_with(c);
  }

  bool Next(char c) {
    if (!IsNext(c)) return false;
    rest_.remove_prefix(1);
    IsNext(c);  // Skips whitespace.
    return true;
  }

  absl::Status Unexpected(const char* wanted) {
    return WireError(resource_, "list",
                     absl::StrCat("invalid JSON: expected \"", wanted, "\" before \"",
                                  OneLine(rest_.substr(0, 16)), "\""));
  }

  const Resource resource_;
  std::string_view rest_;
  const uint64_t max_items_;
  int line_ = 1;
  ListPage page_;
};

}  // namespace

absl::StatusOr<ListPage> ReadJsonList(Resource resource, std::string_view body,
                                      uint64_t max_items) {
  if (!api::IsUtf8(body)) return WireError(resource, "list", "must be UTF-8 text");
  return JsonListReader(resource, body, max_items).Read();
}

absl::StatusOr<WatchEvent> ReadJsonEvent(Resource resource, std::string_view frame) {
  if (!api::IsUtf8(frame)) return WireError(resource, "event", "must be UTF-8 text");
  int line = 1;
  const api::ReadTree read = api::ReadJson(frame, line);
  if (const auto* error = std::get_if<api::SyntaxError>(&read)) {
    return WireError(resource, "event", error->reason);
  }
  const TreeNode& root = *std::get<api::Tree>(read).root;
  const std::string_view type_text = JsonText(root.Find("type"));
  const std::optional<WatchEvent::Type> type = ParseEventType(type_text);
  if (!type) {
    return WireError(resource, "event", absl::StrCat("unknown type \"", OneLine(type_text), "\""));
  }
  WatchEvent event;
  event.type = *type;
  const TreeNode* object = root.Find("object");
  if (*type == WatchEvent::Type::kError) {
    if (!TakeJsonStatus(object, event.status))
      event.status.message = "the event contains no Status";
    return event;
  }
  if (object == nullptr) return WireError(resource, "event: object", "Required value");
  if (*type == WatchEvent::Type::kBookmark) {
    if (const auto error = CheckJsonKind(resource, *object, "")) {
      return WireError(resource, "event: object", *error);
    }
    event.item.resource_version = JsonText(JsonField(object->Find("metadata"), "resourceVersion"));
    return event;
  }
  const bool whole = *type != WatchEvent::Type::kDeleted;
  if (const auto error = ReadJsonItem(resource, *object, whole, event.item)) {
    return WireError(resource, "event: object", *error);
  }
  return event;
}

bool ReadJsonStatus(std::string_view body, ApiStatus& status) {
  if (body.size() > kMaxObjectBytes || !api::IsUtf8(body)) return false;
  int line = 1;
  const api::ReadTree read = api::ReadJson(body, line);
  const auto* tree = std::get_if<api::Tree>(&read);
  return tree != nullptr && TakeJsonStatus(tree->root, status);
}

}  // namespace svcmap::kube
