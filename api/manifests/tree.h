// A YAML or JSON document as a tree of maps, lists and scalars with line numbers. The YAML and JSON
// readers produce this tree, and fill.h converts it to messages. Aliases share their target node,
// so the tree is not larger than the text. The size after alias expansion is limited.
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
  int line = 0;  // Counted from 1.
  // A kNumber as written in the source, "true" or "false" for a kBool, or the string of a kString.
  std::string text;
  std::vector<const TreeNode*> items;                           // Items of a kList node.
  std::vector<std::pair<std::string, const TreeNode*>> fields;  // Fields of a kMap node, in order.

  // Returns the first value of `key`, or null.
  const TreeNode* Find(std::string_view key) const;
};

struct SyntaxError {
  int line = 0;
  std::string reason;
};

struct Tree {
  std::deque<TreeNode> nodes;
  const TreeNode* root = nullptr;  // Root of the tree, or null for an empty document.
};

// Remaining limits for alias expansion. Alias expansion is limited because messages, unlike the
// tree, cannot share nodes.
struct AliasBudget {
  size_t values = 0;
  size_t bytes = 0;
};

// Handling of duplicate keys in a map.
enum class Repeats : uint8_t { kRejected, kKept };

// Builds a tree from parser events. An event function returns false if the document is invalid.
// error() then returns the reason, and the parser must not add more events.
class TreeBuilder {
 public:
  // `aliases` limits the alias expansion in this document and all following documents. `aliases`
  // must outlive the builder.
  explicit TreeBuilder(AliasBudget& aliases, Repeats repeats = Repeats::kRejected)
      : aliases_(aliases), repeats_(repeats) {}

  bool Null(int line);
  bool Bool(int line, bool value);
  bool Number(int line, std::string text);
  bool String(int line, std::string text);
  bool BeginList(int line);
  bool BeginMap(int line);
  bool End();  // Ends the innermost list or map.

  // Assigns the name `anchor` to the next node. Alias(anchor) refers to this node. An empty name
  // has no effect.
  void Anchor(std::string anchor) { next_anchor_ = std::move(anchor); }
  bool Alias(int line, const std::string& anchor);

  const std::optional<SyntaxError>& error() const { return error_; }
  Tree Take() { return std::move(tree_); }

 private:
  struct Size {
    size_t values = 1;  // Number of nodes in the subtree after alias expansion.
    size_t bytes = 0;
    int height = 1;
  };
  struct Open {
    TreeNode* node;
    Size size;
    std::string anchor;
    bool has_key = false;
    std::string key = {};
  };

  bool Add(TreeNode node);
  bool Begin(TreeNode::Type type, int line);
  bool Attach(const TreeNode* node, Size size);
  bool Fail(int line, std::string reason);

  Tree tree_;
  std::vector<Open> open_;
  std::map<std::string, std::pair<const TreeNode*, Size>> anchors_;
  std::string next_anchor_;
  AliasBudget& aliases_;
  Repeats repeats_;
  std::optional<SyntaxError> error_;
};

}  // namespace svcmap::api
