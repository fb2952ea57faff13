#include "api/log/line_limit.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <chrono>
#include <string>
#include <vector>

#include "api/log/set_up_log.h"
#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Le;

class LineLimitTest : public ::testing::Test {
 protected:
  // Returns the number of logged lines.
  uint64_t Log(const std::string& client, uint64_t count) {
    uint64_t admitted = 0;
    for (uint64_t i = 0; i < count; ++i) admitted += limit_.Admit(client, now_) ? 1 : 0;
    return admitted;
  }

  LineLimit::Clock::time_point now_ = LineLimit::Clock::now();
  std::vector<std::string> reports_;
  LineLimit limit_{[this](const std::string& line) { reports_.push_back(line); }};
};

TEST_F(LineLimitTest, LogsTheFirstLinesOfASecondAndTheNumberOfTheOthers) {
  EXPECT_EQ(Log("uid 0", LineLimit::kLines + 5), LineLimit::kLines);
  now_ += milliseconds(999);
  EXPECT_EQ(Log("uid 0", 1), 0u);
  limit_.Report(now_);
  EXPECT_THAT(reports_, IsEmpty());
  now_ += milliseconds(1);
  limit_.Report(now_);
  EXPECT_THAT(reports_, ElementsAre("log lines suppressed client=\"uid 0\" count=6"));
  EXPECT_EQ(Log("uid 0", 3), 3u);
}

TEST_F(LineLimitTest, LinesBelowTheLimitAreNotReported) {
  EXPECT_EQ(Log("uid 0", LineLimit::kLines), LineLimit::kLines);
  now_ += LineLimit::kPeriod;
  EXPECT_EQ(Log("uid 0", LineLimit::kLines), LineLimit::kLines);
  limit_.Report(now_ + LineLimit::kPeriod);
  EXPECT_THAT(reports_, IsEmpty());
}

TEST_F(LineLimitTest, AClientDoesNotUseTheLinesOfAnother) {
  Log("uid 1", 1000);
  EXPECT_EQ(Log("uid 2", 5), 5u);
}

TEST_F(LineLimitTest, ManyClientsShareAPeriod) {
  uint64_t admitted = 0;
  constexpr uint64_t kNames = 1000;
  for (uint64_t i = 0; i < kNames; ++i) admitted += Log("uid " + std::to_string(i), 100);
  EXPECT_THAT(admitted, Le((LineLimit::kClients + 1) * LineLimit::kLines));
  now_ += LineLimit::kPeriod;
  limit_.Report(now_);
  EXPECT_EQ(reports_.size(), LineLimit::kClients + 1);
  EXPECT_EQ(reports_.front(),
            "log lines suppressed client=others count=" +
                std::to_string((kNames - LineLimit::kClients) * 100 - LineLimit::kLines));
}

TEST(LineLimitEndTest, TheNumberIsLoggedAtTheEnd) {
  std::vector<std::string> reports;
  {
    LineLimit limit([&](const std::string& line) { reports.push_back(line); });
    for (uint64_t i = 0; i < LineLimit::kLines + 1; ++i) limit.Admit("uid 0");
  }
  EXPECT_THAT(reports, ElementsAre("log lines suppressed client=\"uid 0\" count=1"));
}

std::string ReadAll(int fd) {
  std::string all;
  char block[4096];
  for (;;) {
    const ssize_t count = read(fd, block, sizeof(block));
    if (count <= 0) return all;
    all.append(block, static_cast<size_t>(count));
  }
}

TEST(StderrSinkTest, AReaderThatIsStuckBlocksNoWriterAndLearnsWhatItMissed) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  spdlog::logger logger("test", std::make_shared<BoundedSink>(writer.get()));
  logger.set_pattern("%v");
  logger.info("first");
  EXPECT_EQ(ReadAll(reader.get()), "first\n");

  const std::string line(100, 'x');
  // Number of log lines. The pipe's buffer has room for only a few hundred lines.
  constexpr int kLines = 5000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLines; ++i) logger.warn("{}", line);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));

  const std::string all = ReadAll(reader.get());
  const auto written = std::count(all.begin(), all.end(), '\n');
  EXPECT_GT(written, 0);
  EXPECT_LT(written, kLines);
  logger.info("back");
  const std::string end = ReadAll(reader.get());
  EXPECT_THAT(end, HasSubstr("count=" + std::to_string(kLines - written) + "\n"));
  EXPECT_THAT(end, HasSubstr("back\n"));
}

TEST(StderrSinkTest, LongLinesAreWrittenCompletely) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  spdlog::logger logger("test", std::make_shared<BoundedSink>(writer.get()));
  logger.set_pattern("%v");
  const std::string line(20000, 'x');
  logger.info("{}", line);
  EXPECT_EQ(ReadAll(reader.get()), line + "\n");
}

}  // namespace
}  // namespace svcmap::api
