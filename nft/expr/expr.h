// The instructions our rules are made of, as plain values. They mirror nf_tables' own expressions;
// nft/netlink turns them into netlink, nothing else interprets them.
//
// Registers are counted in 32-bit words: 0 is NFT_REG32_00. An IPv6 address takes four.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "nft/types/family.h"

namespace svcmap::nft {

enum class Header : uint8_t { kNetwork, kTransport };

struct PayloadLoad {
  Header header;
  uint32_t offset;  // bytes
  uint32_t size;    // bytes
  uint32_t reg;
};

// Overwrites header bytes and keeps the checksums right: the transport checksum's pseudo header in
// both families, the header checksum in IPv4.
struct AddressWrite {
  Family family;
  uint32_t offset;
  uint32_t size;
  uint32_t reg;
};

// Overwrites header bytes and touches no checksum: only for values whose one's complement sum is
// that of what they replace.
struct NeutralWrite {
  uint32_t offset;
  uint32_t size;
  uint32_t reg;
};

enum class MetaKey : uint8_t { kMark, kL4Proto, kInputName };  // kInputName takes four words.
struct MetaLoad {
  MetaKey key;
  uint32_t reg;
};
struct MetaSet {
  MetaKey key;
  uint32_t reg;
};

enum class CtKey : uint8_t { kState, kStatus };
struct CtLoad {
  CtKey key;
  uint32_t reg;
};

struct OriginalDestinationLoad {  // As the connection's first packet had it on arrival.
  Family family;
  uint32_t reg;
};

struct SourceTypeLoad {  // The route type of the source address, in host order; local is 2.
  uint32_t reg;
};

struct Compare {
  bool equal;
  uint32_t reg;
  std::vector<uint8_t> value;
};

struct Bitwise {  // reg = (reg & mask) ^ xor_with; both as long as the value.
  uint32_t reg;
  std::vector<uint8_t> mask;
  std::vector<uint8_t> xor_with;
};

// Looks the key at `reg` up. A miss ends the rule, the next one goes on.
struct Lookup {
  enum class Into : uint8_t { kNothing, kRegister, kVerdict };
  bool anonymous = false;  // `set` counts the rule's own sets instead of the table's.
  uint32_t set = 0;
  uint32_t reg = 0;
  Into into = Into::kNothing;
  uint32_t data_reg = 0;
  bool invert = false;  // Goes on after a miss; kNothing only.
};

// Writes to a dynamic set or map from the packet path. Where it cannot, the rule ends.
struct DynamicElement {
  enum class Op : uint8_t {
    kUpdate,  // Adds key and data; if the key is there, its data stays and its time starts anew.
    kCount,   // The same in a set, with a counter of the packets that do this; no data.
    kDelete,
  };
  Op op = Op::kUpdate;
  uint32_t set = 0;
  uint32_t key_reg = 0;
  uint32_t data_reg = 0;
  uint32_t timeout_seconds = 0;  // Not for kDelete.
};

struct RandomNumber {  // 0..modulus-1, host order
  uint32_t reg;
  uint32_t modulus;
};

struct Verdict {
  enum class Kind : uint8_t { kDrop, kJump, kGoto, kReturn };
  Kind kind;
  std::string chain;  // kJump and kGoto only.
};

struct Dnat {
  Family family;
  uint32_t address_reg;
  uint32_t port_reg;
};

struct Masquerade {};  // With fully random ports.

struct Reject {  // ICMP port unreachable, also for TCP (S-100).
  Family family;
};

using Expr = std::variant<PayloadLoad, AddressWrite, NeutralWrite, MetaLoad, MetaSet, CtLoad,
                          OriginalDestinationLoad, SourceTypeLoad, Compare, Bitwise, Lookup,
                          DynamicElement, RandomNumber, Verdict, Dnat, Masquerade, Reject>;

}  // namespace svcmap::nft
