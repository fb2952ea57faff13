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

class RuleBuilder {
 public:
  RuleBuilder(Family family, std::string_view chain);

  RuleBuilder& DestinationIn(const IpPrefix& prefix);                         // `D PREFIX`
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

  // `meta l4proto { tcp, udp, sctp } dnat to GROUP . numgen random mod N map @map`, where GROUP is
  // the last 3 (IPv4) or 4 (IPv6) bytes of the destination address. nft accepts a port from a map
  // only if the same rule matches the transport protocol first.
  RuleBuilder& DnatToRandomSlot(uint32_t modulus, NamedSet map);

  // Like DnatToRandomSlot, but without `meta l4proto` and for a map without ports. Packets keep
  // their destination port.
  RuleBuilder& DnatAddressToRandomSlot(uint32_t modulus, NamedSet map);

  // Like DnatToRandomSlot, but with `jhash KEY mod N seed SEED` instead of the random number.
  RuleBuilder& DnatToHashedSlot(const Key& hashed, uint32_t modulus, uint32_t seed, NamedSet map);
  // The same without a port: `dnat to GROUP . jhash ...`.
  RuleBuilder& DnatAddressToHashedSlot(const Key& hashed, uint32_t modulus, uint32_t seed,
                                       NamedSet map);

  // `dnat to KEY map @map`, without a port. nft lists this clause without the family.
  RuleBuilder& DnatTo(const Key& key, NamedSet map);
  // `limit rate over N/second burst N packets`
  RuleBuilder& RateAbovePerSecond(uint32_t packets);

  // Session affinity. In the clauses below, CHOICE identifies the selected endpoint. In IPv4,
  // CHOICE is the complete destination address. In IPv6, CHOICE is the first 8 bytes of the
  // destination address, because Linux 7.2 does not execute rules that write other parts of an IPv6
  // address. In IPv6, the last four bytes of CHOICE are the complement of the first four bytes, so
  // that checksums do not change. PORT is the first two bytes of CHOICE and identifies the Service
  // port. CLIENT is the source address. In IPv6, CLIENT omits the first four bytes, because nft
  // 1.0.6 cannot load affinity maps with longer keys.

  // `CHOICE set GROUP . numgen random mod N map @map`, where GROUP is the last 2 bytes of the
  // destination address.
  RuleBuilder& ChooseRandomSlot(uint32_t modulus, NamedSet map);
  // Matches if an endpoint is selected: `D != 192.0.0.0/2` or `D != c000::/2`.
  RuleBuilder& IsChosen();
  // `update @map { CLIENT . PORT timeout N : CHOICE }`
  RuleBuilder& Remember(NamedSet map, uint32_t seconds);
  RuleBuilder& Recall(NamedSet map);  // `CHOICE set CLIENT . PORT map @map`
  RuleBuilder& Forget(NamedSet map);  // `delete @map { CLIENT . PORT : CHOICE }`
  // `meta l4proto { tcp, udp, sctp } dnat to CHOICE map @map`. In IPv6, the lookup key is the first
  // four bytes of CHOICE.
  RuleBuilder& DnatToChoice(NamedSet map);
  // The same for a map without ports: `dnat to CHOICE map @map`. Packets keep their destination
  // port.
  RuleBuilder& DnatAddressToChoice(NamedSet map);

  RuleBuilder& Jump(std::string_view chain);
  RuleBuilder& Goto(std::string_view chain);
  RuleBuilder& Return();
  RuleBuilder& Drop();
  RuleBuilder& RejectPortUnreachable();  // `reject`
  // `reject with tcp reset`. A clause before it must match TCP.
  RuleBuilder& RejectWithTcpReset();
  RuleBuilder& MasqueradeFullyRandom();  // `masquerade fully-random`

  RuleSpec Build() { return std::move(rule_); }

 private:
  // Loads the parts of a concatenated key into consecutive registers, beginning with `reg`. Returns
  // the register after the key.
  uint32_t LoadKey(const Key& key, uint32_t reg = 0);
  std::string KeyText(const Key& key) const;
  uint32_t LoadClientAndPort();
  std::string ClientAndPortText() const;
  std::string ChoiceText() const;
  std::string LoadChoiceKey();
  void LoadChoice(uint32_t reg);
  void WriteChoice(uint32_t reg);
  void LookUp(AnonymousSet set, Lookup::Into into);
  std::string LoadGroup(uint32_t group_size);
  std::string LoadRandomSlot(uint32_t group_size, uint32_t modulus);
  std::string LoadHashedSlot(const Key& hashed, uint32_t modulus, uint32_t seed);
  RuleBuilder& DnatToSlot(const std::string& slot, NamedSet map);
  void CompareStatus(uint32_t bit, bool equal_to_0);
  void MatchTcpFlags(uint8_t mask, uint8_t value);
  void MatchTransport();
  void MatchState(uint32_t state);
  void DnatFrom(uint32_t set, uint32_t key_words);
  RuleBuilder& DnatToAddress(const std::string& key, uint32_t key_words, NamedSet map);
  void MatchInput(std::string_view pattern, bool equal);
  void LoadMaskedDestination(const IpAddress& mask);
  void MatchPrefix(std::string_view field, uint32_t offset, bool equal, const IpPrefix& prefix);
  void AddVerdict(Verdict::Kind kind, std::string_view word, std::string_view chain);
  RuleBuilder& Text(std::string_view clause);
  void Add(Expr expr) { rule_.exprs.push_back(std::move(expr)); }

  Family family_;
  bool tcp_ = false;  // True if a clause matches TCP. nft then prints `tcp dport`.
  RuleSpec rule_;
};

}  // namespace svcmap::nft
