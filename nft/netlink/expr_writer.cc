#include "nft/netlink/expr_writer.h"

#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>

#include <initializer_list>
#include <utility>

#include "nft/netlink/messages.h"

namespace svcmap::nft {
namespace {

constexpr uint8_t kIcmpPortUnreachable = 3;
constexpr uint8_t kIcmpv6PortUnreachable = 4;
constexpr uint32_t kIpv4ChecksumOffset = 10;
constexpr uint64_t kMillisecondsPerSecond = 1000;
constexpr uint64_t kOneSecond = 1;

uint32_t Register(uint32_t word) { return NFT_REG32_00 + word; }

struct ExprWriter {
  nftnl_rule* rule;
  const std::function<SetHandle(const Lookup&)>& set_of;

  // Appends an expression with 32-bit attributes.
  nftnl_expr* Add(const char* name,
                  std::initializer_list<std::pair<uint16_t, uint32_t>> attributes) const {
    nftnl_expr* expr = nftnl_expr_alloc(name);
    for (const auto& [attribute, value] : attributes) nftnl_expr_set_u32(expr, attribute, value);
    nftnl_rule_add_expr(rule, expr);
    return expr;
  }

  void WriteHeader(uint32_t offset, uint32_t size, uint32_t reg, uint32_t checksum_type,
                   uint32_t checksum_offset, uint32_t flags) const {
    Add("payload", {{NFTNL_EXPR_PAYLOAD_SREG, Register(reg)},
                    {NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER},
                    {NFTNL_EXPR_PAYLOAD_OFFSET, offset},
                    {NFTNL_EXPR_PAYLOAD_LEN, size},
                    {NFTNL_EXPR_PAYLOAD_CSUM_TYPE, checksum_type},
                    {NFTNL_EXPR_PAYLOAD_CSUM_OFFSET, checksum_offset},
                    {NFTNL_EXPR_PAYLOAD_FLAGS, flags}});
  }

  void operator()(const PayloadLoad& load) const {
    const bool network = load.header == Header::kNetwork;
    Add("payload", {{NFTNL_EXPR_PAYLOAD_DREG, Register(load.reg)},
                    {NFTNL_EXPR_PAYLOAD_BASE,
                     network ? NFT_PAYLOAD_NETWORK_HEADER : NFT_PAYLOAD_TRANSPORT_HEADER},
                    {NFTNL_EXPR_PAYLOAD_OFFSET, load.offset},
                    {NFTNL_EXPR_PAYLOAD_LEN, load.size}});
  }

  void operator()(const AddressWrite& write) const {
    const bool v4 = write.family == Family::kIpv4;
    WriteHeader(write.offset, write.size, write.reg,
                v4 ? NFT_PAYLOAD_CSUM_INET : NFT_PAYLOAD_CSUM_NONE, v4 ? kIpv4ChecksumOffset : 0,
                NFT_PAYLOAD_L4CSUM_PSEUDOHDR);
  }

  void operator()(const NeutralWrite& write) const {
    WriteHeader(write.offset, write.size, write.reg, NFT_PAYLOAD_CSUM_NONE, 0, 0);
  }

  void operator()(const MetaLoad& load) const {
    Add("meta",
        {{NFTNL_EXPR_META_KEY, MetaNumber(load.key)}, {NFTNL_EXPR_META_DREG, Register(load.reg)}});
  }

  void operator()(const MetaSet& set) const {
    Add("meta",
        {{NFTNL_EXPR_META_KEY, MetaNumber(set.key)}, {NFTNL_EXPR_META_SREG, Register(set.reg)}});
  }

  void operator()(const CtLoad& load) const {
    Add("ct", {{NFTNL_EXPR_CT_KEY, load.key == CtKey::kState ? NFT_CT_STATE : NFT_CT_STATUS},
               {NFTNL_EXPR_CT_DREG, Register(load.reg)}});
  }

