// Result of one check. Keeps the first mismatch and ignores later mismatches, so a check does not
// need to stop at a mismatch. Accepts all values that support operator<<. Not thread-safe.
#pragma once

#include <sstream>
#include <string>

namespace svcmap::protocol {

class Verdict {
 public:
  // Expects that both values are equal. `what` describes the values, for example "Ack of batch 2:
  // outcome".
  template <typename Expected, typename Saw>
  void Equal(const std::string& what, const Expected& expected, const Saw& saw) {
    if (!(saw == expected)) Mismatch(what + " " + Text(expected), Text(saw));
  }
  // Expects that `saw` contains `part`.
  void Contains(const std::string& what, const std::string& part, const std::string& saw) {
    if (saw.find(part) == std::string::npos) Mismatch(what + " to contain \"" + part + "\"", saw);
  }
  // Expects that `holds` is true. Use That for expectations that the other methods do not support.
  void That(bool holds, const std::string& expected, const std::string& saw) {
    if (!holds) Mismatch(expected, saw);
  }

  // Adds a note to the output of a passed check.
  void Note(const std::string& note) { notes_ += (notes_.empty() ? "" : ", ") + note; }

  bool passed() const { return expected_.empty(); }
  const std::string& expected() const { return expected_; }
  const std::string& saw() const { return saw_; }
  const std::string& notes() const { return notes_; }

 private:
  template <typename T>
  static std::string Text(const T& value) {
    std::ostringstream text;
    text << value;
    return text.str();
  }
  void Mismatch(const std::string& expected, const std::string& saw) {
    if (!passed()) return;
    expected_ = expected;
    saw_ = saw.empty() ? "nothing" : saw;
  }

  std::string expected_;
  std::string saw_;
  std::string notes_;
};

}  // namespace svcmap::protocol
