// Tests of `svcmapctl top`, and of the HTTP client with which it reads metrics.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/cli/http_get.h"
#include "api/cli/rates.h"
#include "nft/base/unique_fd.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr char kPage[] = R"(# TYPE svcmap_service_connections_total counter
svcmap_service_connections_total{namespace="shop",name="web",port="80",protocol="TCP",destination="10.96.0.10:80"} 5
svcmap_service_connections_total{namespace="shop",name="web",port="80",protocol="TCP",destination="[fd00::10]:80"} 7
svcmap_service_connections_total{namespace="shop",name="web",port="53",protocol="UDP",destination="10.96.0.10:53"} 1e+06
svcmap_service_connections_total{namespace="a",name="b",port="1",protocol="TCP",destination="10.96.0.11:1"} 0
svcmap_repairs_total 9
)";

TEST(ServiceRatesTest, CountsAreSummedByGroup) {
  EXPECT_THAT(ReadConnectionCounts(kPage, RateGroup::kService),
              ElementsAre(Pair("a/b", 0), Pair("shop/web", 1000012)));
  EXPECT_THAT(ReadConnectionCounts(kPage, RateGroup::kPort),
              ElementsAre(Pair("a/b 1/TCP", 0), Pair("shop/web 53/UDP", 1000000),
                          Pair("shop/web 80/TCP", 12)));
  EXPECT_THAT(
      ReadConnectionCounts(kPage, RateGroup::kDestination),
      ElementsAre(Pair("a/b 1/TCP 10.96.0.11:1", 0), Pair("shop/web 53/UDP 10.96.0.10:53", 1000000),
                  Pair("shop/web 80/TCP 10.96.0.10:80", 5),
                  Pair("shop/web 80/TCP [fd00::10]:80", 7)));
  EXPECT_THAT(ReadConnectionCounts("", RateGroup::kService), IsEmpty());
  EXPECT_THAT(ReadConnectionCounts("up 1", RateGroup::kService), IsEmpty());
}

std::vector<std::string> Lines(RateOrder order) {
  // "reset" was reset, and "new" is new.
  const ConnectionCounts before = {{"a", 10}, {"b", 100}, {"gone", 5}, {"reset", 50}};
  const ConnectionCounts after = {{"a", 30}, {"b", 100}, {"new", 8}, {"reset", 6}};
  std::vector<std::string> lines;
  for (const ServiceRate& rate : RatesBetween(before, after, 2, order)) {
    lines.push_back(rate.name + " " + std::to_string(static_cast<int>(rate.per_second)) + " " +
                    std::to_string(rate.total));
  }
  return lines;
}

TEST(ServiceRatesTest, RatesAreSorted) {
  EXPECT_THAT(Lines(RateOrder::kRate), ElementsAre("a 10 30", "new 4 8", "reset 3 6", "b 0 100"));
  EXPECT_THAT(Lines(RateOrder::kTotal), ElementsAre("b 0 100", "a 10 30", "new 4 8", "reset 3 6"));
  EXPECT_THAT(Lines(RateOrder::kName), ElementsAre("a 10 30", "b 0 100", "new 4 8", "reset 3 6"));
}

TEST(ServiceRatesTest, TextFitsTheTerminal) {
  const std::vector<ServiceRate> rates = {{"shop/" + std::string(100, 'w'), 812.55, 1234567},
                                          {"b", 0, 1}};
  EXPECT_EQ(RatesText(rates, 1, 40),
            "    CONN/S        TOTAL  SERVICE\n"
            "     812.5      1234567  shop/wwwwwww...\n");
  EXPECT_EQ(RatesText({{"shop/" + std::string(100, 'w') + " 80/TCP 10.96.0.10:80", 1, 2}}, 1, 60),
            "    CONN/S        TOTAL  SERVICE\n"
            "       1.0            2  shop/wwwwww... 80/TCP 10.96.0.10:80\n");
  EXPECT_THAT(RatesText(rates, 0, 0), HasSubstr("       0.0            1  b\n"));
  EXPECT_THAT(RatesText(rates, 0, 0), HasSubstr(std::string(100, 'w')));
}

nft::FlowEnd End(const char* address, uint16_t port) { return {*IpAddress::Parse(address), port}; }

