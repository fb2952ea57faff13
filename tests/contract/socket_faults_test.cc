// Tests with responses of the kernel that are lost, late or duplicated. Unknown outcomes are
// reported as unknown, and no response is mistaken for the response to another request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libmnl/libmnl.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "nft/netlink/address_monitor.h"
#include "nft/netlink/netlink_kernel.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/contract/scripted_faults.h"
#include "tests/support/process.h"
#include "tests/support/status_matchers.h"
#include "tests/support/wait.h"

namespace svcmap::nft {
namespace {

using namespace std::chrono_literals;
using ::svcmap::testing::ServiceRow;
using ::testing::SizeIs;
using Receipt = SocketFaults::Receipt;
using ::testing::Contains;

constexpr Family kFaultFamily = Family::kIpv4;
constexpr SetRef kFaultSet = {kFaultFamily, proxy::kServiceIps};

class SessionFaultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    for (const Family family : kFamilies) tables_.push_back(proxy::MakeTable(family, {}));
    ASSERT_OK_AND_ASSIGN(kernel_, netns_->Run([&] {
      return NetlinkKernel::Open(tables_,
                                 {.answer_timeout = 20ms,
                                  .on_port = [this](uint32_t port) { ports_.push_back(port); },
                                  .faults = &faults_});
    }));
    Transaction creation;
    creation.CreateTable({kFaultFamily});
    creation.Add(ServiceRow(kFaultFamily, 1));
    ASSERT_OK(kernel_->Apply(creation).error);
  }

  // Applies the fault `receipt` to the next datagram only.
  void Once(Receipt receipt) {
    faults_.receive = [this, receipt](uint32_t, std::span<const uint8_t>) {
      faults_.receive = nullptr;
      return receipt;
    };
  }
  static Transaction Adding(uint32_t number) {
    return testing::Changes({}, {ServiceRow(kFaultFamily, number)});
  }
  void ExpectFreshSocket() { EXPECT_THAT(ports_, SizeIs(2)) << "one socket, or more than two"; }

  std::optional<testing::NetNs> netns_;
  TableSpecs tables_;
  ScriptedFaults faults_;
  std::vector<uint32_t> ports_;
  std::unique_ptr<NetlinkKernel> kernel_;
};

// ERESTART, EAGAIN and EINTR mean that the kernel has committed nothing and the batch must be sent
// again.
TEST_F(SessionFaultsTest, ABatchThatIsAskedForAgainIsSentAgain) {
  for (const int error : {ERESTART, EAGAIN, EINTR}) {
    int sent = 0;
    faults_.send = [&](uint32_t, std::span<const uint8_t>) {
      ++sent;
      return 0;
    };
    // Replace the error number in the response with `error`.
    faults_.receive = [&](uint32_t, std::span<const uint8_t> datagram) {
      faults_.receive = nullptr;
      auto* message = reinterpret_cast<nlmsghdr*>(const_cast<uint8_t*>(datagram.data()));
      static_cast<nlmsgerr*>(mnl_nlmsg_get_payload(message))->error = -error;
      return Receipt();
    };
    EXPECT_EQ(kernel_->Apply(Adding(2)).outcome, ApplyOutcome::kCommitted);
    EXPECT_EQ(sent, 2) << error;
  }
}

TEST_F(SessionFaultsTest, AnswersThatAreNoneAreNotWaitedForLongerThanAnswers) {
  faults_.receive = [&](uint32_t, std::span<const uint8_t> datagram) {
    std::memset(const_cast<uint8_t*>(datagram.data()), 0xff, datagram.size());
    return Receipt();
  };
  EXPECT_EQ(kernel_->Apply(Adding(2)).outcome, ApplyOutcome::kUnknown);
  constexpr auto kNoAnswer = absl::StatusCode::kDeadlineExceeded;
  EXPECT_EQ(kernel_->Generation().status().code(), kNoAnswer);
  EXPECT_EQ(kernel_->HasTable(kFaultFamily).status().code(), kNoAnswer);
  EXPECT_EQ(kernel_->ReadSet(kFaultSet).status().code(), kNoAnswer);
  EXPECT_EQ(kernel_->ReadTable(kFaultFamily).status().code(), kNoAnswer);
  const auto key = ServiceRow(kFaultFamily, 1).key;
  EXPECT_EQ(kernel_->ReadElement(kFaultSet, key.bytes()).status().code(), kNoAnswer);
  faults_.Clear();
  EXPECT_OK(kernel_->ReadTable(kFaultFamily));
}