  void operator()(const OriginalDestinationLoad& load) const {
    const bool v4 = load.family == Family::kIpv4;
    nftnl_expr* expr = Add("ct", {{NFTNL_EXPR_CT_KEY, v4 ? NFT_CT_DST_IP : NFT_CT_DST_IP6},
                                  {NFTNL_EXPR_CT_DREG, Register(load.reg)}});
    nftnl_expr_set_u8(expr, NFTNL_EXPR_CT_DIR, IP_CT_DIR_ORIGINAL);
  }

  void operator()(const RouteTypeLoad& load) const {
    Add("fib", {{NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE},
                {NFTNL_EXPR_FIB_FLAGS, load.source ? NFTA_FIB_F_SADDR : NFTA_FIB_F_DADDR},
                {NFTNL_EXPR_FIB_DREG, Register(load.reg)}});
  }

  void operator()(const DynamicElement& element) const {
    using Op = DynamicElement::Op;
    const SetHandle set = set_of({.set = element.set});
    const bool remove = element.op == Op::kDelete;
    nftnl_expr* expr =
        Add("dynset", {{NFTNL_EXPR_DYNSET_OP, remove ? NFT_DYNSET_OP_DELETE : NFT_DYNSET_OP_UPDATE},
                       {NFTNL_EXPR_DYNSET_SREG_KEY, Register(element.key_reg)},
                       {NFTNL_EXPR_DYNSET_SET_ID, set.id}});
    nftnl_expr_set_str(expr, NFTNL_EXPR_DYNSET_SET_NAME, set.name);
    if (element.op == Op::kCount) {
      nftnl_expr_add_expr(expr, NFTNL_EXPR_DYNSET_EXPRESSIONS, nftnl_expr_alloc("counter"));
    } else {
      nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_SREG_DATA, Register(element.data_reg));
    }
    if (!remove) {
      nftnl_expr_set_u64(expr, NFTNL_EXPR_DYNSET_TIMEOUT,
                         uint64_t{element.timeout_seconds} * kMillisecondsPerSecond);
    }
  }

  void operator()(const Compare& compare) const {
    nftnl_expr* expr = Add("cmp", {{NFTNL_EXPR_CMP_SREG, Register(compare.reg)},
                                   {NFTNL_EXPR_CMP_OP, compare.equal ? NFT_CMP_EQ : NFT_CMP_NEQ}});
    nftnl_expr_set(expr, NFTNL_EXPR_CMP_DATA, compare.value.data(),
                   static_cast<uint32_t>(compare.value.size()));
  }

  void operator()(const Bitwise& bitwise) const {
    const auto size = static_cast<uint32_t>(bitwise.mask.size());
    nftnl_expr* expr = Add("bitwise", {{NFTNL_EXPR_BITWISE_SREG, Register(bitwise.reg)},
                                       {NFTNL_EXPR_BITWISE_DREG, Register(bitwise.reg)},
                                       {NFTNL_EXPR_BITWISE_OP, NFT_BITWISE_BOOL},
                                       {NFTNL_EXPR_BITWISE_LEN, size}});
    nftnl_expr_set(expr, NFTNL_EXPR_BITWISE_MASK, bitwise.mask.data(), size);
    nftnl_expr_set(expr, NFTNL_EXPR_BITWISE_XOR, bitwise.xor_with.data(), size);
  }

  void operator()(const Lookup& lookup) const {
    const SetHandle set = set_of(lookup);
    nftnl_expr* expr = Add("lookup", {{NFTNL_EXPR_LOOKUP_SREG, Register(lookup.reg)},
                                      {NFTNL_EXPR_LOOKUP_SET_ID, set.id}});
    if (lookup.into != Lookup::Into::kNothing) {
      nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_DREG,
                         lookup.into == Lookup::Into::kRegister ? Register(lookup.data_reg)
                                                                : uint32_t{NFT_REG_VERDICT});
    }
    if (lookup.invert) nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
    nftnl_expr_set_str(expr, NFTNL_EXPR_LOOKUP_SET, set.name);
  }

