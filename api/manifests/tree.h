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
  // kFlaw is a value that only objects of other kinds may contain (see Flaws::kMarked).
  enum class Type : uint8_t { kNull, kBool, kNumber, kString, kList, kMap, kFlaw };

  Type type = Type::kNull;
  int line = 0;  // Counted from 1.
  // A kNumber as written in the source, "true" or "false" for a kBool, the string of a kString, or
  // the reason of a kFlaw.
  std::string text;
  std::vector<const TreeNode*> items;                           // Items of a kList node.
  std::vector<std::pair<std::string, const TreeNode*>> fields;  // Fields of a kMap node, in order.

  // Returns the first value of `key`, or null.
  const TreeNode* Find(std::string_view key) const;
};

// Returns the first kFlaw in `node`, or null.
const TreeNode* FindFlaw(const TreeNode& node);

struct SyntaxError {
  int line = 0;
  std::string reason;
};

struct Tree {
  std::deque<TreeNode> nodes;
  const TreeNode* root = nullptr;  // Root of the tree, or null for an empty document.
  bool flawed = false;             // True if the tree contains a kFlaw.
};

// Remaining limits for alias expansion. Alias expansion is limited because messages, unlike the
// tree, cannot share nodes.
struct AliasBudget {
  size_t values = 0;
  size_t bytes = 0;
};

// Handling of duplicate keys in a map, merge keys, YAML tags, and numbers that kubectl reads as
// octal numbers.
enum class Flaws : uint8_t {
  kRejected,     // The document is rejected.
  kKeepRepeats,  // As kRejected, but duplicate keys are kept.
  kMarked,       // The value becomes a kFlaw.
};

// Builds a tree from parser events. An event function returns false if the document is invalid.
// error() then returns the reason, and the parser must not add more events.
class TreeBuilder {
 public:
  // `aliases` limits the alias expansion in this document and all following documents. `aliases`
  // must outlive the builder.
  explicit TreeBuilder(AliasBudget& aliases, Flaws flaws = Flaws::kRejected)
      : aliases_(aliases), flaws_(flaws) {}

  bool Scalar(TreeNode::Type type, int line, std::string text) {
    return Add({type, line, std::move(text), {}, {}});
  }
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
    const TreeNode* flaw = nullptr;  // Replaces the value of the key.
  };

  bool Add(TreeNode node);
  const TreeNode* AddFlaw(int line, std::string reason);
  bool Begin(TreeNode::Type type, int line);
  bool Attach(const TreeNode* node, Size size);
  bool Fail(int line, std::string reason);

  Tree tree_;
  std::vector<Open> open_;
  std::map<std::string, std::pair<const TreeNode*, Size>> anchors_;
  std::string next_anchor_;
  AliasBudget& aliases_;
  Flaws flaws_;
  std::optional<SyntaxError> error_;
};

}  // namespace svcmap::api
