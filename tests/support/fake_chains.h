// Tracks the chains and rules of one FakeKernel table: existence, order, and jumps between chains.
// FakeChains does not simulate packet processing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nft/model/table.h"

namespace svcmap::nft {

class FakeChains {
 public:
  // Each method returns an errno, or 0 on success. Adds a chain, or keeps an existing chain.
  // Returns EOPNOTSUPP if the existing chain has a different hook.
  int Add(const ChainSpec& chain);
  int AddRule(const RuleSpec& rule);
  int DeleteRules(const std::string& chain);
  int Remove(const std::string& chain);      // Deletes the chain and its rules.
  int DeleteRule(const std::string& chain);  // Deletes the chain's first rule.

  // See TableContent::chains.
  std::map<std::string, uint64_t> Digests() const;
  // See TableContent::bases.
  std::map<std::string, BaseChain> Bases() const;

 private:
  struct Rule {
    uint64_t digest;
    std::vector<std::string> targets;  // Target chains of the rule's jumps and gotos.
  };
  struct Chain {
    uint64_t digest = 0;
    std::optional<BaseChain> base;
    std::vector<Rule> rules;
  };

  std::map<std::string, Chain> chains_;
};

}  // namespace svcmap::nft
