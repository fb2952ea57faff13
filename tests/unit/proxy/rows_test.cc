#include "proxy/desired/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/proxy/objects.h"
#include "tests/unit/proxy/row_text.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)

TEST(ServiceCommentTest, IsTheNameOfTheServicePort) {
  EXPECT_EQ(ServiceComment("shop/web", "http"), "shop/web:http");
  EXPECT_EQ(ServiceComment("shop/web", ""), "shop/web:");
}

TEST(ServiceCommentTest, FitsAndIsUniqueForEveryLength) {
  std::set<std::string> comments;
  for (size_t service = 1; service <= 63; ++service) {
    for (size_t port = 0; port <= 15; ++port) {
      const std::string comment = ServiceComment(
          std::string(63, 'n') + "/" + std::string(service, 's'), std::string(port, 'p'));
      EXPECT_LE(comment.size(), nft::Transaction::kMaxComment);
      EXPECT_TRUE(comments.insert(comment).second) << comment;
    }
  }
}

TEST(ServiceCommentTest, IsCutOnlyWhereItMustBe) {
  const std::string service = std::string(63, 'n') + "/" + std::string(58, 's');
  EXPECT_EQ(ServiceComment(service, "http"), service + ":http");  // The comment has 127 bytes.
  EXPECT_NE(ServiceComment(service, "https"), service + ":https");
}

}  // namespace
}  // namespace svcmap::proxy
