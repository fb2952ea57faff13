// Builds the rules that read descriptors (descriptor.h): the clauses that pick an endpoint of a
// group, and the clauses of session affinity. Each method appends one clause, whose nft text is in
// the comment, as in nft::RuleBuilder.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "nft/expr/rule_builder.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy {

class ServiceRule : public nft::RuleBuilder {
 public:
  using RuleBuilder::RuleBuilder;

  // `meta l4proto { tcp, udp, sctp } dnat to GROUP . numgen random mod N map @map`, where GROUP is
  // the last 3 (IPv4) or 4 (IPv6) bytes of the destination address. nft accepts a port from a map
  // only if the same rule matches the transport protocol first. For a map of port ranges, which
  // contains no ports, the clause has no `meta l4proto`, and packets keep their destination port.
  RuleBuilder& DnatToRandomSlot(uint32_t modulus, SetIndex map);
  // Like DnatToRandomSlot, but with `jhash KEY mod N seed SEED` instead of the random number.
  RuleBuilder& DnatToHashedSlot(const nft::Key& hashed, uint32_t modulus, SetIndex map);

  // Session affinity. In the clauses below, CHOICE identifies the selected endpoint. In IPv4,
  // CHOICE is the complete destination address. In IPv6, CHOICE is the first 8 bytes of the
  // destination address, because Linux 7.2 does not execute rules that write other parts of an IPv6
  // address. In IPv6, the last four bytes of CHOICE are the complement of the first four bytes, so
  // that checksums do not change. PORT is the first two bytes of CHOICE and identifies the Service
  // port. CLIENT is the source address. In IPv6, CLIENT omits the first four bytes, because nft
  // 1.0.6 cannot load affinity maps with longer keys.

  // `CHOICE set GROUP . numgen random mod N map @affinity-slots`, where GROUP is the last 2 bytes
  // of the destination address.
  RuleBuilder& ChooseRandomSlot(uint32_t modulus);
  // Matches if an endpoint is selected: `D != 192.0.0.0/2` or `D != c000::/2`.
  RuleBuilder& IsChosen();
  // `update @affinity { CLIENT . PORT timeout N : CHOICE }`
  RuleBuilder& Remember(uint32_t seconds);
  RuleBuilder& Recall();  // `CHOICE set CLIENT . PORT map @affinity`
  RuleBuilder& Forget();  // `delete @affinity { CLIENT . PORT : CHOICE }`
  // `meta l4proto { tcp, udp, sctp } dnat to CHOICE map @map`. In IPv6, the lookup key is the first
  // four bytes of CHOICE. For a map of port ranges, the clause has no `meta l4proto`.
  RuleBuilder& DnatToChoice(SetIndex map);

 private:
  std::string LoadGroup(uint32_t group_size);
  nft::LoadedKey LoadRandomSlot(uint32_t group_size, uint32_t modulus);
  nft::LoadedKey LoadClientAndPort();
  RuleBuilder& DnatFrom(const nft::LoadedKey& key, SetIndex map);
  void LoadChoice(uint32_t reg);
  RuleBuilder& WriteChoice(const nft::LoadedKey& key, SetIndex map);
  std::string ChoiceText() const;
};

// Number of random picks in a size class. A pick misses if the random slot is empty. If all picks
// miss, the rules use slot 0, which always contains an endpoint (docs/decisions/0001). With only
// eight picks and 44,103 endpoints, slot 0 would get seven times its share.
inline constexpr int kSizeClassPicks = 11;

// Collects the rules of a table.
class RuleList {
 public:
  explicit RuleList(Family family) : family_(family) {}
  // Appends a rule of the chain. The reference stays valid.
  ServiceRule& In(std::string_view chain) { return rules_.emplace_back(family_, chain); }
  // Copies the last rule, so that it is in the list `times` times.
  void RepeatLast(int times) {
    for (int i = 1; i < times; ++i) rules_.push_back(rules_.back());
  }
  std::vector<nft::RuleSpec> Take() {
    std::vector<nft::RuleSpec> specs;
    for (ServiceRule& rule : rules_) specs.push_back(rule.Build());
    return specs;
  }

 private:
  Family family_;
  std::deque<ServiceRule> rules_;  // Does not move its elements.
};

}  // namespace svcmap::proxy
