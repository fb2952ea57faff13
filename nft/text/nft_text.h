// Prints transactions and elements in nft(8) syntax for svcmapctl, logs and errors.
// svcmap programs the kernel with netlink messages (nft/netlink), never with this text.
//
// Characters that nft cannot read in a comment (double quotes, control characters) are printed as
// '?'.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "nft/model/kernel.h"
#include "nft/model/table.h"
#include "nft/model/transaction.h"

namespace svcmap::nft {

// Prints one line per operation, in order:
//
//     delete table ip svcmap
//     add table ip svcmap
//     add element ip svcmap service-ips { 10.96.0.1 . tcp . 80 comment "ns/web:http" : 3.0.0.1 }
//
// A range start and the following range end share a line (10.96.0.0/16 or 10.96.0.1-10.96.0.9). A
// start without an end extends to the highest key. An end without a start is printed as a comment
// line.
std::string TransactionText(const TableSpecs& tables, const Transaction& transaction);

// The parts of one printed line: a single element or a range.
struct ElementParts {
  Verb verb = Verb::kAdd;
  SetRef set;
  std::string key;      // "10.96.0.1 . tcp . 80", "10.96.0.0/16"
  std::string comment;  // Comment without quotation marks. May be empty.
  std::string data;     // "3.0.0.1", or empty for a set
  // True if a range end has no start. `key` is then the first key after the range.
  bool end_only = false;
};

// Calls `fn` for each element line of TransactionText, in order.
void ForEachElementParts(const TableSpecs& tables, const Transaction& transaction,
                         const std::function<void(const ElementParts&)>& fn);

// Print the key of a range: "10.96.0.0/16", "10.96.0.1-10.96.0.9" or "10.96.0.1".

// Prints the keys from `start` (inclusive) to `end` (exclusive). If `end` is empty, the range ends
// at the highest key. An address range that is a prefix is printed as a prefix. All svcmap interval
// sets with start and end elements have a single field.
std::string RangeText(std::span<const Field> fields, std::span<const uint8_t> start,
                      std::span<const uint8_t> end);

// Prints a key with several fields from `first` to `last`, both inclusive. Each field is printed as
// a separate range: "198.51.100.1 . tcp . 80 . 10.0.0.0/8".
std::string RangesText(std::span<const Field> fields, std::span<const uint8_t> first,
                       std::span<const uint8_t> last);

// Returns the element's text for errors, such as "10.96.0.1 . tcp . 80 in service-ips".
std::string ElementText(const SetSpec& set, const ElementView& element);

// Returns the text of the element at `index` (ApplyResult::failed_element) of a transaction.
std::string ElementText(const TableSpecs& tables, const Transaction& transaction, size_t index);

}  // namespace svcmap::nft
