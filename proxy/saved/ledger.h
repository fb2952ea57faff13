// Accumulates the records of all frames: the last version of each object, the committed rows, and
// the open attempt. The template parameter `Keep` determines how a record is stored: as a value
// when the state is loaded, or as an ordinal when the file is compacted.
//
//   struct Keep {
//     using Object = ..., Service = ..., NodeRows = ..., Tables = ...;
//     std::optional<Object> operator()(saved::v1::Object& record);
//     ...
//   };
//
// Ledger calls Keep's operator() once per record, in order. The operator returns the value to
// store, or nullopt if the record is invalid.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "proxy/saved/records.h"

namespace svcmap::proxy {

// 128-bit digest of a key. Collisions of different keys are not expected.
struct KeyDigest {
  uint64_t low = 0, high = 0;

  friend bool operator==(const KeyDigest&, const KeyDigest&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const KeyDigest& digest) {
    return H::combine(std::move(state), digest.low);
  }
};
KeyDigest DigestOf(uint32_t kind, std::string_view key);

// Values by key, in order of the first insertion.
template <typename T>
class Keyed {
 public:
  void Put(const KeyDigest& key, T value, size_t bytes) {
    bytes_ += bytes;
    const auto [found, is_new] = places_.try_emplace(key, static_cast<uint32_t>(slots_.size()));
    if (is_new) {
      slots_.push_back({std::move(value), bytes});
      return;
    }
    Slot& slot = slots_[found->second];
    bytes_ -= slot.bytes;
    slot = {std::move(value), bytes};
  }
  void Erase(const KeyDigest& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    Slot& slot = slots_[found->second];
    bytes_ -= slot.bytes;
    slot = {};
    places_.erase(found);
  }
  void Clear() { *this = Keyed(); }
  size_t bytes() const { return bytes_; }  // Size of the records of all values.

  template <typename Fn>
  void ForEach(Fn&& fn) {
    for (Slot& slot : slots_) {
      if (slot.value) fn(*slot.value);
    }
  }
  size_t size() const { return places_.size(); }

 private:
  struct Slot {
    std::optional<T> value;
    size_t bytes = 0;
  };

  absl::flat_hash_map<KeyDigest, uint32_t> places_;
  std::vector<Slot> slots_;
  size_t bytes_ = 0;
};

template <typename Keep>
class Ledger {
 public:
  template <typename T>
  struct Kept {
    T value;
    size_t bytes = 0;
  };
  struct Part {
    KeyDigest key;
    bool gone = false;  // True if the Service has no more rows.
    Kept<typename Keep::Service> service;
  };
  struct Attempt {
    Marker marker;
    bool whole = false;
    // True if the attempt was written completely. If false, the attempt was never sent to the
    // kernel.
    bool asked = false;
    std::vector<Part> services;
    std::optional<Kept<typename Keep::NodeRows>> node_rows;
    std::optional<Kept<typename Keep::Tables>> tables;
  };

  // Applies the records of `frame`. Returns an error that describes an invalid record.
  absl::Status Apply(saved::v1::Frame& frame) {
    if (frame.has_outcome() && !Settle(frame.outcome())) {
      return absl::DataLossError("outcome without an attempt");
    }
    if (frame.has_generation()) generation_ = frame.generation().id();
    if (frame.has_partial()) partial_ = frame.partial();
    RaiseTo(frame.next_numbers(), next_numbers_);
    for (saved::v1::Object& object : *frame.mutable_objects()) {
      if (!AddObject(object)) return absl::DataLossError("object of unknown kind");
    }
    if (frame.has_begin()) {
      attempt_.emplace();
      attempt_->marker = FromMessage(frame.begin().marker());
      attempt_->whole = frame.begin().whole();
    }
    const bool has_parts =
        frame.services_size() > 0 || frame.has_node_rows() || frame.has_tables() || frame.asked();
    if (!has_parts) return absl::OkStatus();
    if (!attempt_ || attempt_->asked) return absl::DataLossError("rows outside of an attempt");
    for (saved::v1::Service& service : *frame.mutable_services()) {
      if (!AddService(service)) return absl::DataLossError("invalid Service rows");
    }
    if (frame.has_node_rows() && !Take(*frame.mutable_node_rows(), attempt_->node_rows)) {
      return absl::DataLossError("invalid node rows");
    }
    if (frame.has_tables() && !Take(*frame.mutable_tables(), attempt_->tables)) {
      return absl::DataLossError("invalid tables");
    }
    if (frame.asked()) attempt_->asked = true;
    return absl::OkStatus();
  }

