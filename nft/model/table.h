// A table as plain values: what is created once and never changes while Services come and go.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nft/expr/expr.h"
#include "nft/model/field.h"
#include "nft/types/family.h"

namespace svcmap::nft {

struct SetSpec {
  std::string name;
  std::vector<Field> key;
  std::vector<Field> data;  // Empty: a set, else a map.
  // Elements are ranges: with a single field each is a start and an end, with several each has a
  // first and a last key (ElementView::key_end) and no two may overlap.
  bool interval = false;
  // False: the kernel keeps a resizable hash table. True: created with a size and a fixed hash
  // table, which loads and looks up faster, but must be rebuilt to grow.
  bool sized = false;
  // Not 0: rules write elements of so many keys at most, each with a time to live; nobody else
  // does.
  uint32_t dynamic_size = 0;

  // The two forms of an interval set.
  bool has_bounds() const { return interval && key.size() == 1; }
  bool has_ranges() const { return interval && key.size() > 1; }

  // For keys that no nft type names: the typeof text. Empty: "type ..." is printed from `key` and
  // `data`.
  std::string typeof_text;
  // What nft 1.0.6 stores with such a set and needs to list it: the typeof text in a form of its
  // own, and the byte order of a kMark key. Empty where all fields are named and in network order.
  std::vector<uint8_t> userdata;
};

struct BaseChain {
  std::string type;  // "nat" or "filter"
  std::string hook;  // "prerouting", "input", "forward", "output" or "postrouting"
  int priority = 0;  // Policy is always accept (S-137).
};

struct ChainSpec {
  std::string name;
  std::string comment;
  std::optional<BaseChain> base;
};

// A set inside one rule: { tcp, udp, sctp } or vmap { 1 : goto pick-1, ... }.
struct AnonymousSet {
  struct Entry {
    std::vector<uint8_t> key;
    std::string goto_chain;  // Empty: no verdict.
  };
  Field key;
  std::vector<Entry> entries;
};

struct RuleSpec {
  std::string chain;
  std::string text;  // The nft line that it stands for; a test loads it and compares.
  std::vector<Expr> exprs;
  std::vector<AnonymousSet> sets;
};

struct TableSpec {
  Family family = Family::kIpv4;
  std::string name;
  std::vector<SetSpec> sets;      // Referred to by position.
  std::vector<ChainSpec> chains;  // In the order of creation.
  std::vector<RuleSpec> rules;
  bool dormant = false;  // No packet sees it.
};

using TableSpecs = std::vector<TableSpec>;  // By Index(Family).

}  // namespace svcmap::nft
