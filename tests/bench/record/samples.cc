#include "tests/bench/record/samples.h"

#include <cerrno>

#include "nft/base/status.h"

namespace svcmap::bench {

absl::StatusOr<std::unique_ptr<Samples>> Samples::Open(const std::string& path) {
  if (path.empty()) return std::unique_ptr<Samples>(new Samples(nullptr));
  std::FILE* file = std::fopen(path.c_str(), "a");
  if (file == nullptr) return ErrnoStatus(errno, "open " + path + " for samples");
  // Seek to the end first, because the initial position in a file opened for appending is
  // implementation-defined.
  if (std::fseek(file, 0, SEEK_END) == 0 && std::ftell(file) == 0) {
    std::fprintf(file, "workload,shape,opponent,what,metric,round,value\n");
  }
  return std::unique_ptr<Samples>(new Samples(file));
}

Samples::~Samples() {
  if (file_ != nullptr) std::fclose(file_);
}

void Samples::Add(const Sample& sample) {
  if (file_ == nullptr) return;
  std::fprintf(file_, "%s,%s,%s,%s,%s,%d,%.9g\n", sample.workload.c_str(), sample.shape.c_str(),
               sample.opponent.c_str(), sample.what.c_str(), sample.metric.c_str(), sample.round,
               sample.value);
  std::fflush(file_);  // Flush the file, so that no values are lost if the run is aborted.
}

void Samples::AddOverLimit(Sample sample, double limit_seconds) {
  sample.metric = "over-limit";
  sample.value = limit_seconds;
  Add(sample);
}

void Samples::AddFailed(Sample sample, const absl::Status& why) {
  std::fprintf(stderr, "svcmap-bench: %s %s %s %s: %s\n", sample.workload.c_str(),
               sample.shape.c_str(), sample.opponent.c_str(), sample.what.c_str(),
               std::string(why.message()).c_str());
  sample.metric = "failed";
  sample.value = 1;
  Add(sample);
}

}  // namespace svcmap::bench
