#include "proxy/conntrack/tcp_book.h"

#include <gtest/gtest.h>

#include "tests/unit/proxy/flow_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;
using Names = std::vector<std::string>;

TcpEndpoints Tcp(const Names& destinations, const Names& endpoints) {
  TcpEndpoints tcp{.endpoints = Endpoints(endpoints)};
  for (const std::string& destination : destinations) tcp.destinations.push_back(End(destination));
  return tcp;
}

class TcpBookTest : public ::testing::Test {
 protected:
  void Update(const std::string& service, const Names& destinations, const Names& endpoints) {
    book_.Update(service, Tcp(destinations, endpoints), now_);
  }
  // Runs a round and returns whether a connection via `destination` to `endpoint` is stale.
  bool Stale(const std::string& destination, const std::string& endpoint) {
    const TcpBook::Round round = book_.Take(now_);
    book_.Finish(round);
    return round.IsStale(Flow(destination, endpoint));
  }
  void Wait(int64_t count) { now_ += milliseconds(count); }

  TcpBook::Time now_ = TcpBook::Time() + std::chrono::hours(1);
  TcpBook book_{milliseconds(1000)};
};

TEST_F(TcpBookTest, AnEndpointIsGoneAfterOneSecond) {
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80", "10.0.0.2:80"});
  EXPECT_EQ(book_.due_at(), std::nullopt);
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80"});
  EXPECT_EQ(book_.due_at(), now_ + milliseconds(1000));
  Wait(999);
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.0.0.2:80"));
  Wait(1);
  const TcpBook::Round round = book_.Take(now_);
  EXPECT_EQ(round.services(), 1u);
  EXPECT_TRUE(round.HasFamily(Family::kIpv4));
  EXPECT_FALSE(round.HasFamily(Family::kIpv6));
  EXPECT_TRUE(round.IsStale(Flow("10.96.0.1:80", "10.0.0.2:80")));
  EXPECT_FALSE(round.IsStale(Flow("10.96.0.1:80", "10.0.0.1:80"))) << "still an endpoint";
  EXPECT_FALSE(round.IsStale(Flow("10.96.0.1:80", "10.0.0.2:81"))) << "another port";
  EXPECT_FALSE(round.IsStale(Flow("10.96.0.1:80", "10.96.0.1:80"))) << "no translation";
  EXPECT_FALSE(round.IsStale(Flow("10.96.0.2:80", "10.0.0.2:80"))) << "another Service";
  EXPECT_FALSE(round.IsStale(Flow("10.0.0.2:80", "10.0.0.2:80"))) << "without a Service";
  EXPECT_EQ(book_.due_at(), std::nullopt);
}

TEST_F(TcpBookTest, AConnectionWithoutTranslationIsNotStale) {
  Update("ns/web", {"10.0.0.2:80"}, {"10.0.0.2:80"});  // An external IP that is a pod's address.
  Update("ns/web", {"10.0.0.2:80"}, {});
  Wait(1000);
  EXPECT_FALSE(Stale("10.0.0.2:80", "10.0.0.2:80"));
}

TEST_F(TcpBookTest, TheOldestDeparturesAreForgotten) {
  const auto endpoint = [](size_t i) {
    return "10." + std::to_string(i / 65536) + "." + std::to_string(i / 256 % 256) + "." +
           std::to_string(i % 256) + ":80";
  };
  constexpr size_t kMore = 100;
  for (size_t i = 0; i < TcpBook::kMaxDepartures + kMore; ++i) {
    Update("ns/web", {"10.96.0.1:80"}, {endpoint(i)});
  }
  Update("ns/web", {"10.96.0.1:80"}, {});
  EXPECT_EQ(book_.TakeForgotten(), kMore);
  EXPECT_EQ(book_.TakeForgotten(), 0u);
  Wait(1000);
  const TcpBook::Round round = book_.Take(now_);
  EXPECT_FALSE(round.IsStale(Flow("10.96.0.1:80", endpoint(kMore - 1))));
  EXPECT_TRUE(round.IsStale(Flow("10.96.0.1:80", endpoint(kMore))));
  // A failed round does not raise the limit.
  for (size_t i = 0; i < kMore; ++i) Update("ns/web", {"10.96.0.1:80"}, {endpoint(i)});
  book_.Return(round);
  EXPECT_EQ(book_.TakeForgotten(), kMore - 1);
}

TEST_F(TcpBookTest, TheSecondStartsAgainIfTheEndpointReturns) {
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80"});
  Update("ns/web", {"10.96.0.1:80"}, {});
  Wait(500);
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80"});
  Wait(400);
  Update("ns/web", {"10.96.0.1:80"}, {});
  Wait(999);
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.0.0.1:80"));
  Wait(1);
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.1:80"));
}

// Other changes to the Service do not delay the round.
TEST_F(TcpBookTest, EachEndpointHasItsOwnSecond) {
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80", "10.0.0.2:80"});
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.2:80"});
  Wait(600);
  Update("ns/web", {"10.96.0.1:80"}, {});
  Wait(400);
  const TcpBook::Round first = book_.Take(now_);
  EXPECT_TRUE(first.IsStale(Flow("10.96.0.1:80", "10.0.0.1:80")));
  EXPECT_FALSE(first.IsStale(Flow("10.96.0.1:80", "10.0.0.2:80")));
  Wait(600);
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.2:80"));
}

