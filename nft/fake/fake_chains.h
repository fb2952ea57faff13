// Chains and rules of one table of FakeKernel: which there are, in which order, and what leads
// where. What rules do to packets it does not know.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nft/model/table.h"

namespace svcmap::nft {

class FakeChains {
 public:
  // Each returns an errno, 0 if it was done.
  int Add(
      const ChainSpec& chain);  // One that is there stays as it is; EOPNOTSUPP with another hook.
  int AddRule(const RuleSpec& rule);
  int DeleteRules(const std::string& chain);
  int Remove(const std::string& chain);      // With its rules.
  int DeleteRule(const std::string& chain);  // The first one.

  void DeleteAllRules();

  // As TableContent::chains.
  std::map<std::string, uint64_t> Digests() const;

 private:
  struct Rule {
    uint64_t digest;
    std::vector<std::string> targets;  // Chains that it jumps or goes to.
  };
  struct Chain {
    uint64_t digest = 0;
    std::vector<Rule> rules;
  };

  std::map<std::string, Chain> chains_;
};

}  // namespace svcmap::nft
