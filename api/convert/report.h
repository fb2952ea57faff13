// Collects what there is to say about one object while it is checked. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proxy/state/objects.h"

namespace svcmap::api {

class Report {
 public:
  Report(proxy::Kind kind, std::string key) : kind_(kind), key_(std::move(key)) {}

  const std::string& key() const { return key_; }
  bool refused() const { return refused_; }

  // The object cannot be taken. Only the first refusal is kept, and all warnings are forgotten.
  // `value` is shown as it is: use Quote for strings, and nothing where the reason says it all.
  void Refuse(std::string field, std::string value, std::string reason);

  // A part of the object has no effect. After kMaxWarnings they are only counted.
  void Warn(std::string field, std::string value, std::string reason);

  // Everything said, once. One refusal, or the warnings in order.
  std::vector<proxy::Finding> Take();

 private:
  proxy::Kind kind_;
  std::string key_;
  bool refused_ = false;
  size_t dropped_ = 0;  // Warnings that were not kept.
  std::vector<proxy::Finding> findings_;
};

}  // namespace svcmap::api
