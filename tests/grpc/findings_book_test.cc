#include "api/intake/intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace svcmap::api {
namespace {

using proxy::Finding;
using proxy::Kind;
using ::testing::Each;
using ::testing::Field;
using ::testing::SizeIs;

Finding Rejection(const std::string& key, const std::string& field) {
  return {.kind = Kind::kService, .key = key, .field = field};
}

class FullFindingsBookTest : public ::testing::Test {
 protected:
  FullFindingsBookTest() {
    for (size_t i = 0; i < FindingsBook::kMaxObjects; ++i) {
      const std::string key = absl::StrCat("shop/s", i);
      book_.Set(Kind::kService, key, {Rejection(key, "before")});
    }
  }

  FindingsBook book_;
};

TEST_F(FullFindingsBookTest, DropsFindingsOfFurtherObjects) {
  book_.Set(Kind::kService, "shop/more", {Rejection("shop/more", "before")});
  book_.Add({Rejection("shop/more", "before")});
  EXPECT_THAT(book_.All(), SizeIs(FindingsBook::kMaxObjects));
}

TEST_F(FullFindingsBookTest, ReplacesFindingsOfAStoredObject) {
  book_.BeginSnapshot();
  for (size_t i = 0; i < FindingsBook::kMaxObjects; ++i) {
    const std::string key = absl::StrCat("shop/s", i);
    book_.Set(Kind::kService, key, {Rejection(key, "after")});
  }
  book_.EndSnapshot();
  EXPECT_THAT(book_.All(), SizeIs(FindingsBook::kMaxObjects));
  EXPECT_THAT(book_.All(), Each(Field(&Finding::field, "after")));
}

TEST_F(FullFindingsBookTest, AddsFindingsToAStoredObject) {
  book_.Add({Rejection("shop/more", "x"), Rejection("shop/s7", "added")});
  EXPECT_THAT(book_.All(), SizeIs(FindingsBook::kMaxObjects + 1));
}

}  // namespace
}  // namespace svcmap::api
