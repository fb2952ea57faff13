// Computes the desired state of the Services in a store. Each computation uses the previous desired
// state as its starting point.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proxy/desired/service.h"
#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy::test {

// Formats numbers as lines such as "group 7 of IPv4", "sticky group 1 of IPv4", "sticky port 1 of
// IPv4".
inline Lines Texts(const std::vector<Number>& numbers) {
  Lines lines;
  for (const Number& number : numbers) {
    constexpr const char* kNames[] = {"group ", "sticky group ", "sticky port "};
    lines.push_back(kNames[Index(number.pool)] + std::to_string(number.value) + " of " +
                    std::string(FamilyName(number.family)));
  }
  return lines;
}

class DesiredWorld : public ::testing::Test {
 protected:
  void Apply(const std::vector<Change>& changes) {
    for (const Change& change : changes) store_.Apply(change, 1);
  }
  // Computes the desired state of a Service, and releases numbers that are no longer used.
  const DesiredService& Make(const std::string& key = "shop/web") {
    DesiredContext context{store_.claims(), node_, numbers_, timers_, timer_uses_};
    desired_ = MakeDesiredService(store_.Find(key), context, &before_);
    numbers_.Release(desired_.old_numbers);
    before_ = desired_.rows;
    return desired_;
  }
  const DesiredService& MakeAfter(const std::vector<Change>& changes) {
    Apply(changes);
    return Make();
  }
  // Returns the rows of all sets whose names start with `sets`, without comments.
  Lines OwnLines(const std::string& sets = "") const {
    Lines lines;
    for (std::string line : Texts(OwnRows("shop/web", desired_.rows))) {
      if (line.rfind(sets, 0) == 0) lines.push_back(line.substr(0, line.find(" \"")));
    }
    return lines;
  }
  Lines Findings() const {
    Lines lines;
    for (const Finding& finding : desired_.findings) lines.push_back(finding.ToString());
    return lines;
  }

  Store store_;
  NodeFacts node_{.place = {"n1", "za"},
                  .node_port_addresses = Ips({"192.0.2.7", "2001:db8::7"}),
                  .own_ip = {Ip("192.0.2.7"), Ip("2001:db8::7")}};
  Numbers numbers_;
  AffinityTimers timers_;
  TimerUses timer_uses_ = {};
  ServiceRows before_;
  DesiredService desired_;
};

}  // namespace svcmap::proxy::test
