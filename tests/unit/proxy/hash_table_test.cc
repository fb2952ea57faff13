#include "proxy/desired/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include <xxhash.h>

#include "proxy/ruleset/descriptor.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using Addresses = std::vector<EndpointAddress>;

Addresses Endpoints(size_t count) {
  Addresses endpoints;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t bytes[] = {10, 244, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)};
    endpoints.push_back({*IpAddress::FromBytes(bytes), 8080});
  }
  return endpoints;
}

std::map<EndpointAddress, size_t> Count(const Addresses& table) {
  std::map<EndpointAddress, size_t> count;
  for (const EndpointAddress& endpoint : table) ++count[endpoint];
  return count;
}

// Share of the slots that change if one endpoint leaves, in addition to the slots of this endpoint.
double MovedBeyond(size_t endpoints, uint32_t slots, size_t leaving) {
  const Addresses all = Endpoints(endpoints);
  Addresses left = all;
  left.erase(left.begin() + static_cast<ptrdiff_t>(leaving));
  const Addresses before = MakeHashTable(all, {}, slots), after = MakeHashTable(left, {}, slots);
  size_t moved = 0;
  for (uint32_t i = 0; i < slots; ++i) {
    moved += before[i] != after[i] && before[i] != all[leaving] ? 1 : 0;
  }
  return static_cast<double>(moved) / slots;
}

TEST(HashTableTest, EverySlotHasAnEndpointAndTheSharesAreEven) {
  for (const uint32_t slots : kHashTableSizes) {
    for (const size_t endpoints : {size_t{1}, size_t{2}, size_t{10}, size_t{25}, size_t{250}}) {
      const auto count = Count(MakeHashTable(Endpoints(endpoints), {}, slots));
      ASSERT_EQ(count.size(), endpoints);
      for (const auto& [endpoint, own] : count) {
        EXPECT_GE(own, slots / endpoints);
        EXPECT_LE(own, slots / endpoints + 1);
      }
    }
  }
}

// Nodes with different versions of svcmap must have equal tables. If this test fails, the tables of
// this version differ from the tables of all earlier versions.
TEST(HashTableTest, TheTableIsTheSameInAllVersions) {
  std::string text;
  for (const EndpointAddress& endpoint :
       MakeHashTable(Endpoints(10), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 251)) {
    text += endpoint.ip.ToString() + " ";
  }
  EXPECT_EQ(XXH3_64bits(text.data(), text.size()), 8697164027273136246u) << text;
}

// Ports of a Service with different target ports select the same endpoint for a client.
TEST(HashTableTest, TheTargetPortDoesNotChangeTheOrder) {
  Addresses other_port = Endpoints(10);
  for (EndpointAddress& endpoint : other_port) endpoint.port = 8081;
  const Addresses table = MakeHashTable(Endpoints(10), {}, 251);
  const Addresses other_table = MakeHashTable(other_port, {}, 251);
  for (size_t slot = 0; slot < table.size(); ++slot) {
    EXPECT_EQ(table[slot].ip, other_table[slot].ip) << slot;
  }
}

TEST(HashTableTest, WeightsAreShares) {
  const Addresses endpoints = Endpoints(3);
  const auto count = Count(MakeHashTable(endpoints, {1, 3, 6}, 1021));
  EXPECT_NEAR(count.at(endpoints[0]), 102.1, 2);
  EXPECT_NEAR(count.at(endpoints[1]), 306.3, 2);
  EXPECT_NEAR(count.at(endpoints[2]), 612.6, 2);
}

TEST(HashTableTest, FewClientsMoveIfAnEndpointLeaves) {
  const struct {
    size_t endpoints;
    uint32_t slots;
    double limit;
  } cases[] = {
      {10, 251, 0.12}, {10, 1021, 0.06}, {10, 4093, 0.025}, {100, 1021, 0.10}, {100, 4093, 0.05}};
  for (const auto& c : cases) {
    double sum = 0, worst = 0;
    for (size_t leaving = 0; leaving < 10; ++leaving) {
      const double moved = MovedBeyond(c.endpoints, c.slots, leaving);
      sum += moved;
      worst = std::max(worst, moved);
    }
    std::printf("%zu endpoints, %u slots: %.1f %% move beyond the necessary, worst %.1f %%\n",
                c.endpoints, c.slots, 100 * sum / 10.0, 100 * worst);
    EXPECT_LE(worst, c.limit) << c.endpoints << " " << c.slots;
  }
}

TEST(HashTableTest, TheSizeFollowsTheNumberOfEndpoints) {
  Service service;
  EXPECT_EQ(PickTableSize(service, 1), 251u);
  EXPECT_EQ(PickTableSize(service, 25), 251u);
  EXPECT_EQ(PickTableSize(service, 26), 1021u);
  EXPECT_EQ(PickTableSize(service, 1021), 1021u);
  EXPECT_EQ(PickTableSize(service, 1022), 4093u);
  service.pick_table_size = 4093;
  EXPECT_EQ(PickTableSize(service, 1), 4093u);
  service.pick_table_size = 251;
  EXPECT_EQ(PickTableSize(service, 251), 251u);
  EXPECT_EQ(PickTableSize(service, 252), 1021u);
}

// Consecutive client addresses must not have similar slots.
TEST(HashTableTest, ClientsAreSpreadEvenly) {
  const Addresses table = MakeHashTable(Endpoints(10), {}, 251);
  std::map<EndpointAddress, size_t> clients;
  for (unsigned i = 0; i < 65536; ++i) {
    const uint8_t bytes[] = {10, 1, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)};
    ++clients[table[SlotOfClient(*IpAddress::FromBytes(bytes), 251)]];
  }
  size_t most = 0;
  for (const auto& [endpoint, count] : clients) most = std::max(most, count);
  std::printf("65536 clients, 10 endpoints, 251 slots: load max/mean %.3f\n", most / 6553.6);
  EXPECT_LT(most / 6553.6, 1.1);
}

}  // namespace
}  // namespace svcmap::proxy