// A connection from port `client_port` to `destination` that `answers` answers.
TrackedEntry Entry(uint16_t client_port, uint32_t id, const nft::FlowEnd& destination,
                   const nft::FlowEnd& answers) {
  return {proxy::Protocol::kTcp, End("10.1.0.9", client_port), destination, answers, id};
}

class EndpointRatesTest : public ::testing::Test {
 protected:
  EndpointRatesTest() : rates_({{"shop/web", "clusterIP", service_.address, service_.port}}) {
    // The last endpoint has no addresses.
    const auto slice = FromText<v1::EndpointSlice>(R"(
      ports { port: 8080 protocol: "TCP" }
      endpoints { addresses: "10.1.0.5" } endpoints { addresses: "10.1.0.6" }
      endpoints { addresses: "10.1.0.7" conditions { ready: false } } endpoints {})");
    rates_.AddEndpoints(slice);
  }

  // Returns "ENDPOINT RATE TOTAL" for each endpoint.
  std::vector<std::string> Lines(RateOrder order = RateOrder::kName) const {
    std::vector<std::string> lines;
    for (const ServiceRate& rate : rates_.Rates(2, order)) {
      lines.push_back(absl::StrFormat("%s %.1f %d", rate.name, rate.per_second, rate.total));
    }
    return lines;
  }

  const nft::FlowEnd service_ = End("10.96.0.10", 80);
  const nft::FlowEnd a_ = End("10.1.0.5", 8080);
  const nft::FlowEnd b_ = End("10.1.0.6", 8080);
  EndpointRates rates_;
};

TEST_F(EndpointRatesTest, EntriesThatWereMissingBeforeAreNewConnections) {
  EXPECT_THAT(Lines(), ElementsAre("10.1.0.5:8080/TCP 0.0 0", "10.1.0.6:8080/TCP 0.0 0"));
  rates_.StartReading();
  rates_.Add(Entry(1000, 1, service_, a_));
  rates_.Add(Entry(1001, 2, service_, a_));
  rates_.StartReading();
  rates_.Add(Entry(1001, 2, service_, a_));
  rates_.Add(Entry(1001, 2, service_, a_));  // The kernel can list an entry twice.
  rates_.Add(Entry(1002, 3, service_, a_));
  rates_.Add(Entry(1003, 1, service_, a_));  // The id of a deleted entry.
  rates_.Add(Entry(1004, 4, service_, b_));
  EXPECT_THAT(Lines(), ElementsAre("10.1.0.5:8080/TCP 1.0 3", "10.1.0.6:8080/TCP 0.5 1"));
  EXPECT_THAT(Lines(RateOrder::kRate),
              ElementsAre("10.1.0.5:8080/TCP 1.0 3", "10.1.0.6:8080/TCP 0.5 1"));
  rates_.StartReading();
  rates_.Add(Entry(1004, 4, service_, b_));
  EXPECT_THAT(Lines(RateOrder::kTotal),
              ElementsAre("10.1.0.6:8080/TCP 0.0 1", "10.1.0.5:8080/TCP 0.0 0"));
}

TEST_F(EndpointRatesTest, OnlyTranslatedConnectionsToTheServiceCount) {
  rates_.StartReading();
  rates_.Add(Entry(1, 1, a_, a_));                                           // Direct connection.
  rates_.Add(Entry(2, 2, service_, service_));                               // Not translated.
  rates_.Add(Entry(3, 3, End("10.96.0.10", 81), a_));                        // Another port.
  rates_.Add(Entry(4, 4, End("10.96.0.11", 80), a_));                        // Another Service.
  rates_.Add({proxy::Protocol::kUdp, End("10.1.0.9", 5), service_, a_, 5});  // Another protocol.
  EXPECT_THAT(Lines(), ElementsAre("10.1.0.5:8080/TCP 0.0 0", "10.1.0.6:8080/TCP 0.0 0"));
  // An endpoint that is no longer ready can still have connections.
  rates_.Add(Entry(6, 6, service_, End("10.1.0.7", 8080)));
  EXPECT_THAT(Lines(), ElementsAre("10.1.0.5:8080/TCP 0.0 0", "10.1.0.6:8080/TCP 0.0 0",
                                   "10.1.0.7:8080/TCP 0.5 1"));
}

