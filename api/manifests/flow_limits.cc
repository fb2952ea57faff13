#include "api/manifests/flow_limits.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "api/manifests/manifests.h"

namespace svcmap::api {
namespace {

// Finds the brackets and commas of flow collections. Skips comments and scalars with the rules of
// yaml-cpp's scanner, because scalars may contain any number of brackets.
class FlowScanner {
 public:
  FlowScanner(std::string_view text, int first_line) : text_(text), line_(first_line) {}

  std::optional<SyntaxError> Scan() {
    while (at_ < text_.size() && !error_) Token();
    return error_;
  }

 private:
  char Peek(size_t offset = 0) const {
    return at_ + offset < text_.size() ? text_[at_ + offset] : '\n';
  }
  static bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  static bool EndsToken(char c) { return IsBlank(c) || c == '\n'; }
  static bool IsFlowIndicator(char c) {
    return c == '[' || c == ']' || c == '{' || c == '}' || c == ',';
  }
  long Column() const { return static_cast<long>(at_ - line_start_); }
  bool InFlow() const { return depth_ > 0; }

  void Token() {
    const char c = Peek();
    if (c == '\n') return NewLine();
    if (IsBlank(c)) {
      ++at_;
      return;
    }
    if (c == '#') return SkipLine();
    if (Column() == 0 && c == '%') return SkipLine();
    if (IsDocumentMarker()) {
      at_ += 3;
      key_allowed_ = false;
      return;
    }
    if (!InFlow()) {
      while (indents_.back() > Column()) indents_.pop_back();
    }
    const bool after_json = std::exchange(after_json_, false);
    if (c == ':' && IsValueIndicator(after_json)) return Value();
    if ((c == '-' || c == '?') && EndsToken(Peek(1))) return Entry();
    if (!InFlow() && key_allowed_ && !key_column_) key_column_ = Column();
    if (c == '&' || c == '*' || c == '!') return Property();
    key_allowed_ = false;
    switch (c) {
      case '[':
      case '{':
        return Open();
      case ']':
      case '}':
        return Close();
      case ',':
        ++at_;
        return CountValue();
      case '"':
      case '\'':
        return Quoted(c);
      case '|':
      case '>':
        if (!InFlow()) return BlockScalar();
        break;
      default:
        break;
    }
    Plain();
  }

  bool IsDocumentMarker() const {
    const std::string_view marker = text_.substr(at_, 3);
    return Column() == 0 && (marker == "---" || marker == "...") && EndsToken(Peek(3));
  }

  // Returns true if the ":" at the current position separates a key from its value.
  bool IsValueIndicator(bool after_json) const {
    return EndsToken(Peek(1)) || (InFlow() && (after_json || IsFlowIndicator(Peek(1))));
  }

  void NewLine() {
    ++at_;
    ++line_;
    line_start_ = at_;
    if (InFlow()) return;
    key_allowed_ = true;
    key_column_.reset();
  }

  void SkipLine() { at_ = std::min(text_.find('\n', at_), text_.size()); }

  void Indent(long column) {
    if (column > indents_.back()) indents_.push_back(column);
  }

  // Handles "- " and "? ".
  void Entry() {
    if (!InFlow()) {
      Indent(Column());
      key_allowed_ = true;
      key_column_.reset();
    }
    ++at_;
  }

  void Value() {
    if (!InFlow() && key_column_) Indent(*key_column_);
    key_column_.reset();
    key_allowed_ = false;
    ++at_;
  }

  // Skips an anchor, an alias or a tag.
  void Property() {
    if (text_.substr(at_, 2) == "!<") {
      while (at_ < text_.size() && Peek() != '>' && Peek() != '\n') ++at_;
      if (Peek() == '>') ++at_;
      return;
    }
    ++at_;
    while (at_ < text_.size() && !EndsToken(Peek()) && !IsFlowIndicator(Peek())) ++at_;
  }

  void Open() {
    if (++depth_ > kMaxManifestDepth) {
      return Fail(absl::StrCat("maps and lists must not be nested deeper than ", kMaxManifestDepth,
                               " levels"));
    }
    ++at_;
    CountValue();
  }

  void Close() {
    ++at_;
    after_json_ = true;
    if (depth_ > 0 && --depth_ == 0) values_ = 0;
  }

