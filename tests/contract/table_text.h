// Prints tables as nft(8) lists them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "nft/model/table.h"

namespace svcmap::nft {

// Returns the priority in nft syntax: a number, or a standard name with an offset of at most 10,
// such as "filter + 5".
inline std::string PriorityText(int priority, std::string_view hook) {
  struct Name {
    int priority;
    std::string_view text;
    std::string_view hook;  // If empty, the name is valid for any hook.
  };
  static constexpr Name kNames[] = {
      {-300, "raw", ""}, {-150, "mangle", ""}, {-100, "dstnat", "prerouting"},
      {0, "filter", ""}, {50, "security", ""}, {100, "srcnat", "postrouting"}};
  for (const Name& name : kNames) {
    const int offset = priority - name.priority;
    if (offset < -10 || offset > 10 || (!name.hook.empty() && name.hook != hook)) continue;
    std::string text(name.text);
    if (offset > 0) text += " + " + std::to_string(offset);
    if (offset < 0) text += " - " + std::to_string(-offset);
    return text;
  }
  return std::to_string(priority);
}

// Other fields have no named type, so that their sets have a typeof_text.
inline std::string TypeName(Field field) {
  switch (field) {
    case Field::kIpv4Addr:
      return "ipv4_addr";
    case Field::kIpv6Addr:
      return "ipv6_addr";
    case Field::kInetProto:
      return "inet_proto";
    case Field::kInetService:
      return "inet_service";
    case Field::kMark:
      return "mark";
    default:
      return "?";
  }
}

inline std::string TypesText(std::span<const Field> fields) {
  std::string text;
  for (const Field field : fields) {
    if (!text.empty()) text += " . ";
    text += TypeName(field);
  }
  return text;
}

inline std::string SetDeclaration(const SetSpec& set) {
  std::string text = set.data.empty() ? "\tset " : "\tmap ";
  text += set.name + " {\n\t\t";
  if (!set.typeof_text.empty()) {
    text += set.typeof_text;
  } else {
    text += "type " + TypesText(set.key);
    if (!set.data.empty()) text += " : " + TypesText(set.data);
  }
  text += "\n";
  if (set.dynamic_size != 0) {
    text += "\t\tsize " + std::to_string(set.dynamic_size) + "\n\t\tflags dynamic,timeout\n";
  }
  if (set.interval) text += "\t\tflags interval\n";
  return text + "\t}\n";
}

inline std::string ChainDeclaration(const TableSpec& table, const ChainSpec& chain) {
  std::string text = "\tchain " + chain.name + " {\n";
  if (!chain.comment.empty()) text += "\t\tcomment \"" + chain.comment + "\"\n";
  if (chain.base) {
    text += "\t\ttype " + chain.base->type + " hook " + chain.base->hook + " priority " +
            PriorityText(chain.base->priority, chain.base->hook) + "; policy accept;\n";
  }
  for (const RuleSpec& rule : table.rules) {
    if (rule.chain == chain.name) text += "\t\t" + rule.text + "\n";
  }
  return text + "\t}\n";
}

// Returns the table without elements, byte for byte as `nft list table` 1.0.6 prints a table that
// was created from this specification.
inline std::string TableText(const TableSpec& table) {
  std::string text =
      "table " + std::string(table.family == Family::kIpv4 ? "ip " : "ip6 ") + table.name + " {\n";
  const char* separator = "";
  for (const SetSpec& set : table.sets) {
    text += separator + SetDeclaration(set);
    separator = "\n";
  }
  for (const ChainSpec& chain : table.chains) {
    text += separator + ChainDeclaration(table, chain);
    separator = "\n";
  }
  return text + "}\n";
}

}  // namespace svcmap::nft
