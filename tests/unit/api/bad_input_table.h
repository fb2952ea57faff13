// Bad input and the exact words svcmap answers with: "input -> messages". The tests run every row
// through the manifest reader and the conversion, the same code as the controllers' stream, and
// docs/bad-input.md is generated from it, so what the docs promise is what the tests saw.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace svcmap::api {

struct BadInput {
  std::string_view section;
  std::string_view name;      // What is wrong, for a reader of the docs.
  std::string input;          // YAML or JSON, a whole file.
  std::string_view expected;  // Every message, one per line.
};

// The rows, in the order of the docs.
std::vector<BadInput> BadInputs();

// Every message about `input`: errors, then warnings of the reader, then findings of the
// conversion, then what shows when all of it is to be programmed. One per line, without a newline
// at the end.
std::string MessagesFor(std::string_view input);

}  // namespace svcmap::api
