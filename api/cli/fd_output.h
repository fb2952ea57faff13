// Output stream buffer that records why a write failed. svcmapctl ignores a closed pipe (EPIPE) but
// reports other errors, such as a full disk. A flush of an empty buffer fails with EPIPE if the
// reader has closed the pipe.
#pragma once

#include <streambuf>
#include <vector>

namespace svcmap::api {

class FdOutput : public std::streambuf {
 public:
  explicit FdOutput(int fd);  // Does not take ownership of `fd`.

  int error() const { return error_; }  // errno of the first failed write, or 0.

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  const int fd_;
  std::vector<char> buffer_;
  int error_ = 0;
};

}  // namespace svcmap::api
