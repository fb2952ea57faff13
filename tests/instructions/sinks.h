// A kernel and a disk that accept all data and store nothing, so that tests measure only the core.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nft/model/kernel.h"
#include "nft/netlink/batch.h"
#include "proxy/saved/files.h"

namespace svcmap::instructions {

// A kernel that builds the netlink batch of each transaction like the real kernel interface, and
// commits the transaction.
class SinkKernel final : public nft::Kernel {
 public:
  explicit SinkKernel(nft::TableSpecs tables) : tables_(std::move(tables)) {}

  nft::ApplyResult Apply(const nft::Transaction& transaction) override {
    nft::Batch batch(tables_, sequence_);
    batch.Append(transaction);
    batch.Finish();
    sequence_ = batch.next_sequence();
    return {};
  }
  absl::StatusOr<bool> HasTable(Family) override { return false; }
  absl::StatusOr<std::vector<nft::Element>> ReadSet(nft::SetRef) override {
    return std::vector<nft::Element>();
  }
  absl::StatusOr<std::vector<std::optional<nft::Element>>> ReadElements(
      nft::SetRef, std::span<const nft::FieldBytes> keys) override {
    return std::vector<std::optional<nft::Element>>(keys.size());
  }
  absl::StatusOr<std::optional<nft::TableContent>> ReadTable(Family) override {
    return std::optional<nft::TableContent>();
  }
  absl::StatusOr<uint32_t> Generation() override { return 1; }
  absl::StatusOr<nft::TableContent> ReferenceContent(const nft::TableSpec&) override {
    return nft::TableContent();
  }

 private:
  const nft::TableSpecs tables_;
  uint32_t sequence_ = 1;
};

class SinkFile final : public proxy::File {
 public:
  absl::StatusOr<size_t> Read(uint64_t, std::span<char>) override { return 0; }
  absl::Status Append(std::string_view bytes) override {
    size_ += bytes.size();
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::StatusOr<uint64_t> Size() override { return size_; }
  absl::Status Truncate(uint64_t size) override {
    size_ = size;
    return absl::OkStatus();
  }
  absl::StatusOr<bool> HasName() override { return true; }
  absl::Status Lock() override { return absl::OkStatus(); }

 private:
  uint64_t size_ = 0;
};

class SinkFiles final : public proxy::Files {
 public:
  absl::StatusOr<std::unique_ptr<proxy::File>> Open(const std::string&,
                                                    proxy::OpenMode mode) override {
    if (mode == proxy::OpenMode::kUpdate || mode == proxy::OpenMode::kRead) {
      return absl::NotFoundError("nothing was kept");
    }
    return std::make_unique<SinkFile>();
  }
  absl::Status Rename(const std::string&, const std::string&) override { return absl::OkStatus(); }
  absl::Status Remove(const std::string&) override { return absl::OkStatus(); }
  absl::Status MakeFolder(const std::string&) override { return absl::OkStatus(); }
  absl::Status CheckFolder(const std::string&) override { return absl::OkStatus(); }
  absl::Status SyncFolder(const std::string&) override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<std::string>> List(const std::string&) override {
    return std::vector<std::string>();
  }
};

}  // namespace svcmap::instructions
