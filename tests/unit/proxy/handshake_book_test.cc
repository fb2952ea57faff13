#include "proxy/conntrack/handshake_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

nft::Flow Handshake(uint32_t id, std::string_view destination, std::string_view endpoint) {
  nft::Flow flow = Flow(destination, endpoint);
  flow.protocol = nft::TransportProtocol::kTcp;
  flow.unreplied = true;
  flow.id = id;
  return flow;
}

const ServiceHash kWebHash = HashOfService("ns/web"), kOtherHash = HashOfService("ns/other");

class HandshakeBookTest : public ::testing::Test {
 protected:
  // Runs a round that lists these stale handshakes. Returns those that are deleted.
  std::vector<nft::Flow> Round(const std::vector<nft::Flow>& listed) {
    std::vector<nft::Flow> deleted;
    EXPECT_TRUE(book_.Start(now_));
    std::map<uint32_t, nft::Flow> old;
    for (const nft::Flow& flow : book_.Old()) old[flow.id] = flow;
    for (const nft::Flow& flow : listed) {
      const auto found = old.find(flow.id);
      if ((found != old.end() && found->second == flow) || book_.IsReused(flow, kWebHash, now_)) {
        deleted.push_back(flow);
      } else {
        book_.Record(flow, now_);
      }
    }
    book_.Finish();
    return deleted;
  }
  void Wait(int64_t count) { now_ += milliseconds(count); }
  void AddEndpoint(ServiceHash service, std::string_view address) {
    book_.Update({.added = {{service, Ip(address)}}}, now_);
  }

  const nft::Flow one_ = Handshake(1, "10.96.0.1:80", "10.0.0.1:80");
  HandshakeBook::Time now_ = HandshakeBook::Time() + std::chrono::hours(1);
  HandshakeBook book_{milliseconds(1000), milliseconds(4000)};
};

TEST_F(HandshakeBookTest, NothingIsDueWithoutAChange) {
  EXPECT_EQ(book_.due_at(), std::nullopt);
  AddEndpoint(kOtherHash, "10.0.0.1");
  EXPECT_EQ(book_.due_at(), std::nullopt);
  EXPECT_FALSE(book_.Start(now_));
}

TEST_F(HandshakeBookTest, S242_AHandshakeIsDeletedAfterItWasListedTwice) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(1000));
  Wait(999);
  EXPECT_FALSE(book_.Start(now_));
  Wait(1);
  EXPECT_THAT(Round({one_}), ElementsAre(one_));
  EXPECT_EQ(book_.due_at(), std::nullopt);
}

// For example, 300 ms are enough for the handshake with a slow endpoint.
TEST_F(HandshakeBookTest, S242_ARoundWithinTheSecondDeletesNothing) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  Wait(600);
  const nft::Flow two = Handshake(2, "10.96.0.1:80", "10.0.0.1:80");
  book_.Check();
  EXPECT_THAT(Round({one_, two}), IsEmpty());
  Wait(400);
  EXPECT_THAT(Round({one_, two}), ElementsAre(one_)) << "the other one is younger";
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(-400 + 2000)) << "further rounds wait longer";
  Wait(1600);
  EXPECT_THAT(Round({two}), ElementsAre(two));
}

TEST_F(HandshakeBookTest, AHandshakeThatWasRepliedIsForgotten) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  Wait(1000);
  EXPECT_THAT(Round({}), IsEmpty());
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty()) << "another handshake";
}

// The kernel can use an id again.
TEST_F(HandshakeBookTest, AnotherHandshakeWithTheSameIdIsAnotherOne) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  Wait(1000);
  const nft::Flow other = Handshake(1, "10.96.0.1:80", "10.0.0.2:80");
  EXPECT_THAT(Round({other}), IsEmpty());
  Wait(2000);
  EXPECT_THAT(Round({other}), ElementsAre(other));
}

TEST_F(HandshakeBookTest, S242_AHandshakeWithANewEndpointOfAnotherServiceIsDeletedAtOnce) {
  const nft::Flow untranslated = Handshake(2, "10.0.0.1:80", "10.0.0.1:80");
  AddEndpoint(kOtherHash, "10.0.0.1");
  book_.Check();
  EXPECT_THAT(Round({one_, untranslated}), ElementsAre(one_));
  book_.Check();
  now_ += HandshakeBook::kNew;
  EXPECT_THAT(Round({one_}), IsEmpty()) << "the endpoint is not new";
}

