// Builds a rule both as kernel expressions and as text in nft syntax. Each method appends one
// clause. A method's comment shows the nft text of its clause. D stands for "ip daddr" or "ip6
// daddr". S stands for "ip saddr" or "ip6 saddr".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nft/model/table.h"
#include "nft/types/ip_address.h"

namespace svcmap::nft {

enum class KeyPart : uint8_t {
  kSource,
  kDestination,
  kOriginalDestination,  // `ct original D`: the destination before DNAT.
  kProtocol,
  kSourcePort,
  kDestinationPort,
  kDestinationPortBlock,  // `@th,16,8`: the high byte of the destination port.
};
using Key = std::vector<KeyPart>;

// Index and name of a named set in the rule's table.
struct NamedSet {
  uint32_t index;
  std::string_view name;
};

// Offsets and sizes of the address fields in the network header, in bytes.
struct HeaderLayout {
  uint32_t source;
  uint32_t destination;
  uint32_t address_size;
  const char* name;
};

constexpr HeaderLayout LayoutOf(Family family) {
  return family == Family::kIpv4 ? HeaderLayout{12, 16, 4, "ip"} : HeaderLayout{8, 24, 16, "ip6"};
}

class RuleBuilder {
 public:
  RuleBuilder(Family family, std::string_view chain);

  RuleBuilder& DestinationIn(const IpPrefix& prefix);                         // `D PREFIX`
  RuleBuilder& DestinationNotIn(const IpPrefix& prefix);                      // `D != PREFIX`
  RuleBuilder& SourceNotIn(const IpPrefix& prefix);                           // `S != PREFIX`
  RuleBuilder& DestinationIs(const IpAddress& mask, const IpAddress& value);  // `D & MASK == VALUE`
  RuleBuilder& SourceIsLocal();          // `fib saddr type local`
  RuleBuilder& DestinationIsNotLocal();  // `fib daddr type != local`
  RuleBuilder& EchoRequest();            // `icmp type echo-request` or `icmpv6 type echo-request`
  RuleBuilder& InputIs(std::string_view pattern);  // `iifname "cni0"` or `iifname "veth*"`
  // `iifname != "cni0"`. InputIsNot also matches packets without an input interface.
  RuleBuilder& InputIsNot(std::string_view pattern);
  RuleBuilder& ConntrackNew();      // `ct state new`
  RuleBuilder& ConntrackInvalid();  // `ct state invalid`
  RuleBuilder& ConntrackDnat();     // `ct status dnat`
  RuleBuilder& ConntrackNotDnat();  // `ct status ! dnat`
  // `ct status ! confirmed`: the first packet of a connection, on its way through the node.
  RuleBuilder& ConntrackNotConfirmed();
  RuleBuilder& MarkHas(uint32_t bits);  // `meta mark & BITS != 0`
  // `tcp flags ! syn,rst`: TCP segments that neither start nor reset a connection.
  RuleBuilder& TcpWithoutSynOrRst();
  // `tcp flags syn / syn,ack`: the first segment of a TCP connection.
  RuleBuilder& TcpSynWithoutAck();
  RuleBuilder& In(const Key& key, NamedSet set);     // `KEY @set`
  RuleBuilder& NotIn(const Key& key, NamedSet set);  // `KEY != @set`

  // `D set KEY map @map`. If the map does not contain the key, the packet is not modified and
  // evaluation continues with the next rule.
  RuleBuilder& RewriteDestination(const Key& key, NamedSet map);

  // `D set ct original D`, where D is `ip daddr` or `ip6 daddr`.
  RuleBuilder& RestoreDestination();

  // `update @set { KEY timeout N counter }`. The clause does not modify the packet.
  RuleBuilder& Count(const Key& key, NamedSet set, uint32_t seconds);

  RuleBuilder& MarkOr(uint32_t bits);   // `meta mark set meta mark | BITS`
  RuleBuilder& MarkXor(uint32_t bits);  // `meta mark set meta mark ^ BITS`

  // `@nh,OFFSET,8 vmap { BYTE : goto CHAIN, ... }`, where OFFSET selects one byte of the
  // destination address.
  RuleBuilder& GotoByDestinationByte(uint32_t byte,
                                     const std::vector<std::pair<uint8_t, std::string>>& chains);

  // `dnat to KEY map @map`, without a port. nft lists this clause without the family.
  RuleBuilder& DnatTo(const Key& key, NamedSet map);
  // `limit rate over N/second burst N packets`
  RuleBuilder& RateAbovePerSecond(uint32_t packets);

  RuleBuilder& Jump(std::string_view chain);
  RuleBuilder& Goto(std::string_view chain);
  RuleBuilder& Return();
  RuleBuilder& Drop();
  RuleBuilder& RejectPortUnreachable();  // `reject`
  // `reject with tcp reset`. A clause before it must match TCP.
  RuleBuilder& RejectWithTcpReset();
  RuleBuilder& MasqueradeFullyRandom();  // `masquerade fully-random`

  RuleSpec Build() { return std::move(rule_); }

 protected:
  Family family() const { return family_; }
  HeaderLayout layout() const { return LayoutOf(family_); }
  void Add(Expr expr) { rule_.exprs.push_back(std::move(expr)); }
  RuleBuilder& Text(std::string_view clause);
  // Loads the parts of a concatenated key into consecutive registers, beginning with `reg`. Returns
  // the register after the key.
  uint32_t LoadKey(const Key& key, uint32_t reg = 0);
  std::string KeyText(const Key& key) const;
  // `meta l4proto { tcp, udp, sctp }`
  void MatchTransport();
  // `dnat to KEY map @map` for a map without ports. The first `key_words` registers contain the
  // key, whose nft text is `key`.
  RuleBuilder& DnatToAddress(const std::string& key, uint32_t key_words, NamedSet map);
  // Returns the nft text of bytes in the network header: "@nh,136,24".
  static std::string RawPayload(uint32_t byte_offset, uint32_t byte_size);
  static std::string DurationText(uint32_t seconds);  // In nft syntax, such as "1h30m".

 private:
  void LookUp(AnonymousSet set, Lookup::Into into);
  void CompareStatus(uint32_t bit, bool equal_to_0);
  void MatchTcpFlags(uint8_t mask, uint8_t value);
  void MatchState(uint32_t state);
  void MatchInput(std::string_view pattern, bool equal);
  void LoadMaskedDestination(const IpAddress& mask);
  void MatchPrefix(std::string_view field, uint32_t offset, bool equal, const IpPrefix& prefix);
  void AddVerdict(Verdict::Kind kind, std::string_view word, std::string_view chain);

  Family family_;
  bool tcp_ = false;  // True if a clause matches TCP. nft then prints `tcp dport`.
  RuleSpec rule_;
};

}  // namespace svcmap::nft
