// Tests that the monitor reads the node's addresses again after any read failure.
#include "nft/netlink/address_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/contract/private_netns.h"
#include "tests/contract/scripted_faults.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {
namespace {

using ::testing::Contains;

class AddressMonitorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    ASSERT_OK_AND_ASSIGN(monitor_, netns_->Run([&] {
      return AddressMonitor::Start([this](std::vector<IpAddress> a) { Keep(std::move(a)); },
                                   &faults_);
    }));
    EXPECT_THAT(addresses_, Contains(*IpAddress::Parse("127.0.0.1")));
  }
  void TearDown() override { monitor_.reset(); }

  void Keep(std::vector<IpAddress> addresses) {
    {
      const std::lock_guard lock(mutex_);
      addresses_ = std::move(addresses);
    }
    changed_.notify_all();
  }
  void AddAddress(const std::string& address) {
    ASSERT_OK(testing::RunOk(
        {.argv = {"ip", "addr", "add", address + "/32", "dev", "lo"}, .netns = &*netns_}));
  }
  void ExpectAddress(const std::string& text) {
    const IpAddress address = *IpAddress::Parse(text);
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(10), [&] {
      return std::count(addresses_.begin(), addresses_.end(), address) > 0;
    })) << text;
  }
  // Applies the fault `receipt` to the next `count` datagrams.
  void Receive(int count, SocketFaults::Receipt receipt) {
    const std::lock_guard lock(faults_.mutex);
    failures_ = count;
    faults_.receive = [this, receipt](uint32_t, std::span<const uint8_t>) {
      return failures_-- > 0 ? receipt : SocketFaults::Receipt();
    };
  }

  std::optional<testing::NetNs> netns_;
  ScriptedFaults faults_;
  int failures_ = 0;
  int opens_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<IpAddress> addresses_;
  std::unique_ptr<AddressMonitor> monitor_;
};

TEST_F(AddressMonitorTest, TellsOfNewAddresses) {
  AddAddress("192.0.2.1");
  ExpectAddress("192.0.2.1");
  AddAddress("192.0.2.2");
  ExpectAddress("192.0.2.2");
}

TEST_F(AddressMonitorTest, ReadsAgainUntilItSucceeds) {
  for (const int error : {ENOBUFS, EINTR, EBADF}) {
    Receive(3, {.error = error});
    const std::string address = "192.0.2." + std::to_string(error);
    AddAddress(address);
    ExpectAddress(address);
    faults_.Clear();
  }
  AddAddress("192.0.2.250");
  ExpectAddress("192.0.2.250");
}

TEST_F(AddressMonitorTest, OpensNewSocketsUntilItSucceeds) {
  Receive(1, {.error = EBADF});
  {
    const std::lock_guard lock(faults_.mutex);
    faults_.open = [this](int) { return ++opens_ == 1 ? EMFILE : 0; };
    faults_.set_option = [this](int) { return opens_ < 3 ? EPERM : 0; };
  }
  AddAddress("192.0.2.1");
  ExpectAddress("192.0.2.1");
  faults_.Clear();
  AddAddress("192.0.2.2");
  ExpectAddress("192.0.2.2");
}

}  // namespace
}  // namespace svcmap::nft
