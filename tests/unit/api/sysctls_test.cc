#include "api/daemon/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

namespace svcmap::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kConnectionLimit[] = "net.netfilter.nf_conntrack_max";

// Returns a configuration that does not write any sysctl.
KubeProxyConfiguration NoSysctls() {
  KubeProxyConfiguration config;
  config.conntrack = {.max_per_core = 0,
                      .min = 131072,
                      .tcp_established_timeout = std::chrono::seconds(0),
                      .tcp_close_wait_timeout = std::chrono::seconds(0)};
  return config;
}

int64_t MaxOf(int32_t max_per_core, int32_t min, int cpus) {
  KubeProxyConfiguration config = NoSysctls();
  config.conntrack.max_per_core = max_per_core;
  config.conntrack.min = min;
  const std::vector<Sysctl> wanted = DesiredSysctls(config, cpus);
  EXPECT_EQ(wanted.size(), 1u);
  EXPECT_EQ(wanted.at(0).name, kConnectionLimit);
  return wanted.at(0).value;
}

TEST(SysctlsTest, S309_S310_S327_ConnectionsForEachCpu) {
  // With 2 CPUs, the product of the CPUs and the value per CPU is below the minimum.
  EXPECT_EQ(MaxOf(32768, 131072, 2), 131072);
  EXPECT_EQ(MaxOf(32768, 131072, 8), 262144);
  EXPECT_EQ(MaxOf(32768, 131072, 64), 1048576);
  EXPECT_EQ(MaxOf(32768, 2000000, 64), 1048576);  // The maximum takes precedence over the minimum.
  EXPECT_EQ(MaxOf(32768, 2000000, 2), 2000000);
  EXPECT_EQ(MaxOf(2147483647, 0, 1024), 1048576);
}

TEST(SysctlsTest, S309_S311_S312_S314_ZeroLeavesThemAlone) {
  EXPECT_THAT(DesiredSysctls(NoSysctls(), 8), IsEmpty());
}

TEST(SysctlsTest, S311ToS314_S328_TimeoutsAreWholeSeconds) {
  KubeProxyConfiguration config = NoSysctls();
  config.conntrack.tcp_established_timeout = std::chrono::milliseconds(5999);
  config.conntrack.tcp_close_wait_timeout = std::chrono::hours(1);
  config.conntrack.udp_timeout = std::chrono::milliseconds(999);
  config.conntrack.udp_stream_timeout = std::chrono::seconds(7);
  config.conntrack.tcp_be_liberal = true;
  EXPECT_THAT(DesiredSysctls(config, 8),
              ElementsAre(Sysctl{"net.netfilter.nf_conntrack_tcp_timeout_established", 5},
                          Sysctl{"net.netfilter.nf_conntrack_tcp_timeout_close_wait", 3600},
                          Sysctl{"net.netfilter.nf_conntrack_udp_timeout_stream", 7},
                          Sysctl{"net.netfilter.nf_conntrack_tcp_be_liberal", 1}));
}

TEST(SysctlsTest, S329_NothingElseIsWritten) {
  for (const Sysctl& sysctl : DesiredSysctls(KubeProxyConfiguration(), 8)) {
    EXPECT_THAT(sysctl.name, HasSubstr("net.netfilter.nf_conntrack_"));
  }
}

// Tests that write to a directory with the layout of /proc/sys.
class WriteSysctlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(folder_.ok());
    std::filesystem::create_directories(folder_->path() + "/net/netfilter");
  }
  std::string Path(const std::string& name) const {
    return folder_->path() + "/net/netfilter/nf_conntrack_" + name;
  }
  void Set(const std::string& path, const std::string& value) { std::ofstream(path) << value; }
  std::string Get(const std::string& path) {
    std::string value;
    std::ifstream(path) >> value;
    return value;
  }
  SysctlPaths paths() const { return {folder_->path(), folder_->path() + "/hashsize"}; }

  absl::StatusOr<testing::TemporaryFolder> folder_ = testing::TemporaryFolder::Make();
};

TEST_F(WriteSysctlsTest, S327_TheHashTableGrowsWithTheLimit) {
  Set(Path("max"), "65536\n");
  Set(paths().hash_size, "16384\n");
  EXPECT_THAT(*WriteSysctls({{kConnectionLimit, 131072}}, paths()), IsEmpty());
  EXPECT_EQ(Get(Path("max")), "131072");
  EXPECT_EQ(Get(paths().hash_size), "32768");
  Set(paths().hash_size, "50000");
  EXPECT_THAT(*WriteSysctls({{kConnectionLimit, 131072}}, paths()), IsEmpty());
  EXPECT_EQ(Get(paths().hash_size), "50000");
}

TEST_F(WriteSysctlsTest, S327_TheLimitIsNeverLowered) {
  Set(Path("max"), "262144\n");
  Set(paths().hash_size, "16384\n");
  EXPECT_THAT(*WriteSysctls({{kConnectionLimit, 131072}}, paths()), IsEmpty());
  EXPECT_EQ(Get(Path("max")), "262144");
  EXPECT_EQ(Get(paths().hash_size), "32768");
}

TEST_F(WriteSysctlsTest, S328_WhatIsRightIsNotWritten) {
  Set(Path("udp_timeout"), "30\n");
  const auto before = std::filesystem::last_write_time(Path("udp_timeout"));
  std::filesystem::permissions(Path("udp_timeout"), std::filesystem::perms::owner_read);
  EXPECT_THAT(*WriteSysctls({{"net.netfilter.nf_conntrack_udp_timeout", 30}}, paths()), IsEmpty());
  EXPECT_EQ(std::filesystem::last_write_time(Path("udp_timeout")), before);
}

TEST_F(WriteSysctlsTest, S327_S328_WhatIsNotThereIsAWarningWithTheWantedValue) {
  Set(Path("udp_timeout"), "60");
  const auto warnings = WriteSysctls(
      {{kConnectionLimit, 131072}, {"net.netfilter.nf_conntrack_udp_timeout", 30}}, paths());
  ASSERT_TRUE(warnings.ok());
  EXPECT_THAT(*warnings,
              ElementsAre(HasSubstr(
                  "set net.netfilter.nf_conntrack_max to 131072: No such file or directory")));
  EXPECT_EQ(Get(Path("udp_timeout")), "30");
}

TEST_F(WriteSysctlsTest, S328_AValueThatTheKernelRejectsIsAnError) {
  // Writing to a directory fails with EISDIR, which the test uses instead of EINVAL.
  std::filesystem::create_directory(Path("udp_timeout"));
  EXPECT_THAT(std::string(WriteSysctls({{"net.netfilter.nf_conntrack_udp_timeout", 30}}, paths())
                              .status()
                              .message()),
              HasSubstr("set net.netfilter.nf_conntrack_udp_timeout to 30"));
}

TEST_F(WriteSysctlsTest, S308_OomScoreAdj) {
  const std::string path = folder_->path() + "/oom_score_adj";
  EXPECT_FALSE(WriteOomScoreAdj(-999, path).ok());
  Set(path, "0\n");
  EXPECT_TRUE(WriteOomScoreAdj(-999, path).ok());
  EXPECT_EQ(Get(path), "-999");
}

}  // namespace
}  // namespace svcmap::api
