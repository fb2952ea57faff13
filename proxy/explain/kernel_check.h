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
  // `kernel` and `tables` must outlive the KernelCheck.
  KernelCheck(nft::Kernel& kernel, const nft::TableSpecs& tables, nft::Transaction desired,
              std::vector<Row> deciding);
  KernelCheck(const KernelCheck&) = delete;
  KernelCheck& operator=(const KernelCheck&) = delete;

  // Limits the comparison to the first differences of `earlier`, at most kMaxConfirmed.
  static constexpr size_t kMaxConfirmed = 1000;
  void Confirm(const KernelCheck& earlier);

  // Reads at least one element, and stops when `limit` has passed. Returns true after the last
  // element and after an error.
  bool Read(std::chrono::steady_clock::duration limit);

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

  nft::Kernel& kernel_;
  const nft::TableSpecs& tables_;
  const nft::Transaction desired_;
  const std::vector<Row> deciding_;
  std::vector<Item> items_;
  size_t next_ = 0;
  absl::Status status_;
  std::vector<std::string> differing_;  // Sets and keys of the elements that differ.
  std::vector<std::string> lines_;
};

}  // namespace svcmap::proxy
