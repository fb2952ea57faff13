// Plain values that describe the structure of a table, which does not change when Services change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nft/model/expr.h"
#include "nft/model/field.h"
#include "nft/types/family.h"

namespace svcmap::nft {

struct SetSpec {
  std::string name;
  std::vector<Field> key;
  std::vector<Field> data;  // Fields of a map's data. Empty for a set.
  // True if elements are ranges. In a set with one key field, a range consists of a start element
  // and an end element. In a set with several key fields, a range is one element with a first and a
  // last key (ElementView::key_end), and ranges must not overlap.
  bool interval = false;
  // Maximum number of elements of a dynamic set, or 0 if the set is not dynamic. Only rules add
  // elements to a dynamic set, each with a timeout. Other sets have no maximum: the kernel resizes
  // their hash tables, so they grow without being recreated.
  uint32_t dynamic_size = 0;

  // Returns true if the ranges of this interval set are pairs of start and end elements (one
  // field). In interval sets with several fields, each range is one element with two keys.
  bool has_bounds() const { return interval && key.size() == 1; }
  bool has_ranges() const { return interval && key.size() > 1; }

  // typeof expression for keys without a named nft type. If empty, the nft text declares the types
  // of `key` and `data`.
  std::string typeof_text;
  // User data that nft 1.0.6 stores with the set and needs for listing the set: an encoded typeof
  // expression and the byte order of a kMark key. Empty if each field has a named type and network
  // byte order.
  std::vector<uint8_t> userdata;
};

// Hook names. The index is the kernel's number of the hook (NF_INET_*).
inline constexpr const char* kHooks[] = {"prerouting", "input", "forward", "output", "postrouting"};

struct BaseChain {
  std::string type;  // "nat" or "filter"
  std::string hook;  // One of kHooks.
  int priority = 0;  // Hook priority. The chain policy is always accept (S-137).

  friend bool operator==(const BaseChain&, const BaseChain&) = default;
};

struct ChainSpec {
  std::string name;
  std::string comment;
  std::optional<BaseChain> base;
};

// An anonymous set of one rule: { tcp, udp, sctp } or vmap { 1 : goto pick-1, ... }.
struct AnonymousSet {
  struct Entry {
    std::vector<uint8_t> key;
    std::string goto_chain;  // Empty if the entry has no verdict.
  };
  Field key;
  std::vector<Entry> entries;
};

struct RuleSpec {
  std::string chain;
  // The equivalent rule in nft syntax. A test loads this text with nft and compares the resulting
  // rules.
  std::string text;
  std::vector<Expr> exprs;
  std::vector<AnonymousSet> sets;
};

struct TableSpec {
  Family family = Family::kIpv4;
  std::string name;
  std::vector<SetSpec> sets;      // Sets, identified by their index.
  std::vector<ChainSpec> chains;  // Chains in order of creation.
  std::vector<RuleSpec> rules;
  bool dormant = false;  // True if the kernel ignores the chains of the table.
};

using TableSpecs = std::vector<TableSpec>;  // Indexed by Index(Family).

}  // namespace svcmap::nft