TEST_F(SessionFaultsTest, ReadsThatLostAnswersAskAgainForThoseOnly) {
  std::vector<FieldBytes> keys;
  Transaction transaction;
  for (uint32_t i = 10; i < 110; ++i) {
    if (i % 2 == 0) transaction.Add(ServiceRow(kFaultFamily, i));
    keys.push_back(ServiceRow(kFaultFamily, i).key);
  }
  ASSERT_OK(kernel_->Apply(transaction).error);
  std::vector<size_t> sizes;
  faults_.send = [&](uint32_t, std::span<const uint8_t> bytes) {
    sizes.push_back(bytes.size());
    return 0;
  };
  int received = 0;
  faults_.receive = [&](uint32_t, std::span<const uint8_t>) {
    return Receipt{.error = ++received == 60 ? ENOBUFS : 0};
  };
  ASSERT_OK_AND_ASSIGN(const auto elements, kernel_->ReadElements(kFaultSet, keys));
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(elements[i],
              i % 2 == 0 ? std::optional(ServiceRow(kFaultFamily, 10 + i).Read()) : std::nullopt);
  }
  ASSERT_THAT(sizes, SizeIs(2));
  EXPECT_EQ(sizes[1], sizes[0] / 100 * 41);
}

TEST_F(SessionFaultsTest, ReadsThatAreInterruptedAreRepeated) {
  for (const int error : {EINTR, ENOBUFS}) {
    for (int at = 1; at <= 4; ++at) {
      int received = 0;
      faults_.receive = [&](uint32_t, std::span<const uint8_t>) {
        return Receipt{.error = ++received == at ? error : 0};
      };
      const auto elements = kernel_->ReadSet(kFaultSet);
      ASSERT_OK(elements);
      EXPECT_THAT(*elements, SizeIs(1));
      received = 0;
      const auto content = kernel_->ReadTable(kFaultFamily);
      ASSERT_OK(content);
      EXPECT_TRUE(content->has_value());
    }
  }
}

// New sockets must be opened in the session's namespace, although the calling thread may be in
// another namespace.
TEST_F(SessionFaultsTest, FreshSocketsAreInTheNamespaceOfTheFirst) {
  Once({.drop = true});
  EXPECT_EQ(kernel_->Apply(Adding(2)).outcome, ApplyOutcome::kUnknown);
  ASSERT_OK_AND_ASSIGN(const bool has, kernel_->HasTable(kFaultFamily));
  EXPECT_TRUE(has);
  ExpectFreshSocket();
}

// Tests that the monitor reads the node's addresses again after any read failure.
class AddressMonitorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    testing::MakePrivateNetNs(netns_);
    if (!netns_) return;
    ASSERT_OK_AND_ASSIGN(monitor_, netns_->Run([&] {
      return AddressMonitor::Start([this](NodeAddresses node) { Keep(std::move(node)); }, &faults_);
    }));
    EXPECT_THAT(Texts(node_), Contains("127.0.0.1/8 lo"));
  }
  void TearDown() override { monitor_.reset(); }

  void Keep(NodeAddresses node) {
    {
      const std::lock_guard lock(mutex_);
      node_ = std::move(node);
    }
    changed_.notify_all();
  }
  void Ip(const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {"ip"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    ASSERT_OK(testing::RunOk({.argv = std::move(argv), .netns = &*netns_}));
  }
  void AddAddress(const std::string& address) { Ip({"addr", "add", address + "/32", "dev", "lo"}); }
  // Returns "192.0.2.1/24 eth0" for each address, and "via 192.0.2.9" for each gateway.
  static std::vector<std::string> Texts(const NodeAddresses& node) {
    std::vector<std::string> texts;
    for (const InterfaceAddress& address : node.interfaces) {
      texts.push_back(address.address.ToString() + "/" + std::to_string(address.length) + " " +
                      address.interface);
    }
    for (const IpAddress& gateway : node.gateways) texts.push_back("via " + gateway.ToString());
    return texts;
  }
  void Await(const std::string& text, bool present = true) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, svcmap::testing::kHangLimit, [&] {
      const std::vector<std::string> texts = Texts(node_);
      return (std::count(texts.begin(), texts.end(), text) > 0) == present;
    })) << text;
  }
  void ExpectAddress(const std::string& address) { Await(address + "/32 lo"); }
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
  NodeAddresses node_;
  std::unique_ptr<AddressMonitor> monitor_;
};

