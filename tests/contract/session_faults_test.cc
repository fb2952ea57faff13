// Tests with responses of the kernel that are lost, late or duplicated. Unknown outcomes are
// reported as unknown, and no response is mistaken for the response to another request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libmnl/libmnl.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "nft/netlink/netlink_kernel.h"
#include "proxy/ruleset/table.h"
#include "tests/contract/private_netns.h"
#include "tests/contract/rows.h"
#include "tests/contract/scripted_faults.h"
#include "tests/support/status_matchers.h"

namespace svcmap::nft {
namespace {

using namespace std::chrono_literals;
using ::svcmap::testing::ServiceRow;
using ::testing::SizeIs;
using Receipt = SocketFaults::Receipt;

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

}  // namespace
}  // namespace svcmap::nft
