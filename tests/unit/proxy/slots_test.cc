#include "proxy/desired/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace svcmap::proxy {
namespace {

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

}  // namespace
}  // namespace svcmap::proxy
