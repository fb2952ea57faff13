// Reads JSON with the events of nlohmann JSON. protobuf's JSON parser is unsuitable, because it
// reports no line numbers and concatenates duplicate repeated fields. protobuf's JSON parser also
// cannot read the items of a List before their kinds are known.
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "api/convert/quote.h"
#include "api/manifests/readers.h"

namespace svcmap::api {
namespace {

// The unread text and the number of the line that contains the last read character.
struct JsonInput {
  std::string_view rest;
  int line;
  bool line_ended = false;  // The last read character is a line break.
};

// Iterator for nlohmann JSON that reads the characters of a JsonInput. The default iterator is the
// end of the text.
class JsonCharacter {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  JsonCharacter() = default;
  explicit JsonCharacter(JsonInput& input) : input_(&input) {}

  reference operator*() const { return input_->rest.front(); }
  JsonCharacter& operator++() {
    if (input_->line_ended) ++input_->line;
    input_->line_ended = input_->rest.front() == '\n';
    input_->rest.remove_prefix(1);
    return *this;
  }
  bool operator==(const JsonCharacter& other) const { return AtEnd() == other.AtEnd(); }

 private:
  bool AtEnd() const { return input_ == nullptr || input_->rest.empty(); }

  JsonInput* input_ = nullptr;
};

// Passes the events to a TreeBuilder, which limits the depth. A function that returns false stops
// the parser.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonEvents(const JsonInput& input, Flaws flaws) : input_(input), builder_(no_aliases_, flaws) {}

  bool null() override { return Scalar(Type::kNull, ""); }
  bool boolean(bool value) override { return Scalar(Type::kBool, value ? "true" : "false"); }
  bool number_integer(int64_t value) override { return Scalar(Type::kNumber, absl::StrCat(value)); }
  bool number_unsigned(uint64_t value) override {
    return Scalar(Type::kNumber, absl::StrCat(value));
  }
  bool number_float(double, const std::string& text) override {
    return Scalar(Type::kNumber, text);
  }
  bool string(std::string& text) override { return Scalar(Type::kString, std::move(text)); }
  bool binary(nlohmann::json::binary_t&) override { return false; }  // Not in JSON.
  bool start_object(size_t) override { return builder_.BeginMap(input_.line); }
  bool key(std::string& text) override { return string(text); }
  bool end_object() override { return builder_.End(); }
  bool start_array(size_t) override { return builder_.BeginList(input_.line); }
  bool end_array() override { return builder_.End(); }

  // The text of `error` is "[...] parse error at line 1, column 2: REASON; last read: 'TOKEN'" or
  // "[...] number overflow parsing 'TOKEN'", with a token of any length.
  bool parse_error(size_t, const std::string& token,
                   const nlohmann::json::exception& error) override {
    std::string_view reason = error.what();
    for (const std::string_view before : {"] ", ": "}) {
      const size_t at = reason.find(before);
      if (at != std::string_view::npos) reason.remove_prefix(at + before.size());
    }
    for (const std::string_view after : {"; last read: ", " parsing '"}) {
      reason = reason.substr(0, reason.find(after));
    }
    error_ = {input_.line, absl::StrCat("invalid JSON", token.empty() ? "" : " at " + Quote(token),
                                        ": ", std::string(reason))};
    return false;
  }

  ReadTree Result(bool good) {
    if (good) return builder_.Take();
    return builder_.error().value_or(error_);
  }

 private:
  using Type = TreeNode::Type;

  bool Scalar(Type type, std::string text) {
    return builder_.Scalar(type, input_.line, std::move(text));
  }

  const JsonInput& input_;
  AliasBudget no_aliases_;
  TreeBuilder builder_;
  SyntaxError error_;
};

}  // namespace

ReadTree ReadJson(std::string_view& text, int& line, Flaws flaws) {
  JsonInput input = {text, line};
  JsonEvents events(input, flaws);
  const bool good =
      nlohmann::json::sax_parse(JsonCharacter(input), JsonCharacter(), &events,
                                nlohmann::json::input_format_t::json, /*strict=*/false);
  JsonCharacter next(input);
  while (good && next != JsonCharacter() &&
         absl::ascii_isspace(static_cast<unsigned char>(*next))) {
    ++next;
  }
  text = input.rest;
  line = input.line + (input.line_ended ? 1 : 0);
  return events.Result(good);
}

}  // namespace svcmap::api
