// A YAML or JSON document as a tree of maps, lists and scalars, with line numbers: what both
// readers produce and what fill.h reads. Aliases share the node they mean, so a tree is never
// larger than its text; what it would be with every alias written out is bounded.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace svcmap::api {

struct TreeNode {
  enum class Type : uint8_t { kNull, kBool, kNumber, kString, kList, kMap };

  Type type = Type::kNull;
  int line = 0;      // Counted from 1.
  std::string text;  // kNumber: as written; kBool: "true" or "false"; kString: the string.
  std::vector<const TreeNode*> items;                           // kList.
  std::vector<std::pair<std::string, const TreeNode*>> fields;  // kMap, in order.

  // The first value of `key`, or null.
  const TreeNode* Find(std::string_view key) const;
};

struct SyntaxError {
  int line = 0;
  std::string reason;
};

struct Tree {
  std::deque<TreeNode> nodes;
  const TreeNode* root = nullptr;  // Null: an empty document.
};

// What aliases may stand for, written out: more than a tree that shares nodes, once it is messages.
struct AliasBudget {
  size_t values = 0;
  size_t bytes = 0;
};

// A key that stands twice in a map.
enum class Repeats : uint8_t { kRefused, kKept };

// Takes the events of a parser and builds the tree. Every event says false when the document cannot
// be read any further; error() then says why, and no more events may follow.
class TreeBuilder {
 public:
  // `aliases` is what is left of it for this document and those behind it; outlives the builder.
  explicit TreeBuilder(AliasBudget& aliases, Repeats repeats = Repeats::kRefused)
      : aliases_(aliases), repeats_(repeats) {}

  bool Null(int line);
  bool Bool(int line, bool value);
  bool Number(int line, std::string text);
  bool String(int line, std::string text);
  bool BeginList(int line);
  bool BeginMap(int line);
  bool End();  // Of the innermost list or map.

  // The next node is called `anchor`; Alias stands for that node again.
  void Anchor(uint64_t anchor) { next_anchor_ = anchor; }
  bool Alias(int line, uint64_t anchor);

  const std::optional<SyntaxError>& error() const { return error_; }
  Tree Take() { return std::move(tree_); }

 private:
  struct Size {
    size_t values = 1;  // Of the subtree, aliases written out.
    size_t bytes = 0;
    int height = 1;
  };
  struct Open {
    TreeNode* node;
    Size size;
    uint64_t anchor;
    bool has_key = false;
    std::string key = {};
  };

  bool Add(TreeNode node);
  bool Begin(TreeNode::Type type, int line);
  bool Attach(const TreeNode* node, Size size);
  bool Fail(int line, std::string reason);

  Tree tree_;
  std::vector<Open> open_;
  std::map<uint64_t, std::pair<const TreeNode*, Size>> anchors_;
  uint64_t next_anchor_ = 0;
  AliasBudget& aliases_;
  Repeats repeats_;
  std::optional<SyntaxError> error_;
};

}  // namespace svcmap::api
