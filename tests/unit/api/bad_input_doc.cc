// Compares docs/bad-input.md with the table of invalid inputs. SVCMAP_UPDATE_DOCS=1 rewrites the
// document.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/file.h"
#include "tests/unit/api/bad_input_table.h"
#include "tests/unit/api/field_limits.h"

namespace svcmap::api {
namespace {

constexpr size_t kMaxShownBytes = 700;
constexpr int kMaxShownLines = 16;

// Returns the input in the form that docs/bad-input.md shows. Long input is truncated, and the last
// line contains the total size. Non-printable bytes are escaped.
std::string Shown(const std::string& input) {
  std::string text;
  int lines = 0;
  for (const char c : input) {
    if (lines == kMaxShownLines || text.size() >= kMaxShownBytes) {
      return text +
             absl::StrCat(c == '\n' ? "" : "\n", "... (", input.size(), " bytes in total)\n");
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

void AppendLimits(std::string& text) {
  text +=
      "\n## Limits\n\n"
      "The limits of single fields are those of the Kubernetes API server. For some fields, svcmap "
      "has\n"
      "a higher limit or no limit. svcmap is stricter in these cases:\n\n"
      "- A ServiceCIDR with the prefix length 0 is rejected, because svcmap would drop all packets "
      "to\n"
      "  addresses without a Service.\n"
      "- Multicast addresses in externalIPs are ignored, and in endpoints rejected. The API "
      "server\n"
      "  rejects only link-local multicast addresses.\n"
      "- Unspecified, loopback and multicast addresses in clusterIPs are rejected. The API server\n"
      "  allows each address in a ServiceCIDR.\n"
      "- The API server accepts updates of objects that were valid in an earlier version, for "
      "example\n"
      "  with IPv4-mapped IPv6 addresses. svcmap rejects these values.\n\n"
      "The limits of the API server were read in the source code of Kubernetes 1.36. The column "
      "\"Source\"\n"
      "contains the function and its file or program:\n\n"
      "- core: `pkg/apis/core/validation/validation.go`\n"
      "- discovery: `pkg/apis/discovery/validation/validation.go`\n"
      "- networking: `pkg/apis/networking/validation/validation.go`\n"
      "- portallocator: `pkg/registry/core/service/portallocator/allocator.go`\n"
      "- names: `generic.go` and `objectmeta.go` in\n"
      "  `staging/src/k8s.io/apimachinery/pkg/api/validation`\n"
      "- etcd: flag of etcd, whose default is the limit\n\n"
      "| Field | API server | svcmap | Source |\n| --- | --- | --- | --- |\n";
  for (const FieldLimit& row : FieldLimits()) {
    absl::StrAppend(&text, "| ", std::string(row.field), " | ", std::string(row.api_server), " | ",
                    std::string(row.svcmap), " | ", std::string(row.source), " |\n");
  }
  text +=
      "\nThe API server has no limits for the following numbers. svcmap limits them, because they\n"
      "determine the memory usage and the duration of a commit, or because they are fields of "
      "svcmap.\n"
      "Each rejection and each warning is a finding that names the object:\n\n"
      "| Number | Limit of svcmap | Effect |\n| --- | --- | --- |\n";
  for (const OwnLimit& row : OwnLimits()) {
    absl::StrAppend(&text, "| ", std::string(row.what), " | ", std::string(row.limit), " | ",
                    std::string(row.effect), " |\n");
  }
}

std::string Document() {
  std::string text =
      "# Validation messages\n\n"
      "This page lists the messages of svcmap for invalid objects. The wording follows the "
      "Kubernetes\n"
      "API server: path of the field, type of the error, value, expectation. The manifests below\n"
      "are read from a file `input.yaml`. Objects that a controller sends over gRPC are checked "
      "by\n"
      "the same code; the `results` of the Ack contain the same messages.\n\n"
      "An object is either rejected, or accepted with warnings:\n\n"
      "- A *rejected* object has no effect. The previously accepted version of the object, if "
      "any,\n"
      "  stays in effect, and all other objects are programmed. If an EndpointSlice is rejected,\n"
      "  svcmapd removes the endpoints that are missing from the rejected version, and uses the\n"
      "  conditions in the rejected version for the other endpoints. So removed endpoints do\n"
      "  not stay in use. New endpoints and changed ports have no effect. The complete previous\n"
      "  version stays in effect only if the rejected version cannot be decoded.\n"
      "- An *accepted* object is programmed except for the parts that its warnings name.\n\n"
      "This page is generated from `tests/unit/api/bad_input_table.cc`. To update the page, edit "
      "the\n"
      "table and run `SVCMAP_UPDATE_DOCS=1 api_unit_test --gtest_filter='BadInputDocTest.*'`.\n";
  std::string_view section;
  for (const BadInput& row : BadInputs()) {
    if (row.section != section) absl::StrAppend(&text, "\n## ", std::string(row.section), "\n");
    section = row.section;
    absl::StrAppend(&text, "\n### ", std::string(row.name), "\n\n```yaml\n", Shown(row.input),
                    "```\n\n```text\n",
                    row.expected.empty() ? "(no message)" : std::string(row.expected), "\n```\n");
  }
  AppendLimits(text);
  return text;
}

TEST(FieldLimitsTest, NumbersWithinTheLimitsAreAcceptedAndNoOthers) {
  for (const FieldLimit& row : FieldLimits()) {
    if (!row.manifest) continue;
    EXPECT_EQ(MessagesFor(row.manifest(row.most)), "") << row.field;
    const std::string over = MessagesFor(row.manifest(row.most + 1));
    EXPECT_EQ(over.empty(), row.over.empty()) << row.field << ": " << over;
    EXPECT_THAT(over, ::testing::HasSubstr(row.over)) << row.field;
    if (row.under.empty()) continue;
    EXPECT_EQ(MessagesFor(row.manifest(row.least)), "") << row.field;
    EXPECT_THAT(MessagesFor(row.manifest(row.least - 1)), ::testing::HasSubstr(row.under))
        << row.field;
  }
}

TEST(BadInputDocTest, DocsSayWhatTheTestsSaw) {
  svcmap::testing::ExpectFile("docs/bad-input.md", Document());
}

}  // namespace
}  // namespace svcmap::api
