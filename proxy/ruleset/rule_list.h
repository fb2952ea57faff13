// Collects the rules of a table.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "proxy/ruleset/service_rule.h"

namespace svcmap::proxy {

// Number of random picks in a size class. A pick misses if the random slot is empty. If all picks
// miss, the rules use slot 0, which always contains an endpoint. A pick misses with a probability
// below 0.33, and eleven picks in a row miss with a probability below 6e-6. With only eight picks
// and 44,103 endpoints, slot 0 would get seven times its share.
inline constexpr int kSizeClassPicks = 11;

class RuleList {
 public:
  explicit RuleList(Family family) : family_(family) {}
  ServiceRule In(std::string_view chain) const { return ServiceRule(family_, chain); }
  void Add(nft::RuleBuilder& builder) { rules_.push_back(builder.Build()); }
  // Adds the rule `times` times.
  void Add(nft::RuleBuilder& builder, int times) {
    rules_.insert(rules_.end(), static_cast<size_t>(times), builder.Build());
  }
  std::vector<nft::RuleSpec> Take() { return std::move(rules_); }

 private:
  Family family_;
  std::vector<nft::RuleSpec> rules_;
};

}  // namespace svcmap::proxy