TEST_F(TcpBookTest, OtherServicesWithTheSameEndpointAreNotAffected) {
  Update("ns/a", {"10.96.0.1:80"}, {"10.0.0.1:80"});
  Update("ns/b", {"10.96.0.2:80"}, {"10.0.0.1:80"});
  Update("ns/a", {"10.96.0.1:80"}, {});
  Wait(1000);
  const TcpBook::Round round = book_.Take(now_);
  EXPECT_TRUE(round.IsStale(Flow("10.96.0.1:80", "10.0.0.1:80")));
  EXPECT_FALSE(round.IsStale(Flow("10.96.0.2:80", "10.0.0.1:80")));
}

// A connection belongs to the Service that used the address at the time. The book does not record
// that Service.
TEST_F(TcpBookTest, NothingIsStaleAfterAServiceOrItsAddressWasRemoved) {
  Update("ns/a", {"10.96.0.1:80", "192.0.2.1:80"}, {"10.0.0.1:80"});
  Update("ns/a", {"10.96.0.1:80", "192.0.2.1:80"}, {});
  Update("ns/a", {"10.96.0.1:80"}, {});
  Update("ns/b", {"10.96.0.2:80"}, {"10.0.0.1:80"});
  Update("ns/b", {"10.96.0.2:80"}, {});
  Update("ns/b", {}, {});
  Update("ns/c", {"10.96.0.2:80"}, {"10.0.0.2:80"});
  Wait(1000);
  const TcpBook::Round round = book_.Take(now_);
  EXPECT_TRUE(round.IsStale(Flow("10.96.0.1:80", "10.0.0.1:80")));
  EXPECT_FALSE(round.IsStale(Flow("192.0.2.1:80", "10.0.0.1:80")));
  EXPECT_FALSE(round.IsStale(Flow("10.96.0.2:80", "10.0.0.1:80")));
}

TEST_F(TcpBookTest, EndpointsThatNeverBelongedToTheServiceAreNotGone) {
  Update("ns/web", {"10.96.0.1:80"}, {});
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80"});
  Wait(5000);
  EXPECT_EQ(book_.due_at(), std::nullopt);
  EXPECT_FALSE(Stale("10.96.0.1:80", "10.0.0.9:80"));
}

TEST_F(TcpBookTest, BothFamilies) {
  Update("ns/web", {"10.96.0.1:80", "[fd00::1]:80"}, {"10.0.0.1:80", "[fd01::1]:80"});
  Update("ns/web", {"10.96.0.1:80", "[fd00::1]:80"}, {"10.0.0.1:80"});
  Wait(1000);
  const TcpBook::Round round = book_.Take(now_);
  EXPECT_FALSE(round.HasFamily(Family::kIpv4));
  EXPECT_TRUE(round.HasFamily(Family::kIpv6));
  EXPECT_TRUE(round.IsStale(Flow("[fd00::1]:80", "[fd01::1]:80")));
}

TEST_F(TcpBookTest, AFailedRoundIsRepeated) {
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80", "10.0.0.2:80"});
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.2:80"});
  Wait(1000);
  const TcpBook::Round failed = book_.Take(now_);
  Update("ns/web", {"10.96.0.1:80"}, {});
  book_.Return(failed);
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.1:80"));
  Wait(1000);
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.2:80"));
  EXPECT_EQ(book_.due_at(), std::nullopt);
}

// A new connection to an endpoint that returned during the round must not be deleted.
TEST_F(TcpBookTest, AConnectionIsNotStaleAnymoreWhenItsEndpointReturnsDuringTheRound) {
  const nft::Flow flow = Flow("10.96.0.1:80", "10.0.0.1:80");
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80"});
  Update("ns/web", {"10.96.0.1:80"}, {});
  Wait(1000);
  const TcpBook::Round round = book_.Take(now_);
  EXPECT_TRUE(book_.IsStillStale(round, flow));
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80"});
  EXPECT_FALSE(book_.IsStillStale(round, flow));
  Wait(10);
  Update("ns/web", {"10.96.0.1:80"}, {});
  EXPECT_FALSE(book_.IsStillStale(round, flow)) << "gone for less than a second";
  book_.Finish(round);
  Wait(1000);
  EXPECT_TRUE(Stale("10.96.0.1:80", "10.0.0.1:80"));
  EXPECT_FALSE(book_.IsStillStale(round, Flow("10.96.0.2:80", "10.0.0.1:80")));
}

TEST_F(TcpBookTest, AnEndpointThatFlapsLeavesNothingBehind) {
  for (int i = 0; i < 100; ++i) {
    Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80"});
    Wait(1);
    Update("ns/web", {"10.96.0.1:80"}, {});
  }
  Update("ns/web", {"10.96.0.1:80"}, {"10.0.0.1:80"});
  Wait(1000);
  EXPECT_EQ(book_.Take(now_).services(), 0u);
  EXPECT_EQ(book_.due_at(), std::nullopt);
}

}  // namespace
}  // namespace svcmap::proxy
