// Reads YAML with the event interface of yaml-cpp. TreeBuilder limits the nesting depth. Event
// handlers throw an exception to stop the parser and its recursion, because yaml-cpp offers no
// alternative. Functions in this file catch the exception.
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <istream>
#include <streambuf>

#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/manifests/flow_limits.h"
#include "api/manifests/readers.h"

namespace svcmap::api {
namespace {

class Stop : public std::exception {};

// A stream buffer that reads from a string_view without copying the text.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    // Never written, because the stream buffer has no put area.
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

// Replaces bytes that are not valid UTF-8 with the Unicode code points of the same value. yaml-cpp
// 0.7 produces such bytes for the escapes \N and \_ and in messages about unknown escapes.
std::string WithWholeCharacters(std::string_view text) {
  std::string whole;
  whole.reserve(text.size());
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length > 0) {
      whole += text.substr(0, length);
    } else {
      const auto byte = static_cast<uint8_t>(text[0]);
      whole += static_cast<char>(0xc0 | byte >> 6);
      whole += static_cast<char>(0x80 | (byte & 0x3f));
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return whole;
}

class Events : public YAML::EventHandler {
 public:
  Events(TreeBuilder& builder, int first_line) : builder_(builder), first_line_(first_line) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) Fail(mark, "documents must be separated by \"---\"");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.Anchor(anchor);
    Check(builder_.Null(Line(mark)));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Check(builder_.Alias(Line(mark), anchor));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    builder_.Anchor(anchor);
    const bool plain = tag == "?";
    if (!plain && tag != "!" && tag != "tag:yaml.org,2002:str") {
      Fail(mark, absl::StrCat("Unsupported value: ", Quote(tag), ": YAML tags are not supported"));
    }
    switch (plain ? PlainScalarType(value) : TreeNode::Type::kString) {
      case TreeNode::Type::kNull:
        return Check(builder_.Null(Line(mark)));
      case TreeNode::Type::kBool:
        return Check(builder_.Bool(Line(mark), value[0] == 't' || value[0] == 'T'));
      case TreeNode::Type::kNumber:
        return Check(builder_.Number(Line(mark), value));
      default:
        return Check(builder_.String(Line(mark), WithWholeCharacters(value)));
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    builder_.Anchor(anchor);
    Check(builder_.BeginList(Line(mark)));
  }
  void OnSequenceEnd() override { Check(builder_.End()); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    builder_.Anchor(anchor);
    Check(builder_.BeginMap(Line(mark)));
  }
  void OnMapEnd() override { Check(builder_.End()); }

  int Line(const YAML::Mark& mark) const { return first_line_ + std::max(mark.line, 0); }
  const std::optional<SyntaxError>& error() const { return error_; }

 private:
  void Check(bool good) {
    if (good) return;
    error_ = builder_.error();
    throw Stop();
  }
  void Fail(const YAML::Mark& mark, std::string reason) {
    error_ = SyntaxError{Line(mark), std::move(reason)};
    throw Stop();
  }

  TreeBuilder& builder_;
  int first_line_;
  int documents_ = 0;
  std::optional<SyntaxError> error_;
};

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns true if `text` matches the regular expression
// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool IsDecimal(std::string_view text) {
  const auto skip_sign = [&text] {
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  };
  skip_sign();
  const size_t exponent = text.find_first_of("eE");
  const std::string_view mantissa = text.substr(0, exponent);
  const size_t dot = mantissa.find('.');
  const std::string_view whole = mantissa.substr(0, dot);
  const std::string_view part = dot == std::string_view::npos ? "" : mantissa.substr(dot + 1);
  if (whole.empty() && part.empty()) return false;
  if (!(whole.empty() || IsDigits(whole)) || !(part.empty() || IsDigits(part))) return false;
  if (exponent == std::string_view::npos) return true;
  text.remove_prefix(exponent + 1);
  skip_sign();
  return IsDigits(text);
}

bool IsNumber(std::string_view text) {
  if (text.starts_with("0x")) {
    return text.size() > 2 &&
           text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
  }
  if (text.starts_with("0o")) {
    return text.size() > 2 && text.find_first_not_of("01234567", 2) == std::string_view::npos;
  }
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return true;
  std::string_view unsigned_text = text;
  if (text.starts_with('-') || text.starts_with('+')) unsigned_text.remove_prefix(1);
  if (unsigned_text == ".inf" || unsigned_text == ".Inf" || unsigned_text == ".INF") return true;
  return IsDecimal(text);
}

// Returns true if `text` contains only whitespace, comments and %directives.
bool HasNoContent(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos && line[first] != '#' && line[0] != '%') return false;
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return true;
}

// Reads a document that consists of one JSON map after an optional "---" line. Returns nullopt for
// all other documents. JSON is valid YAML, but the JSON reader needs less memory.
std::optional<Tree> ReadJsonPiece(const YamlPiece& piece, Repeats repeats) {
  std::string_view text = piece.text;
  int line = piece.line;
  if (text.starts_with("---")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return std::nullopt;
  ReadTree read = ReadJson(text, line, repeats);
  if (!text.empty() || !std::holds_alternative<Tree>(read)) return std::nullopt;
  return std::get<Tree>(std::move(read));
}

}  // namespace

TreeNode::Type PlainScalarType(std::string_view text) {
  using Type = TreeNode::Type;
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") {
    return Type::kNull;
  }
  if (text == "true" || text == "True" || text == "TRUE" || text == "false" || text == "False" ||
      text == "FALSE") {
    return Type::kBool;
  }
  return IsNumber(text) ? Type::kNumber : Type::kString;
}

std::vector<YamlPiece> SplitYaml(std::string_view text) {
  std::vector<YamlPiece> pieces;
  size_t begin = 0;  // Start of the current piece.
  int begin_line = 1;
  int line = 1;
  const auto add = [&](size_t end) {
    const std::string_view piece = text.substr(begin, end - begin);
    if (begin == 0 && HasNoContent(piece)) return;
    pieces.push_back({piece, begin_line});
  };
  for (size_t at = 0; at < text.size(); ++line) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("---") &&
        (rest.size() == 3 || std::string_view(" \t\r\n").find(rest[3]) != std::string_view::npos)) {
      if (at > 0) add(at);
      begin = at;
      begin_line = line;
    }
    const size_t newline = rest.find('\n');
    at = newline == std::string_view::npos ? text.size() : at + newline + 1;
  }
  if (!text.empty()) add(text.size());
  return pieces;
}

ReadTree ReadYaml(const YamlPiece& piece, AliasBudget& aliases, Repeats repeats) {
  if (std::optional<Tree> tree = ReadJsonPiece(piece, repeats)) return *std::move(tree);
  if (const auto error = CheckFlowLimits(piece.text, piece.line)) return *error;
  TreeBuilder builder(aliases, repeats);
  Events events(builder, piece.line);
  try {
    ViewBuffer buffer(piece.text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const Stop&) {
    return *events.error();
  } catch (const YAML::Exception& error) {
    return SyntaxError{events.Line(error.mark),
                       absl::StrCat("invalid YAML: ", WithWholeCharacters(error.msg))};
  } catch (const std::exception& error) {
    return SyntaxError{piece.line, absl::StrCat("invalid YAML: ", error.what())};
  }
  return builder.Take();
}

}  // namespace svcmap::api
