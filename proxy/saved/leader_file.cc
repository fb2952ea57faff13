#include "proxy/saved/leader_file.h"

#include <xxhash.h>

#include <array>
#include <memory>
#include <utility>

#include "nft/base/status.h"
#include "svcmap/saved/v1/saved.pb.h"

namespace svcmap::proxy {
namespace {

constexpr size_t kMaxLeaderBytes = 4096;

uint64_t ChecksumOf(saved::v1::Leader leader) {
  leader.clear_checksum();
  const std::string bytes = leader.SerializeAsString();
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

absl::StatusOr<Leader> LeaderFile::Load() const {
  const absl::StatusOr<std::unique_ptr<File>> file = files_.Open(Path(kName), OpenMode::kRead);
  if (absl::IsNotFound(file.status())) return Leader();
  if (!file.ok()) return file.status();
  std::array<char, kMaxLeaderBytes> bytes;
  const absl::StatusOr<size_t> size = (*file)->Read(0, bytes);
  if (!size.ok()) return Annotate(size.status(), "read " + Path(kName));
  saved::v1::Leader message;
  if (*size == bytes.size() || !message.ParseFromArray(bytes.data(), static_cast<int>(*size)) ||
      message.checksum() != ChecksumOf(message)) {
    return absl::DataLossError(Path(kName) + " is damaged");
  }
  return Leader{message.epoch(), message.name(), message.instance()};
}

absl::Status LeaderFile::Save(const Leader& leader) const {
  saved::v1::Leader message;
  message.set_epoch(leader.epoch);
  message.set_name(leader.name);
  message.set_instance(leader.instance);
  message.set_checksum(ChecksumOf(message));
  const absl::StatusOr<std::unique_ptr<File>> file = files_.Open(Path(kNewName), OpenMode::kCreate);
  if (!file.ok()) return file.status();
  for (const absl::Status& status :
       {(*file)->Append(message.SerializeAsString()), (*file)->Sync()}) {
    if (!status.ok()) return Annotate(status, "write " + Path(kNewName));
  }
  if (absl::Status status = files_.Rename(Path(kNewName), Path(kName)); !status.ok()) {
    return status;
  }
  return files_.SyncFolder(folder_);
}

}  // namespace svcmap::proxy
