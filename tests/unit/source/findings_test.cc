#include "api/source/findings.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace svcmap::source::test {
namespace {

v1::Ack AckWith(size_t first, size_t count, v1::Severity severity) {
  v1::Ack ack;
  for (size_t i = first; i < first + count; ++i) {
    v1::ObjectResult& result = *ack.add_results();
    result.set_kind(v1::KIND_SERVICE);
    result.set_name(absl::StrCat("s", i));
    result.set_severity(severity);
    result.set_message("why");
  }
  return ack;
}

TEST(FindingsTest, DroppedWarningsAreNoRejections) {
  Findings findings;
  EXPECT_EQ(findings.Take(AckWith(0, Findings::kMaxObjects + 2, v1::WARNING), {}).size(),
            Findings::kMaxObjects + 1);  // Logs once that more are dropped.
  EXPECT_FALSE(findings.any_rejected());
}

TEST(FindingsTest, DroppedRejectionsCountUntilTheNextSnapshot) {
  Findings findings;
  findings.Take(AckWith(0, Findings::kMaxObjects, v1::WARNING), {});
  findings.Take(AckWith(Findings::kMaxObjects, 1, v1::REFUSED), {});
  EXPECT_EQ(findings.rejected(), 0u);
  EXPECT_TRUE(findings.any_rejected());
  findings.BeginSnapshot();
  EXPECT_FALSE(findings.any_rejected());
}

}  // namespace
}  // namespace svcmap::source::test
