// Collects the findings about one object while the object is checked. Not thread-safe.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/state/objects.h"

namespace svcmap::api {

// An error about a field, with the wording of the Kubernetes API server.
struct FieldError {
  proxy::FindingCode code = proxy::FindingCode::kInvalid;
  std::string value;   // The value of the field, ready for display.
  std::string detail;  // "must be between 1 and 65535, inclusive"
};

// The functions below print `value` unchanged, so strings must be passed through Quote first.
FieldError Invalid(std::string value, std::string detail);
FieldError OutOfRange(int64_t value, int64_t first, int64_t last);
FieldError Required(std::string detail);
FieldError Unsupported(std::string_view value, std::initializer_list<std::string_view> supported);
FieldError Duplicate(std::string value, std::string detail);
FieldError TooMany(int count, int limit, std::string detail);

class Report {
 public:
  Report(proxy::Kind kind, std::string key) : kind_(kind), key_(std::move(key)) {}

  const std::string& key() const { return key_; }
  bool rejected() const { return rejected_; }

  // Rejects the object. Keeps only the first rejection and discards all warnings.
  void Reject(std::string field, FieldError error);

  // Reports a part of the object that has no effect. After kMaxWarnings warnings, further warnings
  // are only counted.
  void Warn(std::string field, FieldError error);

  // Returns the rejection, or the warnings in the order of the Warn calls. Call Take only once.
  std::vector<proxy::Finding> Take();

 private:
  proxy::Finding MakeFinding(proxy::Finding::Severity severity, std::string field,
                             FieldError error) const;

  proxy::Kind kind_;
  std::string key_;
  bool rejected_ = false;
  size_t dropped_ = 0;  // Number of warnings beyond kMaxWarnings.
  std::vector<proxy::Finding> findings_;
};

}  // namespace svcmap::api
