#include "api/manifests/tree.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {
namespace {

// Returns the first field of `map` with a duplicate key, or null.
const std::pair<std::string, const TreeNode*>* FindRepeated(const TreeNode& map) {
  absl::flat_hash_set<std::string_view> keys;
  for (const auto& field : map.fields) {
    if (!keys.insert(field.first).second) return &field;
  }
  return nullptr;
}

// Reason of the error for more than kMaxManifestDepth levels.
std::string NestedTooDeep() {
  return absl::StrCat("maps and lists must not be nested deeper than ", kMaxManifestDepth,
                      " levels");
}

}  // namespace

const TreeNode* TreeNode::Find(std::string_view key) const {
  for (const auto& [name, value] : fields) {
    if (name == key) return value;
  }
  return nullptr;
}

const TreeNode* FindFlaw(const TreeNode& node) {
  if (node.type == TreeNode::Type::kFlaw) return &node;
  for (const TreeNode* item : node.items) {
    if (const TreeNode* flaw = FindFlaw(*item)) return flaw;
  }
  for (const auto& [name, value] : node.fields) {
    if (const TreeNode* flaw = FindFlaw(*value)) return flaw;
  }
  return nullptr;
}

bool TreeBuilder::BeginList(int line) { return Begin(TreeNode::Type::kList, line); }

bool TreeBuilder::BeginMap(int line) { return Begin(TreeNode::Type::kMap, line); }

bool TreeBuilder::Begin(TreeNode::Type type, int line) {
  if (open_.size() >= static_cast<size_t>(kMaxManifestDepth)) {
    return Fail(line, NestedTooDeep());
  }
  if (!open_.empty() && open_.back().node->type == TreeNode::Type::kMap && !open_.back().has_key) {
    return Fail(line, "the key of a map must be a scalar");
  }
  tree_.nodes.push_back({type, line, "", {}, {}});
  open_.push_back({&tree_.nodes.back(), Size{}, std::exchange(next_anchor_, "")});
  return true;
}

bool TreeBuilder::Add(TreeNode node) {
  const std::string anchor = std::exchange(next_anchor_, "");
  const bool is_key =
      !open_.empty() && open_.back().node->type == TreeNode::Type::kMap && !open_.back().has_key;
  if (is_key && node.text == "<<") {
    node = {TreeNode::Type::kFlaw,
            node.line,
            "merge keys (<<) are not supported; write the fields out",
            {},
            {}};
  }
  if (node.type == TreeNode::Type::kFlaw && flaws_ != Flaws::kMarked) {
    return Fail(node.line, std::move(node.text));
  }
  if (is_key) {
    Open& map = open_.back();
    map.has_key = true;
    if (node.type == TreeNode::Type::kFlaw) {
      map.flaw = AddFlaw(node.line, std::move(node.text));
    } else {
      map.key = std::move(node.text);
    }
    return true;
  }
  tree_.flawed |= node.type == TreeNode::Type::kFlaw;
  const Size size = {1, node.text.size(), 1};
  tree_.nodes.push_back(std::move(node));
  if (!anchor.empty()) anchors_[anchor] = {&tree_.nodes.back(), size};
  return Attach(&tree_.nodes.back(), size);
}

bool TreeBuilder::End() {
  const Open done = std::move(open_.back());
  open_.pop_back();
  const auto* field = flaws_ != Flaws::kKeepRepeats ? FindRepeated(*done.node) : nullptr;
  if (field != nullptr) {
    std::string reason = absl::StrCat("Duplicate value: ", Quote(field->first),
                                      ": a map must not contain a key twice");
    const int line = field->second->line;
    if (flaws_ == Flaws::kRejected) return Fail(line, std::move(reason));
    done.node->fields.emplace_back("", AddFlaw(line, std::move(reason)));
  }
  if (!done.anchor.empty()) anchors_[done.anchor] = {done.node, done.size};
  return Attach(done.node, done.size);
}

bool TreeBuilder::Alias(int line, const std::string& anchor) {
  if (std::ranges::any_of(open_, [&](const Open& open) { return open.anchor == anchor; })) {
    return Fail(line, "an alias must not refer to a value that contains the alias");
  }
  const auto target = anchors_.find(anchor);
  if (target == anchors_.end()) {
    return Fail(line, absl::StrCat("Not found: ", Quote(anchor),
                                   ": an alias must refer to an anchor before the alias"));
  }
  const auto& [node, size] = target->second;
  if (open_.size() + static_cast<size_t>(size.height) > static_cast<size_t>(kMaxManifestDepth)) {
    return Fail(line, NestedTooDeep());
  }
  if (size.values > aliases_.values || size.bytes > aliases_.bytes) {
    aliases_ = {};
    return Fail(line, absl::StrCat("aliases must not expand to more than ", kMaxAliasValues,
                                   " values or ", kMaxAliasBytes, " bytes"));
  }
  aliases_.values -= size.values;
  aliases_.bytes -= size.bytes;
  return Attach(node, size);
}

bool TreeBuilder::Attach(const TreeNode* node, Size size) {
  if (open_.empty()) {
    tree_.root = node;
    return true;
  }
  Open& parent = open_.back();
  if (parent.node->type == TreeNode::Type::kList) {
    parent.node->items.push_back(node);
  } else if (!parent.has_key) {
    return Fail(node->line, "the key of a map must not be an alias");
  } else {
    size.bytes += parent.key.size();
    if (parent.flaw != nullptr) node = std::exchange(parent.flaw, nullptr);
    parent.node->fields.emplace_back(std::exchange(parent.key, ""), node);
    parent.has_key = false;
  }
  parent.size.values += size.values;
  parent.size.bytes += size.bytes;
  parent.size.height = std::max(parent.size.height, size.height + 1);
  return true;
}

const TreeNode* TreeBuilder::AddFlaw(int line, std::string reason) {
  tree_.flawed = true;
  tree_.nodes.push_back({TreeNode::Type::kFlaw, line, std::move(reason), {}, {}});
  return &tree_.nodes.back();
}

bool TreeBuilder::Fail(int line, std::string reason) {
  error_ = {line, std::move(reason)};
  return false;
}

}  // namespace svcmap::api
