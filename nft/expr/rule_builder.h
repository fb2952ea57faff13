// Writes a rule twice at once: as expressions for the kernel and as the nft line a person would
// type. Each method appends one clause and says the text it stands for; D is "ip daddr" or "ip6
// daddr".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nft/model/table.h"
#include "nft/types/ip_address.h"

namespace svcmap::nft {

enum class KeyPart : uint8_t { kSource, kDestination, kProtocol, kDestinationPort };
using Key = std::vector<KeyPart>;

// A set of the table that the rule is for: its position and name.
struct NamedSet {
  uint32_t index;
  std::string_view name;
};

class RuleBuilder {
 public:
  RuleBuilder(Family family, std::string_view chain);

  RuleBuilder& SourceNotIn(const IpPrefix& prefix);    // S != PREFIX
  RuleBuilder& DestinationIn(const IpPrefix& prefix);  // D PREFIX
  RuleBuilder& ConntrackNew();                         // ct state new
  RuleBuilder& ConntrackDnat();                        // ct status dnat
  RuleBuilder& MarkHas(uint32_t bits);                 // meta mark & BITS != 0
  RuleBuilder& In(const Key& key, NamedSet set);       // KEY @set

  // D set KEY map @map. On a miss the packet stays as it is and the rule ends.
  RuleBuilder& RewriteDestination(const Key& key, NamedSet map);

  RuleBuilder& MarkOr(uint32_t bits);   // meta mark set meta mark | BITS
  RuleBuilder& MarkXor(uint32_t bits);  // meta mark set meta mark ^ BITS

  // @nh,OFFSET,8 vmap { BYTE : goto CHAIN, ... } on the first byte of the destination address.
  RuleBuilder& GotoByFirstDestinationByte(
      const std::vector<std::pair<uint8_t, std::string>>& chains);

  // meta l4proto { tcp, udp, sctp } dnat to GROUP . numgen random mod N map @map, where GROUP is
  // the last 3 (IPv4) or 4 (IPv6) bytes of the destination address. nft accepts a port from a map
  // only behind a transport match in the same rule.
  RuleBuilder& DnatToRandomSlot(uint32_t modulus, NamedSet map);

  RuleBuilder& Jump(std::string_view chain);
  RuleBuilder& Goto(std::string_view chain);
  RuleBuilder& Drop();
  RuleBuilder& RejectPortUnreachable();  // reject
  RuleBuilder& MasqueradeFullyRandom();  // masquerade fully-random

  RuleSpec Build() { return std::move(rule_); }

 private:
  // Loads the parts of a concatenation one behind another into registers; returns the words used.
  uint32_t LoadKey(const Key& key);
  std::string KeyText(const Key& key) const;
  void MatchPrefix(std::string_view field, uint32_t offset, bool equal, const IpPrefix& prefix);
  void AddVerdict(Verdict::Kind kind, std::string_view word, std::string_view chain);
  RuleBuilder& Text(std::string_view clause);
  void Add(Expr expr) { rule_.exprs.push_back(std::move(expr)); }

  Family family_;
  RuleSpec rule_;
};

}  // namespace svcmap::nft
