// Stores the controller session with the highest epoch in FOLDER/leader, so that after a restart
// the agent still rejects controllers with a lower epoch. Writes are rare and replace the complete
// file. The caller waits for the disk.
//
// Only one thread may call a method at a time.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proxy/saved/files.h"
#include "proxy/saved/leader.h"

namespace svcmap::proxy {

class LeaderFile {
 public:
  static constexpr char kName[] = "leader";
  static constexpr char kNewName[] = "leader.new";  // Temporary name of a new file.

  LeaderFile(std::string folder, Files& files) : folder_(std::move(folder)), files_(files) {}

  // Returns the last saved leader, or a Leader with epoch 0 if none was saved. Returns kDataLoss if
  // the content is invalid.
  absl::StatusOr<Leader> Load() const;

  // Returns OK when the file is on disk. After an error or a crash, the old file may still exist.
  absl::Status Save(const Leader& leader) const;

 private:
  std::string Path(const char* name) const { return folder_ + "/" + name; }

  std::string folder_;
  Files& files_;
};

}  // namespace svcmap::proxy
