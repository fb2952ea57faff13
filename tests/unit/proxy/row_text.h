// Formats elements as lines of text, for readable test failures. Example:
//
//   service-ips 10.96.0.1 . tcp . 80 : 2.0.0.1 "shop/web:"
//
// The marker is omitted because it changes with every commit. Session affinity records are omitted
// because rules write them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "nft/model/field.h"
#include "nft/model/kernel.h"
#include "nft/text/nft_text.h"
#include "proxy/desired/rows.h"
#include "proxy/ruleset/table.h"

namespace svcmap::proxy::test {

using Lines = std::vector<std::string>;

inline const nft::TableSpecs& Tables() {
  static const nft::TableSpecs tables = MakeTables({});
  return tables;
}

inline const nft::TableSpecs& PingTables() {
  static const nft::TableSpecs tables = MakeTables({.answer_ping = true});
  return tables;
}

inline const nft::TableSpecs& ResetTables() {
  static const nft::TableSpecs tables = MakeTables({.tcp_resets = TcpResets::kStrict});
  return tables;
}

// Tables with all sets that can have rows.
inline const nft::TableSpecs& FullTables() {
  static const nft::TableSpecs tables =
      MakeTables({.tcp_resets = TcpResets::kStrict, .answer_ping = true, .port_ranges = true});
  return tables;
}

inline std::string Text(const nft::ElementView& element) {
  const nft::SetSpec& set = FullTables()[Index(element.set.family)].sets[element.set.set];
  std::string text = set.name + " ";
  text += element.key_end.empty() ? nft::FieldsToText(set.key, element.key)
                                  : nft::RangesText(set.key, element.key, element.key_end);
  if (element.interval_end) text += " end";
  if (!element.data.empty()) text += " : " + nft::FieldsToText(set.data, element.data);
  if (!element.comment.empty()) text += " \"" + std::string(element.comment) + "\"";
  return text;
}

inline Lines Texts(const std::vector<Row>& rows) {
  Lines lines;
  for (const Row& row : rows) lines.push_back(Text(row.view()));
  return lines;
}

// Returns the operations of the transaction in order, for example "+ service-ips ...", "- endpoints
// 0x1 . 0".
inline Lines Operations(const nft::Transaction& transaction) {
  Lines lines;
  transaction.ForEachElement([&](nft::Verb verb, const nft::ElementView& element) {
    if (element.set.set == kMarker) return;
    lines.push_back((verb == nft::Verb::kAdd ? "+ " : "- ") + Text(element));
  });
  return lines;
}

// Returns the elements of a transaction in sorted order. The transaction must contain only
// additions.
inline Lines Additions(const nft::Transaction& transaction) {
  Lines lines;
  transaction.ForEachElement([&](nft::Verb, const nft::ElementView& element) {
    if (element.set.set != kMarker) lines.push_back(Text(element));
  });
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Calls `fn` with each element of a table.
template <typename Fn>
absl::Status ForEachElement(nft::Kernel& kernel, const nft::TableSpec& table, Fn&& fn) {
  for (uint8_t set = kMarker + 1; set < RowSetCount(table); ++set) {
    if (set == kAffinity) continue;
    const nft::SetRef ref{table.family, set};
    const absl::StatusOr<std::vector<nft::Element>> elements = kernel.ReadSet(ref);
    if (!elements.ok()) return elements.status();
    for (const nft::Element& e : *elements) {
      fn(nft::ElementView{ref, e.key, e.data, e.comment, e.interval_end, e.key_end});
    }
  }
  return absl::OkStatus();
}

// Returns the sorted content of both tables, or "no table" for a table that does not exist.
inline Lines Contents(nft::Kernel& kernel, const nft::TableSpecs& tables = Tables()) {
  Lines lines;
  for (const Family family : kFamilies) {
    if (!kernel.HasTable(family).value_or(false)) {
      lines.push_back("no table");
      continue;
    }
    const absl::Status read =
        ForEachElement(kernel, tables[Index(family)],
                       [&](const nft::ElementView& element) { lines.push_back(Text(element)); });
    if (!read.ok()) return {read.ToString()};
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace svcmap::proxy::test
