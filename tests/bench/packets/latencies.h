// What was measured of many packets.
#pragma once

#include <cstdint>
#include <vector>

namespace svcmap::bench {

class Latencies {
 public:
  void Add(double microseconds);
  void AddFailure() { ++failed_; }

  // Of what was tried; those that failed have no latency, and are counted here and nowhere else.
  int64_t count() const { return static_cast<int64_t>(values_.size()) + failed_; }
  int64_t failed() const { return failed_; }

  // The smallest value that is not exceeded by this share of those that succeeded; 0 if none did.
  double Percentile(double share) const;
  double max() const { return Percentile(1); }

 private:
  mutable std::vector<double> values_;
  mutable bool sorted_ = true;
  int64_t failed_ = 0;
};

}  // namespace svcmap::bench
