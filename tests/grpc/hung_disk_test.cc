// Tests that a disk, a log or a kernel that does not answer delays neither status calls nor other
// controllers.
#include <gmock/gmock.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <future>

#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::AService;
using svcmap::testing::kHangLimit;
using svcmap::testing::Upsert;
using Clock = std::chrono::steady_clock;

class HungDiskTest : public ServerTest {
 protected:
  // Blocks the calling thread until Recover() is called.
  void Hang() {
    reached_.set_value();
    recovered_.get_future().wait();
  }
  void AwaitHang() {
    ASSERT_EQ(reached_.get_future().wait_for(kHangLimit), std::future_status::ready);
  }
  void Recover() { recovered_.set_value(); }

  void ExpectStatusSoon() {
    const auto start = Clock::now();
    status_ = GetStatus();
    EXPECT_LT(Clock::now() - start, kHangLimit);
  }

  std::promise<void> reached_, recovered_;
  std::shared_ptr<spdlog::logger> hung_logger_;  // Outlives the threads that use it.
  v1::GetStatusResponse status_;
};

TEST_F(HungDiskTest, StatusAndTheControllerGoOnWhileAnEpochIsSaved) {
  save_leader_ = [this](const proxy::Leader& leader) {
    if (leader.epoch == 2) Hang();
  };
  Serve();
  Stream first(*stub_), second(*stub_);
  ASSERT_TRUE(first.Open("a", 1));
  std::future<bool> opened = std::async(std::launch::async, [&] { return second.Open("b", 2); });
  AwaitHang();
  ExpectStatusSoon();
  EXPECT_EQ(status_.controller().name(), "a");
  ASSERT_TRUE(first.Send(1, {Upsert(Web())}));
  EXPECT_EQ(first.ReadAck().outcome(), v1::COMMITTED);
  Recover();
  EXPECT_TRUE(opened.get());
  EXPECT_EQ(first.Finish().error_code(), grpc::ABORTED);
  EXPECT_EQ(GetStatus().controller().name(), "b");
}

// A log sink that blocks until the test releases it.
class HungSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit HungSink(std::function<void()> hang) : hang_(std::move(hang)) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view text(message.payload.data(), message.payload.size());
    if (text.find("shop/bad") != text.npos && !hung_.exchange(true)) hang_();
  }
  void flush_() override {}

 private:
  std::function<void()> hang_;
  std::atomic<bool> hung_ = false;
};

TEST_F(HungDiskTest, StatusDoesNotWaitForFindingsToBeLogged) {
  Serve();
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  Stream stream(*stub_, "a");
  hung_logger_ =
      std::make_shared<spdlog::logger>("hung", std::make_shared<HungSink>([this] { Hang(); }));
  spdlog::set_default_logger(hung_logger_);
  ASSERT_TRUE(stream.Send(1, {Upsert(AService("shop/bad").ClusterIp("10.96.0.9").Port("", 0))}));
  AwaitHang();
  ExpectStatusSoon();
  Recover();
  stream.ReadAck();
  spdlog::set_default_logger(before);
}

}  // namespace
}  // namespace svcmap::api
