// Invalid inputs with their exact error messages. The tests run each row through the manifest
// reader and the conversion that is also used for controllers. docs/bad-input.md is generated from
// this table.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace svcmap::api {

struct BadInput {
  std::string_view section;
  std::string_view name;      // The mistake, for the document.
  std::string input;          // A complete file in YAML or JSON.
  std::string_view expected;  // All messages, one per line.
};

// Returns the rows in the order of the document.
std::vector<BadInput> BadInputs();

// Returns all messages about `input`: errors and warnings of the reader, then findings of the
// conversion, then findings of the planning. One message per line, without a newline at the end.
std::string MessagesFor(std::string_view input);

}  // namespace svcmap::api
