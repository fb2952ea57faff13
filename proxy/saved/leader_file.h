// The controller with the highest epoch that ever came, in FOLDER/leader, so that one that was
// deposed while the agent was down is still refused. Written rarely, whole, and waited for.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/saved/files.h"

namespace svcmap::proxy {

struct Leader {
  uint64_t epoch = 0;  // 0: none came with one.
  std::string name;
  std::string instance;
  friend bool operator==(const Leader&, const Leader&) = default;
};

class LeaderFile {
 public:
  static constexpr char kName[] = "leader";
  static constexpr char kNewName[] = "leader.new";  // Being written.

  LeaderFile(std::string folder, Files& files) : folder_(std::move(folder)), files_(files) {}

  // What was saved last; a Leader of epoch 0 if nothing was. kDataLoss for a file that is not what
  // Save writes.
  absl::StatusOr<Leader> Load() const;

  // On disk when it returns OK; else the old one stays, or is there again after a crash.
  absl::Status Save(const Leader& leader) const;

 private:
  std::string Path(const char* name) const { return folder_ + "/" + name; }

  std::string folder_;
  Files& files_;
};

}  // namespace svcmap::proxy
