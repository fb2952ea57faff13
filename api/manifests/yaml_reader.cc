// Reads YAML with the events of libyaml. kubectl parses YAML with a translation of libyaml to Go.
// TreeBuilder limits the nesting depth.
#include <yaml.h>

#include <algorithm>
#include <charconv>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/manifests/readers.h"

namespace svcmap::api {
namespace {

using Type = TreeNode::Type;

std::string TextOf(const yaml_char_t* text) {
  return text == nullptr ? "" : reinterpret_cast<const char*>(text);
}

bool IsDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns true if `text` matches the regular expression [-+]?0[0-9]+. YAML 1.1, which kubectl
// reads, and YAML 1.2 do not agree on the value.
bool IsOctalForKubectl(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && IsDigits(text);
}

// Parses one document and passes the events to a TreeBuilder.
class YamlParser {
 public:
  YamlParser(const YamlPiece& piece, AliasBudget& aliases, Flaws flaws)
      : builder_(aliases, flaws), first_line_(piece.line) {
    yaml_parser_initialize(&parser_);  // Fails only if memory is exhausted.
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const yaml_char_t*>(piece.text.data()),
                                 piece.text.size());
  }
  ~YamlParser() { yaml_parser_delete(&parser_); }
  YamlParser(const YamlParser&) = delete;
  YamlParser& operator=(const YamlParser&) = delete;

  ReadTree Read() {
    for (bool more = true; more;) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) return ParserError();
      const bool good = Take(event);
      more = event.type != YAML_STREAM_END_EVENT;
      yaml_event_delete(&event);
      if (!good) return builder_.error().value_or(error_);
    }
    return builder_.Take();
  }

 private:
  int LineOf(const yaml_mark_t& mark) const { return first_line_ + static_cast<int>(mark.line); }

  SyntaxError ParserError() const {
    const std::string context = parser_.context == nullptr ? "" : parser_.context;
    return {LineOf(parser_.problem_mark),
            absl::StrCat("invalid YAML: ", context, context.empty() ? "" : ": ", parser_.problem)};
  }

  bool Fail(int line, std::string reason) {
    error_ = {line, std::move(reason)};
    return false;
  }

  bool Take(const yaml_event_t& event) {
    const int line = LineOf(event.start_mark);
    switch (event.type) {
      case YAML_DOCUMENT_START_EVENT:
        return documents_++ == 0 || Fail(line, "documents must be separated by \"---\"");
      case YAML_ALIAS_EVENT:
        return builder_.Alias(line, TextOf(event.data.alias.anchor));
      case YAML_SCALAR_EVENT:
        builder_.Anchor(TextOf(event.data.scalar.anchor));
        return Scalar(line, event);
      case YAML_SEQUENCE_START_EVENT:
        builder_.Anchor(TextOf(event.data.sequence_start.anchor));
        return builder_.BeginList(line);
      case YAML_MAPPING_START_EVENT:
        builder_.Anchor(TextOf(event.data.mapping_start.anchor));
        return builder_.BeginMap(line);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT:
        return builder_.End();
      default:
        return true;
    }
  }

  bool Scalar(int line, const yaml_event_t& event) {
    const auto& scalar = event.data.scalar;
    const std::string tag = TextOf(scalar.tag);
    if (!tag.empty() && tag != YAML_STR_TAG) {
      return builder_.Scalar(
          Type::kFlaw, line,
          absl::StrCat("Unsupported value: ", Quote(tag), ": YAML tags are not supported"));
    }
    std::string text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    const bool plain = tag.empty() && scalar.style == YAML_PLAIN_SCALAR_STYLE;
    const Type type = plain ? PlainScalarType(text) : Type::kString;
    if (type == Type::kNull) text.clear();
    if (type == Type::kBool) absl::AsciiStrToLower(&text);
    if (type == Type::kNumber && IsOctalForKubectl(text)) {
      return builder_.Scalar(
          Type::kFlaw, line,
          absl::StrCat("Invalid value: ", Quote(text),
                       ": kubectl reads numbers that start with 0 as octal numbers: write the "
                       "number without the 0, or in quotes"));
    }
    return builder_.Scalar(type, line, std::move(text));
  }

  yaml_parser_t parser_;
  TreeBuilder builder_;
  const int first_line_;
  int documents_ = 0;
  SyntaxError error_;
};

// Returns true if `text` is a number in the core schema, such as "-1.5e3", "0x1F", "0o17" or
// ".inf".
bool IsNumber(std::string_view text) {
  if (text.starts_with("0x")) {
    return text.size() > 2 &&
           text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
  }
  if (text.starts_with("0o")) {
    return text.size() > 2 && text.find_first_not_of("01234567", 2) == std::string_view::npos;
  }
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return true;
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text == ".inf" || text == ".Inf" || text == ".INF") return true;
  // Unlike YAML, from_chars also accepts another sign, "inf" and "nan".
  if (text.empty() ||
      !(absl::ascii_isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.')) {
    return false;
  }
  double value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ptr ==
         text.data() + text.size();
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
std::optional<Tree> ReadJsonPiece(const YamlPiece& piece, Flaws flaws) {
  std::string_view text = piece.text;
  int line = piece.line;
  if (text.starts_with("---")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return std::nullopt;
  ReadTree read = ReadJson(text, line, flaws);
  if (!text.empty() || !std::holds_alternative<Tree>(read)) return std::nullopt;
  return std::get<Tree>(std::move(read));
}

}  // namespace

Type PlainScalarType(std::string_view text) {
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

ReadTree ReadYaml(const YamlPiece& piece, AliasBudget& aliases, Flaws flaws) {
  if (std::optional<Tree> tree = ReadJsonPiece(piece, flaws)) return *std::move(tree);
  return YamlParser(piece, aliases, flaws).Read();
}

}  // namespace svcmap::api
