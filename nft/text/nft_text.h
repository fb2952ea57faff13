// Prints tables, transactions and elements as nft(8) would write them: for svcmapctl, logs, errors
// and tests. Nothing here is ever used to apply; the kernel gets netlink from nft/netlink.
//
// Where nft could not read a comment back (double quotes, control characters), '?' stands instead.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nft/model/kernel.h"
#include "nft/model/table.h"
#include "nft/model/transaction.h"

namespace svcmap::nft {

// The table without elements, byte for byte as `nft list table` of 1.0.6 prints it after a creation
// with `sizes` (TableCreation::sizes).
std::string TableText(const TableSpec& table, std::span<const uint32_t> sizes);

// One line per operation, in order:
//   delete table ip svcmap
//   add table ip svcmap # size: service-ips 1024, endpoints 4096
//   add element ip svcmap service-ips { 10.96.0.1 . tcp . 80 comment "ns/web:http" : 3.0.0.1 }
// A range start and the end right behind it share a line (10.96.0.0/16 or 10.96.0.1-10.96.0.9); a
// start alone reaches to the highest key, an end alone is a comment line.
std::string TransactionText(const TableSpecs& tables, const Transaction& transaction);

// One element, or one range, as the words of its line.
struct ElementWords {
  Verb verb = Verb::kAdd;
  SetRef set;
  std::string key;        // "10.96.0.1 . tcp . 80", "10.96.0.0/16"
  std::string comment;    // Without the quotes; may be empty.
  std::string data;       // "3.0.0.1"; empty for sets.
  bool end_only = false;  // Of a range whose start is not there; `key` is the first one behind it.
};

// Calls `fn` for each line that TransactionText has for elements, in order.
void ForEachElementWords(const TableSpecs& tables, const Transaction& transaction,
                         const std::function<void(const ElementWords&)>& fn);

// The elements in the order of their keys, one per line, as in a listing:
//   		elements = { 10.96.0.1 . tcp . 80 comment "ns/web:http" : 3.0.0.1,
//   			     10.96.0.2 . tcp . 80 : 3.0.0.2 }
// Empty for none.
std::string ElementsText(const SetSpec& set, std::vector<Element> elements);

// "10.96.0.1 . tcp . 80 in service-ips", for errors.
std::string ElementText(const SetSpec& set, const ElementView& element);

// The same for the element at `index` (ApplyResult::failed_element) of a transaction.
std::string ElementText(const TableSpecs& tables, const Transaction& transaction, size_t index);

}  // namespace svcmap::nft