TEST(TopCommandTest, EndpointsNeedAServiceWithAddresses) {
  for (const char* name : {"shop/", "/web", "a/b/c", "/"}) {
    const CtlResult result = Ctl({"top", "--endpoints", name});
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.err, HasSubstr("must be NAMESPACE/NAME")) << name;
  }
  const CtlResult grouped = Ctl({"top", "--endpoints", "shop/web", "--by", "port"});
  EXPECT_EQ(grouped.code, 2);
  EXPECT_THAT(grouped.err, HasSubstr("--endpoints and --by cannot be used together"));
  const FakeAgent agent({});
  const CtlResult missing = Ctl(agent, {"top", "--endpoints", "shop/web"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err,
              HasSubstr("the agent has no service/shop/web, or the Service has no addresses"));
  ASSERT_EQ(agent.seen().list.size(), 1U);
  EXPECT_EQ(agent.seen().list[0].name(), "web");
  EXPECT_THAT(Ctl(agent, {"top", "--endpoints", "web"}).err, HasSubstr("no service/default/web"));
  EXPECT_EQ(Ctl({"top", "--endpoints", "shop/web", "--address", "unix:///no/agent"}).code, 3);
}

TEST(TopCommandTest, UnreachableMetricsAreAnError) {
  const CtlResult result = Ctl({"top", "--metrics-address", "127.0.0.1:1"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              HasSubstr("read http://127.0.0.1:1/metrics: connect: Connection refused"));
  EXPECT_EQ(Ctl({"top", "--sort", "size"}).code, 2);
  EXPECT_EQ(Ctl({"top", "--by", "pod"}).code, 2);
  EXPECT_EQ(Ctl({"top", "--interval", "0"}).code, 2);
}

// Tests of the HTTP client against a server on a loopback socket.

// Answers one request with `head`, and then `repeats` times with `chunk`, until the client closes
// the connection.
class OneAnswer {
 public:
  OneAnswer(std::string head, std::string chunk, int repeats)
      : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(at.sin_port));
    thread_ = std::thread([this, head = std::move(head), chunk = std::move(chunk), repeats] {
      const UniqueFd client(accept(listener_.get(), nullptr, nullptr));
      char request[4096];
      if (recv(client.get(), request, sizeof(request), 0) <= 0) return;
      bool connected = Send(client, head);
      for (int i = 0; connected && i < repeats; ++i) connected = Send(client, chunk);
    });
  }
  ~OneAnswer() { thread_.join(); }

  const std::string& address() const { return address_; }

 private:
  static bool Send(const UniqueFd& to, std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = send(to.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  UniqueFd listener_;
  std::string address_;
  std::thread thread_;
};

constexpr std::chrono::seconds kTimeout(60);

TEST(HttpGetTest, ReturnsTheBody) {
  const OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello", 1);
  ASSERT_OK_AND_ASSIGN(const std::string body, HttpGet(server.address(), "/metrics", kTimeout));
  EXPECT_EQ(body, "hello");
}

TEST(HttpGetTest, ARedirectIsNotFollowed) {
  const OneAnswer server(
      "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n"
      "Content-Length: 0\r\n\r\n",
      "", 0);
  const absl::StatusOr<std::string> body = HttpGet(server.address(), "/metrics", kTimeout);
  EXPECT_EQ(std::string(body.status().message()),
            absl::StrCat("read http://", server.address(), "/metrics: HTTP status 302"));
}

TEST(HttpGetTest, ABodyWithoutEndIsRejected) {
  const OneAnswer server("HTTP/1.1 200 OK\r\n\r\n", std::string(size_t{1} << 20, 'x'), 200);
  const absl::StatusOr<std::string> body = HttpGet(server.address(), "/metrics", kTimeout);
  EXPECT_EQ(body.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(body.status().message()),
            absl::StrCat("read http://", server.address(),
                         "/metrics: Too large: must have at most 128 MiB, and 1 MiB of headers"));
}

TEST(HttpGetTest, TrailersWithoutEndAreRejected) {
  const OneAnswer server("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                         absl::StrCat("X-Trailer: ", std::string(1000, 'x'), "\r\n"), 100000);
  const absl::StatusOr<std::string> body = HttpGet(server.address(), "/metrics", kTimeout);
  EXPECT_EQ(body.status().code(), absl::StatusCode::kResourceExhausted) << body.status();
}

}  // namespace
}  // namespace svcmap::api