  void CountValue() {
    if (!InFlow() || ++values_ <= kMaxFlowValues) return;
    Fail(absl::StrCat("a collection in brackets must have at most ", kMaxFlowValues,
                      " values; write it in block style"));
  }

  void Quoted(char quote) {
    ++at_;
    for (; at_ < text_.size(); ++at_) {
      const char c = Peek();
      if (c == '\\' && quote == '"' && Peek(1) != '\n') {
        ++at_;
      } else if (c == '\'' && quote == '\'' && Peek(1) == '\'') {
        ++at_;
      } else if (c == quote) {
        ++at_;
        after_json_ = true;
        return;
      } else if (c == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
    }
  }

  // Skips a scalar that starts with "|" or ">".
  void BlockScalar() {
    long indent = std::max(indents_.back(), 0L) + 1;
    bool detect = true;
    for (++at_; !EndsToken(Peek()); ++at_) {
      if (Peek() < '1' || Peek() > '9') continue;
      indent = std::max(indents_.back(), 0L) + (Peek() - '0');
      detect = false;
    }
    SkipLine();
    while (at_ < text_.size()) {
      // The current position is at the end of a line of the scalar.
      const size_t begin = at_ + 1;
      const size_t content = std::min(text_.find_first_not_of(' ', begin), text_.size());
      const long column = static_cast<long>(content - begin);
      const bool empty =
          content == text_.size() || text_[content] == '\n' || text_.substr(content, 2) == "\r\n";
      if (!empty && column < indent) return;
      if (!empty && std::exchange(detect, false)) indent = column;
      ++line_;
      line_start_ = begin;
      at_ = content;
      SkipLine();
    }
  }

  void Plain() {
    const long indent = InFlow() ? 0 : indents_.back() + 1;
    ++at_;
    while (at_ < text_.size()) {
      const char c = Peek();
      if (c == '\n') {
        if (!ContinuePlain(indent)) return;
        continue;
      }
      if (c == '#' && IsBlank(text_[at_ - 1])) return;
      if (c == ':' && (EndsToken(Peek(1)) || (InFlow() && IsFlowIndicator(Peek(1))))) return;
      if (InFlow() && (IsFlowIndicator(c) || c == '?')) return;
      ++at_;
    }
  }

  // Moves to the next line of a plain scalar. Returns false, and stays at the end of the line, if
  // the scalar ends.
  bool ContinuePlain(long indent) {
    size_t start = line_start_;
    int lines = 0;
    size_t next = at_;
    for (; next < text_.size() && EndsToken(text_[next]); ++next) {
      if (text_[next] != '\n') continue;
      ++lines;
      start = next + 1;
    }
    if (next == text_.size() || text_[next] == '#') return false;
    if (static_cast<long>(next - start) < indent) return false;
    const std::string_view marker = text_.substr(next, 3);
    if (next == start && (marker == "---" || marker == "...")) return false;
    at_ = next;
    line_ += lines;
    line_start_ = start;
    return true;
  }

  void Fail(std::string reason) { error_ = {line_, std::move(reason)}; }

  const std::string_view text_;
  size_t at_ = 0;
  size_t line_start_ = 0;
  int line_;
  std::optional<SyntaxError> error_;

  int depth_ = 0;      // Nesting depth of flow collections.
  size_t values_ = 0;  // Number of values in the outermost flow collection.
  // True after a quoted scalar or a closing bracket: a following ":" needs no space.
  bool after_json_ = false;

  // Columns of the open block collections, for the end of block scalars and plain scalars.
  std::vector<long> indents_ = {-1};
  bool key_allowed_ = true;         // True if a key of a block map may start here.
  std::optional<long> key_column_;  // Start of the current node, if the node can be such a key.
};

// Returns true if the text cannot exceed the limits, even if all brackets and commas belong to one
// flow collection.
bool IsBelowLimits(std::string_view text) {
  size_t brackets = 0;
  size_t values = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++brackets;
    if (c == '[' || c == '{' || c == ',') ++values;
  }
  return brackets <= static_cast<size_t>(kMaxManifestDepth) && values <= kMaxFlowValues;
}

}  // namespace

std::optional<SyntaxError> CheckFlowLimits(std::string_view text, int first_line) {
  if (IsBelowLimits(text)) return std::nullopt;
  return FlowScanner(text, first_line).Scan();
}

}  // namespace svcmap::api
