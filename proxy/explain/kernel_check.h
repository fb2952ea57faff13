// Compares the kernel with the desired state for one destination. Reads single elements, so the
// cost depends on the number of endpoints of one Service port, not on the size of the maps.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nft/model/kernel.h"
#include "nft/model/table.h"
#include "proxy/desired/rows.h"

namespace svcmap::proxy {

// Returns the elements that can match a packet to this address and port. Only the keys and sets of
// the returned rows are valid.
std::vector<Row> DecidingRows(const IpAddress& address, Protocol protocol, uint16_t port);

// Each call of Read() reads a part of the elements. An element of `desired` differs if the element
// is missing in the kernel or has a different value. An element of `deciding` differs if the kernel
// contains the element but `desired` does not. Interval sets and comments are not compared.
class KernelCheck {
 public:
  // `tables` must outlive the KernelCheck.
  KernelCheck(const nft::TableSpecs& tables, nft::Transaction desired, std::vector<Row> deciding);
  KernelCheck(const KernelCheck&) = delete;
  KernelCheck& operator=(const KernelCheck&) = delete;

  // Reads at least one element, and stops when `limit` has passed. Returns true after the last
  // element and after an error.
  bool Read(nft::Kernel& kernel, std::chrono::steady_clock::duration limit);

  // Returns one line per difference found, or the error of the kernel.
  absl::StatusOr<std::vector<std::string>> differences() const;
  size_t elements() const { return items_.size(); }

 private:
  struct Item {
    nft::ElementView element;  // Refers to desired_ or deciding_.
    bool is_desired = false;
  };
  const nft::SetSpec& SetOf(const nft::ElementView& element) const;
  void Compare(const Item& item, const std::optional<nft::Element>& found);

  const nft::TableSpecs& tables_;
  const nft::Transaction desired_;
  const std::vector<Row> deciding_;
  std::vector<Item> items_;
  size_t next_ = 0;
  absl::Status status_;
  std::vector<std::string> lines_;
};

}  // namespace svcmap::proxy
