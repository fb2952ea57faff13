// Builds the rules that read descriptors (descriptor.h): the clauses that pick an endpoint of a
// group, and the clauses of session affinity. Each method appends one clause, whose nft text is in
// the comment, as in nft::RuleBuilder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "nft/expr/rule_builder.h"

namespace svcmap::proxy {

class ServiceRule : public nft::RuleBuilder {
 public:
  using RuleBuilder::RuleBuilder;

  // `meta l4proto { tcp, udp, sctp } dnat to GROUP . numgen random mod N map @map`, where GROUP is
  // the last 3 (IPv4) or 4 (IPv6) bytes of the destination address. nft accepts a port from a map
  // only if the same rule matches the transport protocol first.
  RuleBuilder& DnatToRandomSlot(uint32_t modulus, nft::NamedSet map);
  // Like DnatToRandomSlot, but without `meta l4proto` and for a map without ports. Packets keep
  // their destination port.
  RuleBuilder& DnatAddressToRandomSlot(uint32_t modulus, nft::NamedSet map);

  // Like DnatToRandomSlot, but with `jhash KEY mod N seed SEED` instead of the random number.
  RuleBuilder& DnatToHashedSlot(const nft::Key& hashed, uint32_t modulus, uint32_t seed,
                                nft::NamedSet map);
  // Like DnatToHashedSlot, but for a map without ports: `dnat to GROUP . jhash ...`.
  RuleBuilder& DnatAddressToHashedSlot(const nft::Key& hashed, uint32_t modulus, uint32_t seed,
                                       nft::NamedSet map);

  // Session affinity. In the clauses below, CHOICE identifies the selected endpoint. In IPv4,
  // CHOICE is the complete destination address. In IPv6, CHOICE is the first 8 bytes of the
  // destination address, because Linux 7.2 does not execute rules that write other parts of an IPv6
  // address. In IPv6, the last four bytes of CHOICE are the complement of the first four bytes, so
  // that checksums do not change. PORT is the first two bytes of CHOICE and identifies the Service
  // port. CLIENT is the source address. In IPv6, CLIENT omits the first four bytes, because nft
  // 1.0.6 cannot load affinity maps with longer keys.

  // `CHOICE set GROUP . numgen random mod N map @map`, where GROUP is the last 2 bytes of the
  // destination address.
  RuleBuilder& ChooseRandomSlot(uint32_t modulus, nft::NamedSet map);
  // Matches if an endpoint is selected: `D != 192.0.0.0/2` or `D != c000::/2`.
  RuleBuilder& IsChosen();
  // `update @map { CLIENT . PORT timeout N : CHOICE }`
  RuleBuilder& Remember(nft::NamedSet map, uint32_t seconds);
  RuleBuilder& Recall(nft::NamedSet map);  // `CHOICE set CLIENT . PORT map @map`
  RuleBuilder& Forget(nft::NamedSet map);  // `delete @map { CLIENT . PORT : CHOICE }`
  // `meta l4proto { tcp, udp, sctp } dnat to CHOICE map @map`. In IPv6, the lookup key is the first
  // four bytes of CHOICE.
  RuleBuilder& DnatToChoice(nft::NamedSet map);
  // Like DnatToChoice, but for a map without ports: `dnat to CHOICE map @map`. Packets keep their
  // destination port.
  RuleBuilder& DnatAddressToChoice(nft::NamedSet map);

 private:
  std::string LoadGroup(uint32_t group_size);
  std::string LoadRandomSlot(uint32_t group_size, uint32_t modulus);
  std::string LoadHashedSlot(const nft::Key& hashed, uint32_t modulus, uint32_t seed);
  RuleBuilder& DnatFrom(const std::string& key, uint32_t key_words, nft::NamedSet map);
  uint32_t LoadClientAndPort();
  std::string ClientAndPortText() const;
  std::string ChoiceText() const;
  std::string LoadChoiceKey();
  void LoadChoice(uint32_t reg);
  void WriteChoice(uint32_t reg);
};

}  // namespace svcmap::proxy
