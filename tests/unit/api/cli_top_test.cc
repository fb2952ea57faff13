// Tests of the connection rates of `svcmapctl top`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/cli/service_rates.h"
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
  EXPECT_THAT(RatesText(rates, 0, 0), HasSubstr("       0.0            1  b\n"));
  EXPECT_THAT(RatesText(rates, 0, 0), HasSubstr(std::string(100, 'w')));
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

}  // namespace
}  // namespace svcmap::api
