#include "nft/netlink/answer.h"

#include <gtest/gtest.h>
#include <libmnl/libmnl.h>

#include <cerrno>
#include <cstring>
#include <limits>

namespace svcmap::nft {
namespace {

class AnErrorMessage {
 public:
  explicit AnErrorMessage(int error) {
    message_ = mnl_nlmsg_put_header(buffer_);
    message_->nlmsg_type = NLMSG_ERROR;
    nlmsgerr body{};
    body.error = error;
    std::memcpy(mnl_nlmsg_put_extra_header(message_, sizeof(body)), &body, sizeof(body));
  }
  const nlmsghdr* get() const { return message_; }

 private:
  alignas(nlmsghdr) char buffer_[128] = {};
  nlmsghdr* message_;
};

TEST(AnswerTest, ErrorsAreNegativeErrnos) {
  EXPECT_EQ(ReadAnswer(AnErrorMessage(0).get()).error, 0);
  EXPECT_EQ(ReadAnswer(AnErrorMessage(-ENOENT).get()).error, ENOENT);
  EXPECT_EQ(ErrorIn(AnErrorMessage(-ENOENT).get()), ENOENT);
}

TEST(AnswerTest, WhatIsNoErrnoIsABadMessage) {
  for (const int error : {1, -4096, std::numeric_limits<int>::min()}) {
    EXPECT_EQ(ReadAnswer(AnErrorMessage(error).get()).error, EBADMSG) << error;
    EXPECT_EQ(ErrorIn(AnErrorMessage(error).get()), EBADMSG) << error;
  }
}

}  // namespace
}  // namespace svcmap::nft
