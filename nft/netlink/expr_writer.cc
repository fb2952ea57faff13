#include "nft/netlink/expr_writer.h"

#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_tuple_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>

namespace svcmap::nft {
namespace {

constexpr uint32_t kIcmpPortUnreachable = 3;
constexpr uint32_t kIcmpv6PortUnreachable = 4;
constexpr uint32_t kIpv4ChecksumOffset = 10;
constexpr uint64_t kMillisecondsPerSecond = 1000;
constexpr uint64_t kOneSecond = 1;

uint32_t Register(uint32_t word) { return NFT_REG32_00 + word; }

uint32_t Protocol(Family family) { return family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6; }

struct ExprWriter {
  nftnl_rule* rule;
  const std::function<SetHandle(const Lookup&)>& set_of;

  nftnl_expr* New(const char* name) const {
    nftnl_expr* expr = nftnl_expr_alloc(name);
    nftnl_rule_add_expr(rule, expr);
    return expr;
  }

  void WriteHeader(uint32_t offset, uint32_t size, uint32_t reg, uint32_t checksum_type,
                   uint32_t checksum_offset, uint32_t flags) const {
    nftnl_expr* expr = New("payload");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_SREG, Register(reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_LEN, size);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_CSUM_TYPE, checksum_type);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_CSUM_OFFSET, checksum_offset);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_FLAGS, flags);
  }

  void operator()(const PayloadLoad& load) const {
    nftnl_expr* expr = New("payload");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_DREG, Register(load.reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_BASE,
                       load.header == Header::kNetwork ? NFT_PAYLOAD_NETWORK_HEADER
                                                       : NFT_PAYLOAD_TRANSPORT_HEADER);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_OFFSET, load.offset);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_PAYLOAD_LEN, load.size);
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
    nftnl_expr* expr = New("meta");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, MetaNumber(load.key));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_DREG, Register(load.reg));
  }

  void operator()(const MetaSet& set) const {
    nftnl_expr* expr = New("meta");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_KEY, MetaNumber(set.key));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_META_SREG, Register(set.reg));
  }

  void operator()(const CtLoad& load) const {
    nftnl_expr* expr = New("ct");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CT_KEY,
                       load.key == CtKey::kState ? NFT_CT_STATE : NFT_CT_STATUS);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CT_DREG, Register(load.reg));
  }

  void operator()(const OriginalDestinationLoad& load) const {
    nftnl_expr* expr = New("ct");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CT_KEY,
                       load.family == Family::kIpv4 ? NFT_CT_DST_IP : NFT_CT_DST_IP6);
    nftnl_expr_set_u8(expr, NFTNL_EXPR_CT_DIR, IP_CT_DIR_ORIGINAL);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CT_DREG, Register(load.reg));
  }

  void operator()(const RouteTypeLoad& load) const {
    nftnl_expr* expr = New("fib");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_FIB_FLAGS,
                       load.source ? NFTA_FIB_F_SADDR : NFTA_FIB_F_DADDR);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_FIB_DREG, Register(load.reg));
  }

  void operator()(const DynamicElement& element) const {
    using Op = DynamicElement::Op;
    const SetHandle set = set_of({.set = element.set});
    nftnl_expr* expr = New("dynset");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_OP,
                       element.op == Op::kDelete ? NFT_DYNSET_OP_DELETE : NFT_DYNSET_OP_UPDATE);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_SREG_KEY, Register(element.key_reg));
    if (element.op == Op::kCount) {
      nftnl_expr_add_expr(expr, NFTNL_EXPR_DYNSET_EXPRESSIONS, nftnl_expr_alloc("counter"));
    } else {
      nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_SREG_DATA, Register(element.data_reg));
    }
    if (element.op != Op::kDelete) {
      nftnl_expr_set_u64(expr, NFTNL_EXPR_DYNSET_TIMEOUT,
                         uint64_t{element.timeout_seconds} * kMillisecondsPerSecond);
    }
    nftnl_expr_set_str(expr, NFTNL_EXPR_DYNSET_SET_NAME, set.name);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_DYNSET_SET_ID, set.id);
  }

  void operator()(const Compare& compare) const {
    nftnl_expr* expr = New("cmp");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_SREG, Register(compare.reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_CMP_OP, compare.equal ? NFT_CMP_EQ : NFT_CMP_NEQ);
    nftnl_expr_set(expr, NFTNL_EXPR_CMP_DATA, compare.value.data(),
                   static_cast<uint32_t>(compare.value.size()));
  }

  void operator()(const Bitwise& bitwise) const {
    nftnl_expr* expr = New("bitwise");
    const auto size = static_cast<uint32_t>(bitwise.mask.size());
    nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_SREG, Register(bitwise.reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_DREG, Register(bitwise.reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_OP, NFT_BITWISE_BOOL);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_BITWISE_LEN, size);
    nftnl_expr_set(expr, NFTNL_EXPR_BITWISE_MASK, bitwise.mask.data(), size);
    nftnl_expr_set(expr, NFTNL_EXPR_BITWISE_XOR, bitwise.xor_with.data(), size);
  }

  void operator()(const Lookup& lookup) const {
    nftnl_expr* expr = New("lookup");
    const SetHandle set = set_of(lookup);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_SREG, Register(lookup.reg));
    if (lookup.into == Lookup::Into::kRegister) {
      nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_DREG, Register(lookup.data_reg));
    } else if (lookup.into == Lookup::Into::kVerdict) {
      nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
    }
    if (lookup.invert) nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
    nftnl_expr_set_str(expr, NFTNL_EXPR_LOOKUP_SET, set.name);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_SET_ID, set.id);
  }

  void operator()(const RandomNumber& random) const {
    nftnl_expr* expr = New("numgen");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NG_DREG, Register(random.reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NG_MODULUS, random.modulus);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NG_OFFSET, 0);
  }

  void operator()(const HashedNumber& hash) const {
    nftnl_expr* expr = New("hash");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_HASH_TYPE, NFT_HASH_JENKINS);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_HASH_SREG, Register(hash.source_reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_HASH_DREG, Register(hash.reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_HASH_LEN, hash.size);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_HASH_MODULUS, hash.modulus);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_HASH_SEED, hash.seed);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_HASH_OFFSET, 0);
  }

  void operator()(const RateAbove& rate) const {
    nftnl_expr* expr = New("limit");
    nftnl_expr_set_u64(expr, NFTNL_EXPR_LIMIT_RATE, rate.packets_per_second);
    nftnl_expr_set_u64(expr, NFTNL_EXPR_LIMIT_UNIT, kOneSecond);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_LIMIT_BURST, rate.burst);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_LIMIT_FLAGS, NFT_LIMIT_F_INV);
  }

  void operator()(const Verdict& verdict) const {
    nftnl_expr* expr = New("immediate");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
    switch (verdict.kind) {
      case Verdict::Kind::kDrop:
        nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, NF_DROP);
        return;
      case Verdict::Kind::kReturn:
        nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, static_cast<uint32_t>(NFT_RETURN));
        return;
      case Verdict::Kind::kJump:
        nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, static_cast<uint32_t>(NFT_JUMP));
        break;
      case Verdict::Kind::kGoto:
        nftnl_expr_set_u32(expr, NFTNL_EXPR_IMM_VERDICT, static_cast<uint32_t>(NFT_GOTO));
        break;
    }
    nftnl_expr_set_str(expr, NFTNL_EXPR_IMM_CHAIN, verdict.chain.c_str());
  }

  void operator()(const Dnat& dnat) const {
    nftnl_expr* expr = New("nat");
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_FAMILY, Protocol(dnat.family));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_REG_ADDR_MIN, Register(dnat.address_reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_REG_ADDR_MAX, Register(dnat.address_reg));
    if (!dnat.port_reg) return;  // The kernel derives the flags from the registers.
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_REG_PROTO_MIN, Register(*dnat.port_reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_REG_PROTO_MAX, Register(*dnat.port_reg));
    nftnl_expr_set_u32(expr, NFTNL_EXPR_NAT_FLAGS,
                       NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
  }

  void operator()(const Masquerade&) const {
    nftnl_expr_set_u32(New("masq"), NFTNL_EXPR_MASQ_FLAGS, NF_NAT_RANGE_PROTO_RANDOM_FULLY);
  }

  void operator()(const Reject& reject) const {
    nftnl_expr* expr = New("reject");
    if (reject.tcp_reset) {
      nftnl_expr_set_u32(expr, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_TCP_RST);
      nftnl_expr_set_u8(expr, NFTNL_EXPR_REJECT_CODE, 0);
      return;
    }
    nftnl_expr_set_u32(expr, NFTNL_EXPR_REJECT_TYPE, NFT_REJECT_ICMP_UNREACH);
    nftnl_expr_set_u8(
        expr, NFTNL_EXPR_REJECT_CODE,
        reject.family == Family::kIpv4 ? kIcmpPortUnreachable : kIcmpv6PortUnreachable);
  }

  static uint32_t MetaNumber(MetaKey key) {
    switch (key) {
      case MetaKey::kMark:
        return NFT_META_MARK;
      case MetaKey::kL4Proto:
        return NFT_META_L4PROTO;
      case MetaKey::kInputName:
        return NFT_META_IIFNAME;
    }
    return NFT_META_MARK;
  }
};

}  // namespace

void AppendExpr(nftnl_rule* rule, const Expr& expr,
                const std::function<SetHandle(const Lookup&)>& set_of) {
  std::visit(ExprWriter{rule, set_of}, expr);
}

}  // namespace svcmap::nft
