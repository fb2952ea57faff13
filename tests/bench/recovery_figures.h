// Figures: every single one in a file, and what stands for many of them in a table.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace svcmap::bench {

inline double Milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

class Csv {
 public:
  // Nothing is written to an empty path.
  absl::Status Open(const std::string& path) {
    if (path.empty()) return absl::OkStatus();
    file_ = std::fopen(path.c_str(), "w");
    if (file_ == nullptr) return absl::InvalidArgumentError("cannot write " + path);
    std::fprintf(file_, "command,shape,what,figure,value\n");
    return absl::OkStatus();
  }
  ~Csv() {
    if (file_ != nullptr) std::fclose(file_);
  }

  void Add(const std::string& command, const std::string& shape, const std::string& what,
           const std::string& figure, double value) {
    if (file_ == nullptr) return;
    std::fprintf(file_, "%s,%s,%s,%s,%.3f\n", command.c_str(), shape.c_str(), what.c_str(),
                 figure.c_str(), value);
    std::fflush(file_);
  }

 private:
  std::FILE* file_ = nullptr;
};

// Figures of one kind; 0 stands for none.
class Samples {
 public:
  void Add(double value) {
    values_.insert(std::upper_bound(values_.begin(), values_.end(), value), value);
  }

  size_t count() const { return values_.size(); }
  double Share(double share) const {
    if (values_.empty()) return 0;
    return values_[std::min(values_.size() - 1,
                            static_cast<size_t>(share * static_cast<double>(values_.size())))];
  }
  double median() const { return Share(0.5); }
  double worst() const { return Share(1); }

 private:
  std::vector<double> values_;  // In order.
};

}  // namespace svcmap::bench
