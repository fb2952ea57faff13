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

// A key in consecutive registers.
struct LoadedKey {
  std::string text;  // In nft syntax.
  uint32_t end;      // First register after the key.
};

class RuleBuilder {
 public:
  RuleBuilder(Family family, std::string_view chain);

  // `D PREFIX`
  RuleBuilder& DestinationIn(const IpPrefix& prefix) { return MatchPrefix(false, true, prefix); }
  // `D != PREFIX`
  RuleBuilder& DestinationNotIn(const IpPrefix& prefix) {
    return MatchPrefix(false, false, prefix);
  }
  // `S != PREFIX`
  RuleBuilder& SourceNotIn(const IpPrefix& prefix) { return MatchPrefix(true, false, prefix); }
  RuleBuilder& DestinationIs(const IpAddress& mask, const IpAddress& value);  // `D & MASK == VALUE`
  RuleBuilder& SourceIsLocal();          // `fib saddr type local`
  RuleBuilder& DestinationIsNotLocal();  // `fib daddr type != local`
  RuleBuilder& EchoRequest();            // `icmp type echo-request` or `icmpv6 type echo-request`
  // `iifname "cni0"` or `iifname "veth*"`
  RuleBuilder& InputIs(std::string_view pattern) { return MatchInput(pattern, true); }
  // `iifname != "cni0"`. InputIsNot also matches packets without an input interface.
  RuleBuilder& InputIsNot(std::string_view pattern) { return MatchInput(pattern, false); }
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

  RuleBuilder& MarkOr(uint32_t bits) { return SetMark(~bits, bits, '|'); }  // `... mark | BITS`
  RuleBuilder& MarkXor(uint32_t bits) { return SetMark(~0U, bits, '^'); }   // `... mark ^ BITS`

  // `@nh,OFFSET,8 vmap { BYTE : goto CHAIN, ... }`, where OFFSET selects one byte of the
  // destination address.
  RuleBuilder& GotoByDestinationByte(uint32_t byte,
                                     const std::vector<std::pair<uint8_t, std::string>>& chains);

  // `dnat to KEY map @map`, without a port. nft lists this clause without the family.
  RuleBuilder& DnatTo(const Key& key, NamedSet map) { return DnatToAddress(LoadKey(key), map); }
  // `limit rate over N/second burst N packets`
  RuleBuilder& RateAbovePerSecond(uint32_t packets);

  RuleBuilder& Jump(std::string_view chain) { return End(Verdict::Kind::kJump, "jump ", chain); }
  RuleBuilder& Goto(std::string_view chain) { return End(Verdict::Kind::kGoto, "goto ", chain); }
  RuleBuilder& Return() { return End(Verdict::Kind::kReturn, "return"); }
  RuleBuilder& Drop() { return End(Verdict::Kind::kDrop, "drop"); }
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
  // Loads the parts of a concatenated key into consecutive registers, beginning with `reg`.
  LoadedKey LoadKey(const Key& key, uint32_t reg = 0);
  // Looks up a key that begins in register 0. The data follows the key. The kernel accepts
  // overlapping key and data registers, but `nft list` prints such rules incorrectly.
  void LookUpData(const LoadedKey& key, NamedSet map);
  // `meta l4proto { tcp, udp, sctp }`
  void MatchTransport();
  // `dnat to KEY map @map` for a map without ports.
  RuleBuilder& DnatToAddress(const LoadedKey& key, NamedSet map);
  // Returns the nft text of bytes in the network header: "@nh,136,24".
  static std::string RawPayload(uint32_t byte_offset, uint32_t byte_size);
  static std::string DurationText(uint32_t seconds);  // In nft syntax, such as "1h30m".

 private:
  struct LoadedPart {
    Expr load;
    uint32_t words;
    std::string text;
  };
  LoadedPart PartOf(KeyPart part, uint32_t reg) const;
  void LookUp(AnonymousSet set, Lookup::Into into);
  // Matches if at least one of `bits` is set. If `set` is false, matches if none of them is set.
  RuleBuilder& MatchBits(Expr load, uint32_t bits, bool set, std::string_view text);
  RuleBuilder& MatchTcpFlags(uint8_t mask, uint8_t value, std::string_view text);
  RuleBuilder& MatchInput(std::string_view pattern, bool equal);
  RuleBuilder& MatchPrefix(bool source, bool equal, const IpPrefix& prefix);
  RuleBuilder& SetMark(uint32_t mask, uint32_t xor_with, char operation);
  RuleBuilder& End(Verdict::Kind kind, std::string text, std::string_view chain = "");

  Family family_;
  bool tcp_ = false;  // True if a clause matches TCP. nft then prints `tcp dport`.
  RuleSpec rule_;
};

}  // namespace svcmap::nft
