// A JSON parser. protobuf's JSON parser is unsuitable, because it reports no line numbers and
// concatenates duplicate repeated fields. protobuf's JSON parser also cannot read the items of a
// List before their kinds are known.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/manifests/readers.h"

namespace svcmap::api {
namespace {

// Recursive descent parser. TreeBuilder limits the depth to kMaxManifestDepth.
class JsonParser {
 public:
  JsonParser(std::string_view text, int line, Repeats repeats)
      : rest_(text), line_(line), builder_(no_aliases_, repeats) {}

  bool Value() {
    SkipBlanks();
    if (rest_.empty()) return Unexpected();
    switch (rest_[0]) {
      case '{':
        return Map();
      case '[':
        return List();
      case '"': {
        const int line = line_;
        std::string text;
        return String(text) && builder_.String(line, std::move(text));
      }
      case 't':
        return Word("true") && builder_.Bool(line_, true);
      case 'f':
        return Word("false") && builder_.Bool(line_, false);
      case 'n':
        return Word("null") && builder_.Null(line_);
      default:
        return Number();
    }
  }

  void SkipBlanks() {
    size_t i = 0;
    for (; i < rest_.size(); ++i) {
      if (rest_[i] == '\n') ++line_;
      if (rest_[i] != ' ' && rest_[i] != '\t' && rest_[i] != '\r' && rest_[i] != '\n') break;
    }
    rest_.remove_prefix(i);
  }

  Tree Take() { return builder_.Take(); }
  SyntaxError error() const { return builder_.error().value_or(error_); }
  std::string_view rest() const { return rest_; }
  int line() const { return line_; }

 private:
  bool Map() {
    if (!builder_.BeginMap(line_)) return false;
    rest_.remove_prefix(1);
    SkipBlanks();
    if (Next('}')) return builder_.End();
    while (true) {
      SkipBlanks();
      const int line = line_;
      std::string key;
      if (!String(key) || !builder_.String(line, std::move(key))) return false;
      SkipBlanks();
      if (!Next(':')) return Unexpected();
      if (!Value()) return false;
      SkipBlanks();
      if (Next('}')) return builder_.End();
      if (!Next(',')) return Unexpected();
    }
  }

  bool List() {
    if (!builder_.BeginList(line_)) return false;
    rest_.remove_prefix(1);
    SkipBlanks();
    if (Next(']')) return builder_.End();
    while (true) {
      if (!Value()) return false;
      SkipBlanks();
      if (Next(']')) return builder_.End();
      if (!Next(',')) return Unexpected();
    }
  }

  bool Number() {
    const size_t length = std::min(rest_.find_first_not_of("0123456789+-.eE"), rest_.size());
    const std::string_view text = rest_.substr(0, length);
    const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
    const bool starts_well =
        !digits.empty() && digits[0] >= '0' && digits[0] <= '9' &&
        !(digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9');
    if (!starts_well || text.ends_with('.') || PlainScalarType(text) != TreeNode::Type::kNumber) {
      return Unexpected();
    }
    rest_.remove_prefix(length);
    return builder_.Number(line_, std::string(text));
  }

  bool String(std::string& out) {
    if (!Next('"')) return Unexpected();
    while (!rest_.empty()) {
      const size_t plain = rest_.find_first_of("\"\\\n");
      if (plain == std::string_view::npos || rest_[plain] == '\n') break;
      out += rest_.substr(0, plain);
      rest_.remove_prefix(plain);
      if (Next('"')) return true;
      if (!Escaped(out)) return false;
    }
    return Fail("invalid JSON: unterminated string");
  }

  bool Escaped(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    rest_.remove_prefix(1);  // Skips the backslash.
    if (rest_.empty()) return Fail("invalid JSON: unterminated string");
    if (Next('u')) return UnicodeEscape(out);
    const size_t index = kNames.find(rest_[0]);
    if (index == std::string_view::npos) return Unexpected();
    out += kMeanings[index];
    rest_.remove_prefix(1);
    return true;
  }

  bool UnicodeEscape(std::string& out) {
    uint32_t code = 0;
    if (!FourHexDigits(code)) return Unexpected();
    if (code >= 0xd800 && code < 0xdc00) {
      uint32_t low = 0;
      if (!Next('\\') || !Next('u') || !FourHexDigits(low) || low < 0xdc00 || low > 0xdfff) {
        return Fail("invalid JSON: incomplete surrogate pair");
      }
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
      return Fail("invalid JSON: incomplete surrogate pair");
    }
    AppendUtf8(code, out);
    return true;
  }

  bool FourHexDigits(uint32_t& code) {
    if (rest_.size() < 4) return false;
    for (const char c : rest_.substr(0, 4)) {
      const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
      if (digit == std::string_view::npos) return false;
      code = code * 16 + static_cast<uint32_t>(digit < 16 ? digit : digit - 6);
    }
    rest_.remove_prefix(4);
    return true;
  }

  static void AppendUtf8(uint32_t code, std::string& out) {
    const auto tail = [&out](uint32_t bits) { out += static_cast<char>(0x80 | (bits & 0x3f)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xc0 | (code >> 6));
      tail(code);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xe0 | (code >> 12));
      tail(code >> 6);
      tail(code);
    } else {
      out += static_cast<char>(0xf0 | (code >> 18));
      tail(code >> 12);
      tail(code >> 6);
      tail(code);
    }
  }

  bool Word(std::string_view word) {
    if (!rest_.starts_with(word)) return Unexpected();
    rest_.remove_prefix(word.size());
    return true;
  }

  bool Next(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool Unexpected() {
    if (rest_.empty()) return Fail("invalid JSON: unexpected end of input");
    const std::string_view piece = rest_.substr(0, std::min(rest_.find('\n'), rest_.size()));
    return Fail(absl::StrCat("invalid JSON at ", Quote(piece.substr(0, 16))));
  }

  bool Fail(std::string reason) {
    error_ = {line_, std::move(reason)};
    return false;
  }

  std::string_view rest_;
  int line_;
  AliasBudget no_aliases_;
  TreeBuilder builder_;
  SyntaxError error_;
};

}  // namespace

ReadTree ReadJson(std::string_view& text, int& line, Repeats repeats) {
  JsonParser parser(text, line, repeats);
  const bool good = parser.Value();
  if (good) parser.SkipBlanks();
  text = parser.rest();
  line = parser.line();
  if (!good) return parser.error();
  return parser.Take();
}

}  // namespace svcmap::api
