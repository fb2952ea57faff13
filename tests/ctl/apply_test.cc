// Tests of the output of `svcmapctl apply` with a real svcmapd.
#include <gmock/gmock.h>

#include "tests/ctl/ctl_world.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;

class ApplyTest : public CtlTest {
 protected:
  std::string Prune(const char* manifest) {
    const CommandResult result = Ctl(
        {"apply", "--prune", "-f", std::string(SVCMAP_SOURCE_DIR "/deploy/examples/") + manifest});
    EXPECT_EQ(result.exit.code, 0) << result.err;
    return result.out;
  }
};

TEST_F(ApplyTest, PruneReportsTheCommitsOfTheWholeSnapshot) {
  EXPECT_THAT(Prune("demo.yaml"), HasSubstr(", committed in "));
  EXPECT_THAT(Prune("demo.yaml"), HasSubstr(", no kernel changes needed"));
}

}  // namespace
}  // namespace svcmap::testing
