// Tests of the completion scripts in real shells.
#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/ctl/ctl_world.h"

namespace svcmap::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

class CompletionTest : public CtlTest {
 protected:
  // Returns the candidates that bash offers for this command line.
  std::vector<std::string> Complete(const std::string& line) {
    const absl::StatusOr<std::string> out =
        RunOk({.argv = {"bash", "-c",
                        absl::StrCat("PATH=", SVCMAP_BIN_DIR, ":$PATH\n",
                                     "source <(svcmapctl completion bash)\n",
                                     "complete -p svcmapctl > /dev/null || exit 1\n", "COMP_LINE='",
                                     line, "'\nCOMP_POINT=${#COMP_LINE}\n_svcmapctl\n",
                                     "printf '%s\\n' \"${COMPREPLY[@]}\"")},
               .netns = &node().netns(),
               .env = {"SVCMAP_ADDRESS=" + agent().socket()}});
    EXPECT_OK(out);
    return absl::StrSplit(out.value_or(""), '\n', absl::SkipEmpty());
  }
};

TEST_F(CompletionTest, BashCompletesCommandsOptionsAndNames) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb), Web("shop/api", ClusterIp(11))}));
  EXPECT_THAT(Complete("svcmapctl sta"), ElementsAre("status"));
  EXPECT_THAT(Complete("svcmapctl "), Contains("support-bundle"));
  EXPECT_THAT(Complete("svcmapctl get svc shop/"), ElementsAre("shop/api", "shop/web"));
  EXPECT_THAT(Complete("svcmapctl get eps "), ElementsAre());
  EXPECT_THAT(Complete("svcmapctl get no "), ElementsAre("n1"));
  EXPECT_THAT(Complete("svcmapctl get svc -n "), ElementsAre("shop"));
  EXPECT_THAT(Complete("svcmapctl get svc,no "), ElementsAre("n1", "shop/api", "shop/web"));
  EXPECT_THAT(Complete("svcmapctl delete -n shop svc "), ElementsAre("api", "web"));
  EXPECT_THAT(Complete("svcmapctl top --endpoints shop/w"), ElementsAre("shop/web"));
  EXPECT_THAT(Complete("svcmapctl get --namespace=s"), ElementsAre("shop"));
  EXPECT_THAT(Complete("svcmapctl get svc -o j"), ElementsAre("json"));
  EXPECT_THAT(Complete("svcmapctl check --no"), ElementsAre("--no-endpoints"));
  // Bash replaces only the part after the last colon or equal sign.
  EXPECT_THAT(Complete("svcmapctl explain 10.96.0.10:80/U"), ElementsAre("80/UDP"));
  EXPECT_THAT(Complete("svcmapctl get svc --output=w"), ElementsAre("wide"));
}

}  // namespace
}  // namespace svcmap::testing