  void operator()(const RandomNumber& random) const {
    Add("numgen", {{NFTNL_EXPR_NG_DREG, Register(random.reg)},
                   {NFTNL_EXPR_NG_MODULUS, random.modulus},
                   {NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM},
                   {NFTNL_EXPR_NG_OFFSET, 0}});
  }

  void operator()(const HashedNumber& hash) const {
    Add("hash", {{NFTNL_EXPR_HASH_TYPE, NFT_HASH_JENKINS},
                 {NFTNL_EXPR_HASH_SREG, Register(hash.source_reg)},
                 {NFTNL_EXPR_HASH_DREG, Register(hash.reg)},
                 {NFTNL_EXPR_HASH_LEN, hash.size},
                 {NFTNL_EXPR_HASH_MODULUS, hash.modulus},
                 {NFTNL_EXPR_HASH_SEED, hash.seed},
                 {NFTNL_EXPR_HASH_OFFSET, 0}});
  }

  void operator()(const RateAbove& rate) const {
    nftnl_expr* expr = Add("limit", {{NFTNL_EXPR_LIMIT_BURST, rate.burst},
                                     {NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS},
                                     {NFTNL_EXPR_LIMIT_FLAGS, NFT_LIMIT_F_INV}});
    nftnl_expr_set_u64(expr, NFTNL_EXPR_LIMIT_RATE, rate.packets_per_second);
    nftnl_expr_set_u64(expr, NFTNL_EXPR_LIMIT_UNIT, kOneSecond);
  }

  void operator()(const Verdict& verdict) const {
    constexpr int kCodes[] = {NF_DROP, NFT_JUMP, NFT_GOTO, NFT_RETURN};  // By Verdict::Kind.
    const int code = kCodes[static_cast<size_t>(verdict.kind)];
    nftnl_expr* expr = Add("immediate", {{NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT},
                                         {NFTNL_EXPR_IMM_VERDICT, static_cast<uint32_t>(code)}});
    if (!verdict.chain.empty()) {
      nftnl_expr_set_str(expr, NFTNL_EXPR_IMM_CHAIN, verdict.chain.c_str());
    }
  }

  void operator()(const Dnat& dnat) const {
    nftnl_expr* expr = Add("nat", {{NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT},
                                   {NFTNL_EXPR_NAT_FAMILY, NfFamily(dnat.family)},
                                   {NFTNL_EXPR_NAT_REG_ADDR_MIN, Register(dnat.address_reg)},
                                   {NFTNL_EXPR_NAT_REG_ADDR_MAX, Register(dnat.address_reg)}});
    if (!dnat.port_reg) return;  // The kernel derives the flags from the registers.
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_REG_PROTO_MIN, Register(*dnat.port_reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_REG_PROTO_MAX, Register(*dnat.port_reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_FLAGS,
                       NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
  }

  void operator()(const Masquerade&) const {
    Add("masq", {{NFTNL_EXPR_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY}});
  }

  void operator()(const Reject& reject) const {
    const uint8_t code = reject.tcp_reset                 ? 0
                         : reject.family == Family::kIpv4 ? kIcmpPortUnreachable
                                                          : kIcmpv6PortUnreachable;
    nftnl_expr* expr =
        Add("reject", {{NFTNL_EXPR_REJECT_TYPE,
                        reject.tcp_reset ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMP_UNREACH}});
    nftnl_expr_set_u8(expr, NFTNL_EXPR_REJECT_CODE, code);
  }

  static uint32_t MetaNumber(MetaKey key) {
    constexpr uint32_t kNumbers[] = {NFT_META_MARK, NFT_META_L4PROTO, NFT_META_IIFNAME};
    return kNumbers[static_cast<size_t>(key)];
  }
};

}  // namespace

void AppendExpr(nftnl_rule* rule, const Expr& expr,
                const std::function<SetHandle(const Lookup&)>& set_of) {
  std::visit(ExprWriter{rule, set_of}, expr);
}

}  // namespace svcmap::nft
