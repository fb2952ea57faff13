// Tests that docs/bad-input.md matches the table. SVCMAP_UPDATE_DOCS=1 rewrites the document.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/api/bad_input_table.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxShownBytes = 700;
constexpr int kMaxShownLines = 16;

// Shortens a long input and adds a line with the number of omitted bytes. Escapes unprintable
// bytes.
std::string Shown(const std::string& input) {
  std::string text;
  int lines = 0;
  for (const char c : input) {
    if (lines == kMaxShownLines || text.size() >= kMaxShownBytes) {
      return text + absl::StrCat(c == '\n' ? "" : "\n", "... (", input.size(), " bytes in all)\n");
    }
    const auto byte = static_cast<unsigned char>(c);
    if (c != '\n' && (byte < 0x20 || byte >= 0x7f)) {
      constexpr char kHex[] = "0123456789abcdef";
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      text += c;
    }
    lines += c == '\n' ? 1 : 0;
  }
  return text.ends_with('\n') ? text : text + "\n";
}

std::string Document() {
  std::string text =
      "# Bad input and the answer\n\n"
      "Generated from `tests/unit/api/bad_input_table.cc`, whose rows are tests; change it there "
      "and\n"
      "run the tests with `SVCMAP_UPDATE_DOCS=1`. The files below are read as `input.yaml`; "
      "objects\n"
      "that come over gRPC go through the same checks and get the same words, in the results of "
      "the\n"
      "Ack. A refused object leaves everything else alone: its last good state stays, the other\n"
      "objects are programmed.\n";
  std::string_view section;
  for (const BadInput& row : BadInputs()) {
    if (row.section != section) absl::StrAppend(&text, "\n## ", std::string(row.section), "\n");
    section = row.section;
    absl::StrAppend(&text, "\n### ", std::string(row.name), "\n\n```yaml\n", Shown(row.input),
                    "```\n\n```text\n",
                    row.expected.empty() ? "(nothing to say)" : std::string(row.expected),
                    "\n```\n");
  }
  return text;
}

TEST(BadInputDocTest, DocsSayWhatTheTestsSaw) {
  const std::string path = SVCMAP_SOURCE_DIR "/docs/bad-input.md";
  const std::string wanted = Document();
  if (std::getenv("SVCMAP_UPDATE_DOCS") != nullptr) {
    std::ofstream(path) << wanted;
  }
  std::ifstream file(path);
  const std::string found{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_TRUE(found == wanted) << path << " is stale: run this test with SVCMAP_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace svcmap::api
