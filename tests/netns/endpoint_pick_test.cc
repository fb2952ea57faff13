// Tests of ServiceSpec.endpoint_pick: a hash selects the endpoint of a new connection.
#include <set>

#include "proxy/desired/slots.h"
#include "tests/netns/service_world.h"

namespace svcmap::testing {
namespace {

constexpr int kPickClients = 40;
constexpr int kPickConnections = 20;
constexpr uint16_t kFirstPort = 20000;

class EndpointPickTest : public ServiceFlowTest {
 protected:
  using Hosts = std::vector<const Host*>;

  // Endpoints by client. Each client opens one connection.
  std::vector<std::string> Place() {
    std::vector<std::string> placement;
    Request request = To(kWeb);
    for (int i = 0; i < kPickClients; ++i) {
      request.source = ClientAddress(i).in(v6());
      const Answer answer = Ask(client(), request);
      EXPECT_EQ(answer.outcome, Outcome::kAnswered) << "client " << i << ": " << answer.ToString();
      placement.push_back(answer.server);
    }
    return placement;
  }

  // Returns the endpoints that the hash function and the table predict.
  std::vector<std::string> Predict(const Hosts& hosts, uint32_t slots) const {
    std::map<proxy::EndpointAddress, std::string> names;
    for (const Host* host : hosts) {
      names[{*IpAddress::Parse(host->address(v6())), kPodPort}] = host->name();
    }
    std::vector<proxy::EndpointAddress> endpoints;
    for (const auto& [endpoint, name] : names) endpoints.push_back(endpoint);
    const std::vector<proxy::EndpointAddress> table = proxy::MakeHashTable(endpoints, {}, slots);
    std::vector<std::string> placement;
    for (int i = 0; i < kPickClients; ++i) {
      const IpAddress source = *IpAddress::Parse(ClientAddress(i).in(v6()));
      placement.push_back(names.at(table[proxy::SlotOfClient(source, slots)]));
    }
    return placement;
  }

  Hosts All() { return {&pod_a(), &pod_b(), &remote_pod()}; }
};
INSTANTIATE_FLOWS(EndpointPickTest);

TEST_P(EndpointPickTest, AClientUsesThePredictedEndpoint) {
  for (const uint32_t slots : proxy::kHashTableSizes) {
    ASSERT_OK(agent().Apply(
        Objects{Web("shop/web", kWeb).EndpointPick("ClientIP", static_cast<int>(slots))} +
        WebSlices("shop/web", All())));
    EXPECT_EQ(Place(), Predict(All(), slots)) << slots;
  }
}

TEST_P(EndpointPickTest, EqualPortsPickTheSameEndpointAndOtherPortsOtherEndpoints) {
  ASSERT_OK(agent().Apply(Objects{Web("shop/web", kWeb).EndpointPick("ClientIPAndPort")} +
                          WebSlices("shop/web", All())));
  std::map<uint16_t, std::string> servers;
  std::set<std::string> used;
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK(FlushConntrack(node().netns()));
    for (uint16_t i = 0; i < kPickConnections; ++i) {
      Request request = To(kWeb);
      request.source_port = static_cast<uint16_t>(kFirstPort + i);
      const Answer answer = Ask(client(), request);
      ASSERT_EQ(answer.outcome, Outcome::kAnswered) << answer.ToString();
      used.insert(answer.server);
      const auto [known, added] = servers.emplace(request.source_port, answer.server);
      EXPECT_EQ(known->second, answer.server) << request.source_port;
    }
  }
  EXPECT_EQ(used.size(), 3u);
}

}  // namespace
}  // namespace svcmap::testing
