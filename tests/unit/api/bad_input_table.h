// Table of invalid inputs and svcmap's exact messages. The tests pass each input to the manifest
// reader and to the converter, which svcmapd also uses for controller streams. docs/bad-input.md is
// generated from this table, so the messages in the documentation are tested.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace svcmap::api {

struct BadInput {
  std::string_view section;
  std::string_view name;      // Heading in docs/bad-input.md.
  std::string input;          // Complete YAML or JSON file.
  std::string_view expected;  // All expected messages, one per line.
};

// Returns the table rows in the order of docs/bad-input.md.
std::vector<BadInput> BadInputs();

// Returns all messages about `input`, one per line without a final newline. The order is: errors
// and warnings of the reader, findings of the converter, findings of the ruleset computation.
std::string MessagesFor(std::string_view input);

}  // namespace svcmap::api