TEST_F(AddressMonitorTest, ReportsNetworksAndGatewaysOfDefaultRoutes) {
  Ip({"link", "add", "eth0", "type", "bridge"});
  Ip({"link", "set", "eth0", "up"});
  Ip({"addr", "add", "192.0.2.1/24", "dev", "eth0"});
  Await("192.0.2.1/24 eth0");
  Ip({"route", "add", "198.51.100.0/24", "via", "192.0.2.8"});
  Ip({"route", "add", "default", "via", "192.0.2.9"});
  Await("via 192.0.2.9");
  Await("via 192.0.2.8", /*present=*/false);
  Ip({"route", "replace", "default", "nexthop", "via", "192.0.2.6", "nexthop", "via", "192.0.2.7"});
  Await("via 192.0.2.6");
  Await("via 192.0.2.7");
  Await("via 192.0.2.9", /*present=*/false);
  Ip({"route", "del", "default"});
  Await("via 192.0.2.7", /*present=*/false);
}

TEST_F(AddressMonitorTest, TheCostOfAnAddressDoesNotDependOnTheNumberOfRoutes) {
  constexpr int kRoutes = 5000;  // Of each family.
  // A dump of the routes of one family is not smaller, because a message has at least 44 bytes. On
  // a busy machine, the monitor can read the addresses and gateways more than once.
  constexpr size_t kDump = size_t{44} * kRoutes;
  Ip({"link", "add", "eth0", "type", "bridge"});
  Ip({"link", "set", "eth0", "up"});
  Ip({"addr", "add", "192.0.2.1/24", "dev", "eth0"});
  Ip({"addr", "add", "2001:db8::1/64", "dev", "eth0", "nodad"});
  Ip({"route", "add", "default", "via", "192.0.2.9"});
  Ip({"route", "add", "0.0.0.0/1", "via", "192.0.2.8"});
  Ip({"route", "add", "default", "via", "2001:db8::9"});
  Await("via 192.0.2.9");
  Await("via 2001:db8::9");
  size_t received = 0;
  {
    const std::lock_guard lock(faults_.mutex);
    faults_.receive = [&received](uint32_t, std::span<const uint8_t> datagram) {
      received += datagram.size();
      return SocketFaults::Receipt();
    };
  }
  std::string routes;
  for (int i = 0; i < kRoutes; ++i) {
    const std::string high = std::to_string(i / 250), low = std::to_string(i % 250);
    routes += "route add 10." + high + "." + low + ".0/24 via 192.0.2.9\n";
    routes += "route add 2001:db8:" + high + ":" + low + "::/64 via 2001:db8::9\n";
  }
  ASSERT_OK(testing::RunOk(
      {.argv = {"ip", "-batch", "-"}, .netns = &*netns_, .stdin_text = std::move(routes)}));
  AddAddress("192.0.2.2");
  ExpectAddress("192.0.2.2");
  Await("via 192.0.2.9");
  Await("via 2001:db8::9");
  Await("via 192.0.2.8", /*present=*/false);
  faults_.Clear();
  EXPECT_LT(received, kDump);
}

TEST_F(AddressMonitorTest, ADeletedAddressEndsItsDefaultRoute) {
  Ip({"link", "add", "eth0", "type", "bridge"});
  Ip({"link", "set", "eth0", "up"});
  Ip({"addr", "add", "192.0.2.1/24", "dev", "eth0"});
  Ip({"route", "add", "default", "via", "192.0.2.9"});
  Await("via 192.0.2.9");
  Ip({"addr", "del", "192.0.2.1/24", "dev", "eth0"});
  Await("via 192.0.2.9", /*present=*/false);
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