  Keyed<typename Keep::Object>& objects() { return objects_; }
  Keyed<typename Keep::Service>& services() { return services_; }
  std::optional<Kept<typename Keep::NodeRows>>& node_rows() { return node_rows_; }
  std::optional<Kept<typename Keep::Tables>>& tables() { return tables_; }
  const std::optional<Marker>& marker() const { return marker_; }
  const std::optional<uint32_t>& generation() const { return generation_; }
  bool partial() const { return partial_; }
  const NextNumbers& next_numbers() const { return next_numbers_; }
  // The open attempt, which may have been sent to the kernel.
  std::optional<Attempt>& attempt() { return attempt_; }
  // Size of all records, without the open attempt.
  uint64_t live_bytes() const {
    return objects_.bytes() + services_.bytes() + (node_rows_ ? node_rows_->bytes : 0) +
           (tables_ ? tables_->bytes : 0);
  }
  Keep& keep() { return keep_; }

 private:
  static size_t BytesOf(const google::protobuf::Message& record) {
    constexpr size_t kTagAndLength = 3;
    return record.ByteSizeLong() + kTagAndLength;
  }

  bool AddObject(saved::v1::Object& object) {
    const KeyDigest key = DigestOf(object.kind(), object.key());
    const bool removed = !object.has_message();
    const size_t bytes = BytesOf(object);
    auto kept = keep_(object);
    if (!kept) return false;
    if (removed) {
      objects_.Erase(key);
    } else {
      objects_.Put(key, *std::move(kept), bytes);
    }
    return true;
  }

  bool AddService(saved::v1::Service& service) {
    const KeyDigest key = DigestOf(0, service.key());
    const bool gone = service.cluster_ips().empty() && service.ports().empty();
    const size_t bytes = BytesOf(service);
    auto kept = keep_(service);
    if (!kept) return false;
    attempt_->services.push_back({key, gone, {*std::move(kept), bytes}});
    return true;
  }

  template <typename Record, typename T>
  bool Take(Record& record, std::optional<Kept<T>>& into) {
    const size_t bytes = BytesOf(record);
    auto kept = keep_(record);
    if (!kept) return false;
    into.emplace(Kept<T>{*std::move(kept), bytes});
    return true;
  }

  bool Settle(const saved::v1::Outcome& outcome) {
    if (!attempt_ || !attempt_->asked) return false;
    generation_.reset();
    if (outcome.has_generation()) generation_ = outcome.generation();
    if (outcome.committed()) Commit(*attempt_);
    attempt_.reset();
    return true;
  }

  void Commit(Attempt& attempt) {
    marker_ = attempt.marker;
    if (attempt.whole) {
      services_.Clear();
      node_rows_.reset();
      tables_.reset();
    }
    for (Part& part : attempt.services) {
      if (part.gone) {
        services_.Erase(part.key);
      } else {
        services_.Put(part.key, std::move(part.service.value), part.service.bytes);
      }
    }
    if (attempt.node_rows) node_rows_ = std::move(attempt.node_rows);
    if (attempt.tables) tables_ = std::move(attempt.tables);
  }

  Keep keep_;
  Keyed<typename Keep::Object> objects_;
  Keyed<typename Keep::Service> services_;
  std::optional<Kept<typename Keep::NodeRows>> node_rows_;
  std::optional<Kept<typename Keep::Tables>> tables_;
  std::optional<Marker> marker_;
  std::optional<uint32_t> generation_;
  bool partial_ = false;
  NextNumbers next_numbers_ = {};
  std::optional<Attempt> attempt_;
};

}  // namespace svcmap::proxy
