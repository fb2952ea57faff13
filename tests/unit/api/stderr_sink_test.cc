#include "api/log/stderr_sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <chrono>

#include "nft/base/unique_fd.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;

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
