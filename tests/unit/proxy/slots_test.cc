#include "proxy/desired/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "proxy/ruleset/descriptor.h"
#include "proxy/state/objects.h"
#include "tests/unit/proxy/objects.h"

namespace svcmap::proxy {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Addresses = std::vector<EndpointAddress>;

EndpointAddress Endpoint(uint8_t last) {
  const uint8_t bytes[] = {10, 0, 0, last};
  return {*IpAddress::FromBytes(bytes), 80};
}

// Returns one endpoint address for each letter.
Addresses Slots(const std::string& letters) {
  Addresses endpoints;
  for (const char letter : letters) endpoints.push_back(Endpoint(static_cast<uint8_t>(letter)));
  return endpoints;
}

std::string Letters(const Addresses& endpoints) {
  std::string letters;
  for (const EndpointAddress& e : endpoints) letters += static_cast<char>(e.ip.bytes()[3]);
  return letters;
}

TEST(SlotsTest, Assigned) {
  const struct {
    const char* name;
    const char *before, *wanted, *after;
  } cases[] = {
      {"first ones", "", "abc", "abc"},
      {"all gone", "abc", "", ""},
      {"nothing changed", "cab", "abc", "cab"},
      {"a newcomer goes to the end", "cab", "abcd", "cabd"},
      {"a newcomer takes the place of one that left", "cab", "bcd", "cdb"},
      {"the last one fills a hole", "abcd", "bcd", "dbc"},
      {"the last one leaves", "abcd", "abc", "abc"},
      {"the last ones leave with one before", "abcd", "b", "b"},
      {"all are replaced", "abc", "def", "def"},
      {"all are replaced by fewer", "abc", "d", "d"},
      {"all are replaced by more", "ab", "defg", "defg"},
      {"a newcomer and a hole", "abcd", "bx", "xb"},
      {"another port of the same address is another endpoint", "a", "a", "a"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Letters(AssignSlots(Slots(c.before), Slots(c.wanted))), c.after) << c.name;
  }
}

// Each removed endpoint, each added endpoint and each replacement changes one slot.
TEST(SlotsTest, NoMoreSlotsDifferThanEndpointsChanged) {
  std::mt19937 random(1);
  Addresses slots;
  for (int step = 0; step < 1000; ++step) {
    Addresses wanted;
    const unsigned keep = random() % 101, add = random() % 30;
    for (int i = 0; i < 200; ++i) {
      const EndpointAddress candidate = Endpoint(static_cast<uint8_t>(i));
      const bool held = std::find(slots.begin(), slots.end(), candidate) != slots.end();
      if (random() % 100 < (held ? keep : add)) wanted.push_back(candidate);
    }
    Addresses before = slots;
    slots = AssignSlots(before, wanted);

    Addresses sorted = slots;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, wanted) << "each once and without holes, step " << step;

    size_t changed_in_place = 0, kept = 0;
    for (size_t i = 0; i < std::min(before.size(), slots.size()); ++i) {
      changed_in_place += before[i] == slots[i] ? 0 : 1;
    }
    for (const EndpointAddress& e : before) {
      kept += std::binary_search(wanted.begin(), wanted.end(), e) ? 1 : 0;
    }
    ASSERT_LE(changed_in_place, before.size() - kept) << "step " << step;
    if (wanted.size() >= before.size()) {  // Remaining endpoints keep their slots.
      for (size_t i = 0; i < before.size(); ++i) {
        if (!std::binary_search(wanted.begin(), wanted.end(), before[i])) continue;
        ASSERT_EQ(slots[i], before[i]) << "step " << step;
      }
    }
  }
}

using WeightsOfSet = std::vector<uint16_t>;

size_t Total(const std::vector<uint32_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

// Returns the maximum difference between an endpoint's share of the slots and its share of the
// weights.
double LargestError(const WeightsOfSet& weights, const std::vector<uint32_t>& counts) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const auto slots = static_cast<double>(Total(counts));
  double largest = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    largest = std::max(largest, std::abs(counts[i] / slots - weights[i] / sum));
  }
  return largest;
}

EndpointAddress Nth(uint32_t i) {
  const uint8_t bytes[] = {10, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)};
  return {*IpAddress::FromBytes(bytes), 80};
}

std::vector<EndpointAddress> SlotsOf(const WeightsOfSet& weights) {
  std::vector<EndpointAddress> endpoints;
  for (uint32_t i = 0; i < weights.size(); ++i) endpoints.push_back(Nth(i));
  return Weighted(endpoints, weights);
}

size_t Rewritten(const std::vector<EndpointAddress>& before,
                 const std::vector<EndpointAddress>& after) {
  size_t rewritten = std::max(before.size(), after.size()) - std::min(before.size(), after.size());
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    rewritten += before[i] == after[i] ? 0 : 1;
  }
  return rewritten;
}

TEST(WeightSlotsTest, SmallRatiosAreExact) {
  EXPECT_THAT(SlotCounts({1, 3}), ElementsAre(1, 3));
  EXPECT_THAT(SlotCounts({100, 300}), ElementsAre(1, 3));
  EXPECT_THAT(SlotCounts({50, 100, 150}), ElementsAre(1, 2, 3));
  EXPECT_THAT(SlotCounts({255, 1}), ElementsAre(255, 1));
  EXPECT_THAT(SlotCounts({1000}), ElementsAre(1));
  EXPECT_THAT(SlotCounts(WeightsOfSet(1000, 7)), Each(1u));
  EXPECT_THAT(SlotCounts({}), ElementsAre());
}