// For example, a pod of two Services that leaves one of them first.
TEST_F(HandshakeBookTest, S242_ANewEndpointOfBothServicesIsNotReused) {
  AddEndpoint(kWebHash, "10.0.0.1");
  EXPECT_FALSE(book_.IsReused(one_, kWebHash, now_));
  EXPECT_TRUE(book_.IsReused(one_, kNoService, now_)) << "the Service was deleted";
  AddEndpoint(kOtherHash, "10.0.0.1");
  Wait(999);
  AddEndpoint(kOtherHash, "10.0.0.1");
  EXPECT_FALSE(book_.IsReused(one_, kWebHash, now_));
  Wait(1);
  AddEndpoint(kOtherHash, "10.0.0.1");
  EXPECT_TRUE(book_.IsReused(one_, kWebHash, now_)) << "one second later";
  AddEndpoint(kWebHash, "10.0.0.1");
  EXPECT_FALSE(book_.IsReused(one_, kWebHash, now_));
}

TEST_F(HandshakeBookTest, TheOldestEndpointAddressesAreForgotten) {
  EndpointChanges changes;
  for (size_t i = 0; i <= EndpointEvents<IpAddress>::kMaxEvents; ++i) {
    const std::string end = std::to_string(i / 256 % 256) + "." + std::to_string(i % 256);
    changes.added.emplace_back(kOtherHash, Ip("10.1." + end));
  }
  changes.added.front().second = Ip("10.0.0.1");
  changes.added[1].second = Ip("10.0.0.2");
  changes.added.back().second = Ip("10.0.0.3");
  book_.Update(changes, now_);
  const auto reused = [&](std::string_view endpoint) {
    return book_.IsReused(Handshake(1, "10.96.0.1:80", endpoint), kWebHash, now_);
  };
  EXPECT_FALSE(reused("10.0.0.1:80"));
  EXPECT_TRUE(reused("10.0.0.2:80"));
  EXPECT_TRUE(reused("10.0.0.3:80"));
}

TEST_F(HandshakeBookTest, AFailedRoundIsRepeated) {
  book_.Check();
  EXPECT_THAT(Round({one_}), IsEmpty());
  Wait(1000);
  EXPECT_TRUE(book_.Start(now_));
  book_.Return();
  EXPECT_EQ(book_.due_at(), HandshakeBook::Time::min());
  EXPECT_THAT(Round({one_}), ElementsAre(one_));
}

// If the kernel still sends handshakes to an endpoint that is gone, the rounds become rare.
TEST_F(HandshakeBookTest, RoundsWithoutAChangeBecomeRare) {
  book_.Check();
  std::vector<int64_t> waits;
  for (uint32_t id = 1; id <= 5; ++id) {
    Round({Handshake(id, "10.96.0.1:80", "10.0.0.1:80")});
    const auto wait = *book_.due_at() - now_;
    waits.push_back(wait / milliseconds(1));
    now_ += wait;
  }
  EXPECT_THAT(waits, ElementsAre(1000, 2000, 4000, 4000, 4000));
  book_.Check();
  Round({Handshake(6, "10.96.0.1:80", "10.0.0.1:80")});
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(1000));
}

TEST_F(HandshakeBookTest, MemoryIsBounded) {
  std::vector<nft::Flow> many;
  for (uint32_t id = 1; id <= HandshakeBook::kMaxHandshakes + 10; ++id) {
    many.push_back(Handshake(id, "10.96.0.1:80", "10.0.0.1:80"));
  }
  book_.Check();
  EXPECT_THAT(Round(many), IsEmpty());
  Wait(1000);
  EXPECT_EQ(Round(many).size(), HandshakeBook::kMaxHandshakes);
  many.erase(many.begin(), many.begin() + HandshakeBook::kMaxHandshakes);
  Wait(2000);
  EXPECT_EQ(Round(many).size(), 10u);
}

}  // namespace
}  // namespace svcmap::proxy
