// Tests the decisions by destination (docs/specification.md, section 3.2): the descriptor kind of
// each address, and the endpoint set that the descriptor selects.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/proxy/desired_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::IsEmpty;

class PoliciesTest : public DesiredWorld {
 protected:
  // Returns the rows, followed by the endpoints of each group, for example "1 = 10.0.0.1 10.0.0.2".
  Lines RowsAndGroups() {
    Make();
    Lines lines = OwnLines();
    for (const PortRows& port : desired_.rows.ports) {
      for (const EndpointSet* set : {&port.cluster, &port.local}) {
        if (set->group == 0) continue;
        std::string line = std::to_string(set->group) + " =";
        for (const EndpointAddress& endpoint : set->slots) line += " " + endpoint.ip.ToString();
        lines.push_back(line);
      }
    }
    return lines;
  }
};

// In the expected rows, an IPv4 descriptor consists of kind * 64 + class, followed by the group.
TEST_F(PoliciesTest, S74ToS81AndS89EachAddressLeadsToItsSet) {
  const std::string internal = "service-ips 10.96.0.1 . tcp . 80 : ";
  const std::string external = "service-ips 198.51.100.1 . tcp . 80 : ";
  const std::string no_internal = "no-endpoint-services 10.96.0.1 . tcp . 80";
  const std::string no_external = "no-endpoint-services 198.51.100.1 . tcp . 80";
  const std::string node_port = "service-ips 192.0.2.7 . tcp . 30080 : ";
  const auto outside = [] { return Web().External("198.51.100.1"); };
  const struct {
    const char* name;
    AService service;
    ASlice slice;
    Lines rows;
  } cases[] = {
      {"S-74: ITP Cluster leads to the cluster set",
       Web(),
       WebSlice().Local("10.0.0.1").Ready("10.0.0.2"),
       {internal + "2.0.0.1", "1 = 10.0.0.1 10.0.0.2"}},
      {"S-75: ITP Local leads to the local set",
       Web().InternalLocal(),
       WebSlice().Local("10.0.0.1").Ready("10.0.0.2"),
       {internal + "1.0.0.1", "1 = 10.0.0.1"}},
      {"S-76: ITP Local without local endpoints is class 0: drop",
       Web().InternalLocal(),
       WebSlice().Ready("10.0.0.2"),
       {internal + "0.0.0.0"}},
      {"S-76: remote terminating ones are HAS, too",
       Web().InternalLocal(),
       WebSlice().Endpoint("10.0.0.2", kServingTerminating),
       {internal + "0.0.0.0"}},
      {"S-77: nobody anywhere is rejected", Web(), WebSlice(), {no_internal}},
      {"S-77: with ITP Local, too",
       Web().InternalLocal(),
       WebSlice().Endpoint("10.0.0.1", kDown, true),
       {no_internal}},
      {"S-78: ETP Cluster leads to the cluster set and masquerades",
       outside(),
       WebSlice().Local("10.0.0.1").Ready("10.0.0.2"),
       {internal + "2.0.0.1", external + "66.0.0.1", "1 = 10.0.0.1 10.0.0.2"}},
      {"S-79: ETP Local leads to both sets",
       outside().ExternalLocal(),
       WebSlice().Local("10.0.0.1").Ready("10.0.0.2"),
       {internal + "2.0.0.1", external + "130.0.0.1", "local-sets 130.0.0.1 : 129.0.0.2",
        "1 = 10.0.0.1 10.0.0.2", "2 = 10.0.0.1"}},
      {"S-79: local terminating ones beside remote ready ones (S-43)",
       outside().ExternalLocal(),
       WebSlice().Endpoint("10.0.0.1", kServingTerminating, true).Ready("10.0.0.2"),
       {internal + "1.0.0.1", external + "129.0.0.1", "local-sets 129.0.0.1 : 129.0.0.2",
        "1 = 10.0.0.2", "2 = 10.0.0.1"}},
      {"S-80: ETP Local without local endpoints has no local set",
       outside().ExternalLocal(),
       WebSlice().Ready("10.0.0.2"),
       {internal + "1.0.0.1", external + "129.0.0.1", "1 = 10.0.0.2"}},
      {"without local endpoints, external addresses are routed, but nodePorts are not",
       outside().NodePort(30080).ExternalLocal().RouteWithoutLocal(),
       WebSlice().Ready("10.0.0.2"),
       {internal + "1.0.0.1", node_port + "129.0.0.1", "1 = 10.0.0.2"}},
      {"without endpoints, external addresses are routed",
       outside().ExternalLocal().RouteWithoutLocal(),
       WebSlice(),
       {no_internal}},
      {"with local endpoints, they are programmed",
       outside().ExternalLocal().RouteWithoutLocal(),
       WebSlice().Local("10.0.0.1"),
       {internal + "1.0.0.1", external + "129.0.0.1", "local-sets 129.0.0.1 : 129.0.0.2",
        "1 = 10.0.0.1", "2 = 10.0.0.1"}},
      {"S-81: nobody anywhere is rejected",
       outside().ExternalLocal(),
       WebSlice(),
       {no_internal, no_external}},
      {"S-89: ITP says nothing about external destinations",
       outside().InternalLocal(),
       WebSlice().Ready("10.0.0.2"),
       {internal + "0.0.0.0", external + "65.0.0.1", "1 = 10.0.0.2"}},
      {"S-89: each destination has its own policy's set",
       outside().InternalLocal(),
       WebSlice().Local("10.0.0.1").Ready("10.0.0.2"),
       {internal + "1.0.0.2", external + "66.0.0.1", "1 = 10.0.0.1 10.0.0.2", "2 = 10.0.0.1"}},
      {"S-89: both policies Local share the local set",
       outside().InternalLocal().ExternalLocal(),
       WebSlice().Local("10.0.0.1").Ready("10.0.0.2"),
       {internal + "1.0.0.2", external + "130.0.0.1", "local-sets 130.0.0.1 : 129.0.0.2",
        "1 = 10.0.0.1 10.0.0.2", "2 = 10.0.0.1"}},
      {"S-9: ETP Local says nothing where nobody comes from outside",
       Web().ExternalLocal(),
       WebSlice().Local("10.0.0.1").Ready("10.0.0.2"),
       {internal + "2.0.0.1", "1 = 10.0.0.1 10.0.0.2"}},
  };
  for (const auto& c : cases) {
    store_ = Store();
    before_ = {};
    numbers_ = Numbers();
    Apply({c.service, c.slice});
    EXPECT_EQ(RowsAndGroups(), c.rows) << c.name;
    EXPECT_THAT(Findings(), IsEmpty()) << c.name;
  }
}

}  // namespace
}  // namespace svcmap::proxy
