// Rule expressions as plain values. The types mirror the expressions of nf_tables. nft/netlink
// encodes them as netlink messages. No component except nft/netlink interprets expressions.
//
// Register numbers count 32-bit words: register 0 is NFT_REG32_00. An IPv6 address occupies four
// registers.
#pragma once

#include <cstdint>
#include <optional>
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

// Overwrites bytes of the network header. Updates the transport checksum (pseudo-header) in both
// families and the header checksum in IPv4.
struct AddressWrite {
  Family family;
  uint32_t offset;
  uint32_t size;
  uint32_t reg;
};

// Overwrites bytes of the network header without updating checksums. NeutralWrite is valid only if
// the old bytes and the new bytes have the same one's complement sum.
struct NeutralWrite {
  uint32_t offset;
  uint32_t size;
  uint32_t reg;
};

// kInputName, the input interface name, occupies four registers.
enum class MetaKey : uint8_t { kMark, kL4Proto, kInputName };
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

// Loads the destination of the connection's first packet, before any translation.
struct OriginalDestinationLoad {
  Family family;
  uint32_t reg;
};

// Loads the route type of the source or destination address, in host byte order. The route type of
// a local address is 2 (RTN_LOCAL).
struct RouteTypeLoad {
  bool source;
  uint32_t reg;
};

struct Compare {
  bool equal;
  uint32_t reg;
  std::vector<uint8_t> value;
};

// reg = (reg & mask) ^ xor_with. `mask`, `xor_with` and the value in `reg` have the same length.
struct Bitwise {
  uint32_t reg;
  std::vector<uint8_t> mask;
  std::vector<uint8_t> xor_with;
};

// Looks up the key that starts in register `reg`. If the key is not found, evaluation continues
// with the next rule.
struct Lookup {
  enum class Into : uint8_t { kNothing, kRegister, kVerdict };
  // True if `set` is an index into the rule's anonymous sets instead of the table's sets.
  bool anonymous = false;
  uint32_t set = 0;
  uint32_t reg = 0;
  Into into = Into::kNothing;
  uint32_t data_reg = 0;
  // True if the rule continues when the key is not found. `invert` is valid only if `into`
  // is kNothing.
  bool invert = false;
};

// Adds or deletes an element of a dynamic set or map from the packet path. If the operation fails,
// evaluation continues with the next rule.
struct DynamicElement {
  enum class Op : uint8_t {
    kUpdate,  // Adds the element. If the key exists, keeps its data and restarts its timeout.
    kCount,   // Like kUpdate for a set, but also increments the element's packet counter.
    kDelete,
  };
  Op op = Op::kUpdate;
  uint32_t set = 0;
  uint32_t key_reg = 0;
  uint32_t data_reg = 0;
  uint32_t timeout_seconds = 0;  // Timeout of the element. Not used by kDelete.
};

struct RandomNumber {  // A random number from 0 to modulus-1, in host byte order.
  uint32_t reg;
  uint32_t modulus;
};

// The Jenkins hash of `size` bytes, scaled to a number from 0 to modulus-1, in host byte order:
// JenkinsHash() in nft/expr/jenkins_hash.h.
struct HashedNumber {
  uint32_t reg;
  uint32_t source_reg;
  uint32_t size;  // bytes
  uint32_t modulus;
  uint32_t seed;
};

struct Verdict {
  enum class Kind : uint8_t { kDrop, kJump, kGoto, kReturn };
  Kind kind;
  std::string chain;  // Target chain of kJump and kGoto.
};

struct Dnat {
  Family family;
  uint32_t address_reg;
  std::optional<uint32_t> port_reg;  // If absent, the port is not translated.
};

struct Masquerade {};  // Selects source ports at random (fully-random).

// Matches packets above a rate. All packets that reach the rule share one token bucket.
struct RateAbove {
  uint32_t packets_per_second;
  uint32_t burst;  // Size of the token bucket in packets.
};

// Replies with ICMP port unreachable, or with a TCP reset (S-100).
struct Reject {
  Family family;
  bool tcp_reset = false;  // True if the reject is a TCP reset. Valid only for TCP packets.
};

using Expr =
    std::variant<PayloadLoad, AddressWrite, NeutralWrite, MetaLoad, MetaSet, CtLoad,
                 OriginalDestinationLoad, RouteTypeLoad, Compare, Bitwise, Lookup, DynamicElement,
                 RandomNumber, HashedNumber, RateAbove, Verdict, Dnat, Masquerade, Reject>;

}  // namespace svcmap::nft
