#include "tests/support/fake_chains.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <variant>

namespace svcmap::nft {
namespace {

uint64_t Digest(const std::string& text, uint64_t seed = 0) {
  return std::hash<std::string>()(text + std::to_string(seed));
}

std::vector<std::string> TargetsOf(const RuleSpec& rule) {
  std::vector<std::string> targets;
  for (const Expr& expr : rule.exprs) {
    const auto* verdict = std::get_if<Verdict>(&expr);
    if (verdict != nullptr && !verdict->chain.empty()) targets.push_back(verdict->chain);
  }
  for (const AnonymousSet& set : rule.sets) {
    for (const AnonymousSet::Entry& entry : set.entries) {
      if (!entry.goto_chain.empty()) targets.push_back(entry.goto_chain);
    }
  }
  return targets;
}

}  // namespace

int FakeChains::Add(const ChainSpec& chain) {
  uint64_t digest = 0;
  if (chain.base) {
    digest = Digest(chain.base->type + " " + chain.base->hook + " " +
                    std::to_string(chain.base->priority));
  }
  const auto [position, added] = chains_.try_emplace(chain.name, Chain{digest, chain.base, {}});
  return added || position->second.digest == digest ? 0 : EOPNOTSUPP;
}

int FakeChains::AddRule(const RuleSpec& rule) {
  const auto chain = chains_.find(rule.chain);
  if (chain == chains_.end()) return ENOENT;
  std::vector<std::string> targets = TargetsOf(rule);
  for (const std::string& target : targets) {
    if (!chains_.contains(target)) return ENOENT;
  }
  chain->second.rules.push_back({Digest(rule.text), std::move(targets)});
  return 0;
}

int FakeChains::DeleteRules(const std::string& chain) {
  const auto found = chains_.find(chain);
  if (found == chains_.end()) return ENOENT;
  found->second.rules.clear();
  return 0;
}

int FakeChains::DeleteRule(const std::string& chain) {
  const auto found = chains_.find(chain);
  if (found == chains_.end() || found->second.rules.empty()) return ENOENT;
  found->second.rules.erase(found->second.rules.begin());
  return 0;
}

int FakeChains::Remove(const std::string& chain) {
  if (!chains_.contains(chain)) return ENOENT;
  for (const auto& [name, other] : chains_) {
    if (name == chain) continue;
    for (const Rule& rule : other.rules) {
      if (std::find(rule.targets.begin(), rule.targets.end(), chain) != rule.targets.end()) {
        return EBUSY;
      }
    }
  }
  chains_.erase(chain);
  return 0;
}

std::map<std::string, BaseChain> FakeChains::Bases() const {
  std::map<std::string, BaseChain> bases;
  for (const auto& [name, chain] : chains_) {
    if (chain.base) bases[name] = *chain.base;
  }
  return bases;
}

std::map<std::string, uint64_t> FakeChains::Digests() const {
  std::map<std::string, uint64_t> digests;
  for (const auto& [name, chain] : chains_) {
    uint64_t digest = chain.digest;
    for (const Rule& rule : chain.rules) digest = Digest(std::to_string(rule.digest), digest + 1);
    digests[name] = digest;
  }
  return digests;
}

}  // namespace svcmap::nft
