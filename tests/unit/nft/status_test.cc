#include "nft/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace svcmap {
namespace {

// The reconciler retries the commit after these errors. It must not conclude that the kernel
// rejects a Service.
TEST(StatusTest, ExhaustedResourcesHaveOneCode) {
  for (const int error : {EMFILE, ENOMEM, ENOBUFS, ENOSPC, EMSGSIZE}) {
    EXPECT_EQ(ErrnoStatus(error, "send").code(), absl::StatusCode::kResourceExhausted) << error;
  }
}

}  // namespace
}  // namespace svcmap