TEST(WeightSlotsTest, LargerOnesAreDividedAmongBoundedlyManySlots) {
  EXPECT_THAT(SlotCounts({1000, 999}), ElementsAre(128, 128));
  EXPECT_THAT(SlotCounts({1000, 1}), ElementsAre(255, 1));
  // The exact numbers of slots would be 146.1, 73.1 and 36.8.
  EXPECT_THAT(SlotCounts({997, 499, 251}), ElementsAre(146, 73, 37));
}

TEST(WeightSlotsTest, SharesDifferByLessThanOne256thAndNoEndpointIsLeftOut) {
  std::mt19937 random(1);
  size_t most = 0;
  for (int round = 0; round < 300; ++round) {
    // Few or many endpoints, with similar or very different weights.
    const size_t size = 1 + random() % (round % 100 == 0 ? 32768 : 1u << (random() % 10));
    const unsigned large = random() % 101;  // Percentage of endpoints with a large weight.
    const uint32_t low = 1 + random() % 20, high = 1 + random() % kMaxWeight;
    WeightsOfSet weights(size);
    for (uint16_t& weight : weights) {
      weight = static_cast<uint16_t>(1 + random() % (random() % 100 < large ? high : low));
    }
    const std::vector<uint32_t> counts = SlotCounts(weights);
    ASSERT_EQ(counts.size(), size);
    ASSERT_THAT(counts, Each(::testing::Ge(1u))) << "round " << round;
    ASSERT_LE(Total(counts), kMaxEndpoints);
    ASSERT_LT(LargestError(weights, counts), 1.0 / 256) << "round " << round;
    if (size <= 64) most = std::max(most, Total(counts));
  }
  EXPECT_LE(most, 1024u) << "what random weights of small sets cost";
}

// Weights that are difficult to distribute: many endpoints with a share below one slot, and few
// endpoints with many slots.
TEST(WeightSlotsTest, FewLargeOnesAmongManySmallOnes) {
  for (const size_t small : {10, 60, 99, 300, 1000, 10000, 20000, 32000}) {
    for (const size_t large : {1, 2, 5, 20, 100, 700}) {
      WeightsOfSet weights(small, 1);
      for (size_t i = 0; i < large; ++i) weights.push_back(static_cast<uint16_t>(1000 - i % 2));
      const std::vector<uint32_t> counts = SlotCounts(weights);
      EXPECT_LT(LargestError(weights, counts), 1.0 / 256) << small << " and " << large;
      EXPECT_LE(Total(counts), kMaxEndpoints);
      EXPECT_LE(Total(counts), std::max<size_t>(8192, 16 * weights.size()))
          << small << " and " << large;
    }
  }
}

// If the number of slots equals the number of endpoints, every endpoint gets one slot.
TEST(WeightSlotsTest, TheLargestSetHasOneSlotEach) {
  WeightsOfSet weights(kMaxEndpoints, 1);
  weights[7] = kMaxWeight;
  EXPECT_THAT(SlotCounts(weights), Each(1u));
}

// A change of an endpoint's weight rewrites about as many slots as the endpoint gains or loses.
TEST(WeightSlotsTest, AChangeRewritesAboutTheSlotsOfItsEndpoint) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    WeightsOfSet weights(20 + random() % 80);
    for (uint16_t& weight : weights) weight = static_cast<uint16_t>(500 + random() % 500);
    const std::vector<EndpointAddress> before = SlotsOf(weights);
    if (round % 2 == 0) {
      weights.back() = static_cast<uint16_t>(500 + random() % 500);
    } else {
      weights.push_back(static_cast<uint16_t>(500 + random() % 500));
    }
    const std::vector<EndpointAddress> wanted = SlotsOf(weights);
    const std::vector<EndpointAddress> after = AssignSlots(before, wanted);
    std::vector<EndpointAddress> sorted = after;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, wanted) << "round " << round;
    ASSERT_LE(Rewritten(before, after), 24u) << "of " << after.size() << ", round " << round;
  }
}

Addresses EndpointAddresses(size_t count) {
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
  const Addresses all = EndpointAddresses(endpoints);
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
      const auto count = Count(MakeHashTable(EndpointAddresses(endpoints), {}, slots));
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
       MakeHashTable(EndpointAddresses(10), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 251)) {
    text += endpoint.ip.ToString() + " ";
  }
  EXPECT_EQ(XXH3_64bits(text.data(), text.size()), 8697164027273136246u) << text;
}

// Ports of a Service with different target ports select the same endpoint for a client.
TEST(HashTableTest, TheTargetPortDoesNotChangeTheOrder) {
  Addresses other_port = EndpointAddresses(10);
  for (EndpointAddress& endpoint : other_port) endpoint.port = 8081;
  const Addresses table = MakeHashTable(EndpointAddresses(10), {}, 251);
  const Addresses other_table = MakeHashTable(other_port, {}, 251);
  for (size_t slot = 0; slot < table.size(); ++slot) {
    EXPECT_EQ(table[slot].ip, other_table[slot].ip) << slot;
  }
}

TEST(HashTableTest, WeightsAreShares) {
  const Addresses endpoints = EndpointAddresses(3);
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
  const Addresses table = MakeHashTable(EndpointAddresses(10), {}, 251);
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
