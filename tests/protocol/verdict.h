// What one check saw. The first thing that is not as the protocol says is what counts, so that a
// check goes on without asking after each step: what follows a mismatch is not looked at any more.
// Values of any kind that prints. For one thread at a time.
#pragma once

#include <sstream>
#include <string>

namespace svcmap::protocol {

class Verdict {
 public:
  // "Ack of batch 2: outcome", COMMITTED, ...
  template <typename Expected, typename Saw>
  void Equal(const std::string& what, const Expected& expected, const Saw& saw) {
    if (!(saw == expected)) Mismatch(what + " " + Text(expected), Text(saw));
  }
  // `saw` has `part` in it.
  void Contains(const std::string& what, const std::string& part, const std::string& saw) {
    if (saw.find(part) == std::string::npos) Mismatch(what + " to say \"" + part + "\"", saw);
  }
  // For all else.
  void That(bool holds, const std::string& expected, const std::string& saw) {
    if (!holds) Mismatch(expected, saw);
  }

  // A figure worth printing.
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
