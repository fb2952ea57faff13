// Output stream buffer that records why a write failed. svcmapctl ignores a closed pipe (EPIPE) but
// reports other errors, such as a full disk. A flush of an empty buffer fails with EPIPE if the
// reader has closed the pipe.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <streambuf>
#include <vector>

namespace svcmap::api {

class FdOutput : public std::streambuf {
 public:
  // Does not take ownership of `fd`.
  explicit FdOutput(int fd) : fd_(fd), buffer_(64 * 1024) {
    setp(buffer_.data(), buffer_.data() + buffer_.size());
  }

  int error() const { return error_; }  // errno of the first failed write, or 0.

 protected:
  int_type overflow(int_type c) override {
    if (sync() != 0) return traits_type::eof();
    if (!traits_type::eq_int_type(c, traits_type::eof())) sputc(traits_type::to_char_type(c));
    return traits_type::not_eof(c);
  }

  int sync() override {
    const char* data = pbase();
    pollfd output = {.fd = fd_, .events = 0, .revents = 0};
    if (error_ == 0 && data == pptr() && poll(&output, 1, /*timeout=*/0) == 1 &&
        (output.revents & (POLLERR | POLLHUP)) != 0) {
      error_ = EPIPE;
    }
    while (error_ == 0 && data < pptr()) {
      const ssize_t written = write(fd_, data, static_cast<size_t>(pptr() - data));
      if (written >= 0) {
        data += written;
      } else if (errno != EINTR) {
        error_ = errno;
      }
    }
    setp(buffer_.data(), buffer_.data() + buffer_.size());
    return error_ == 0 ? 0 : -1;
  }

 private:
  const int fd_;
  std::vector<char> buffer_;
  int error_ = 0;
};

}  // namespace svcmap::api
