// Standard output that remembers why writing failed: a closed pipe is nobody's fault, a full disk
// must be told.
#pragma once

#include <streambuf>
#include <vector>

namespace svcmap::api {

class FdOutput : public std::streambuf {
 public:
  explicit FdOutput(int fd);  // Does not own it.

  int error() const { return error_; }  // errno of the first failed write; 0: none failed.

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  const int fd_;
  std::vector<char> buffer_;
  int error_ = 0;
};

}  // namespace svcmap::api
