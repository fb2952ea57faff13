#include "nft/netlink/element_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace svcmap::nft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Bytes = std::vector<uint8_t>;

// Builds a netlink element message attribute by attribute.
class Message {
 public:
  explicit Message(const std::function<void(nlmsghdr*)>& fill, bool with_header = true)
      : buffer_(8192) {
    nlmsghdr* header = mnl_nlmsg_put_header(buffer_.data());
    header->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWSETELEM;
    if (with_header) mnl_nlmsg_put_extra_header(header, sizeof(nfgenmsg));
    fill(header);
  }

  nlmsghdr* header() { return reinterpret_cast<nlmsghdr*>(buffer_.data()); }

  // Parses a copy of exact size, so that a sanitizer detects reads past the end of the message.
  std::vector<Element> Read() {
    const size_t size = header()->nlmsg_len;
    const auto copy =
        std::make_unique<nlmsghdr[]>((size + sizeof(nlmsghdr) - 1) / sizeof(nlmsghdr));
    std::memcpy(copy.get(), buffer_.data(), size);
    std::vector<Element> elements;
    ReadElements(copy.get(), elements);
    return elements;
  }

 private:
  std::vector<uint8_t> buffer_;
};

// Creates NFTA_SET_ELEM_LIST_ELEMENTS with the attributes added by `fill`.
Message List(const std::function<void(nlmsghdr*)>& fill) {
  return Message([&](nlmsghdr* header) {
    nlattr* list = mnl_attr_nest_start(header, NFTA_SET_ELEM_LIST_ELEMENTS);
    fill(header);
    mnl_attr_nest_end(header, list);
  });
}

// Creates a list with one element.
Message One(const std::function<void(nlmsghdr*)>& fill) {
  return List([&](nlmsghdr* header) {
    nlattr* element = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
    fill(header);
    mnl_attr_nest_end(header, element);
  });
}

void PutValue(nlmsghdr* header, uint16_t type, const Bytes& value) {
  nlattr* nest = mnl_attr_nest_start(header, type);
  mnl_attr_put(header, NFTA_DATA_VALUE, value.size(), value.data());
  mnl_attr_nest_end(header, nest);
}

// Adds an element that has an expression with the given name and attributes.
void PutExpression(nlmsghdr* header, uint8_t key, const char* name,
                   const std::function<void(nlmsghdr*)>& data) {
  nlattr* element = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
  PutValue(header, NFTA_SET_ELEM_KEY, {key});
  nlattr* expression = mnl_attr_nest_start(header, NFTA_SET_ELEM_EXPR);
  mnl_attr_put_strz(header, NFTA_EXPR_NAME, name);
  nlattr* nest = mnl_attr_nest_start(header, NFTA_EXPR_DATA);
  data(header);
  mnl_attr_nest_end(header, nest);
  mnl_attr_nest_end(header, expression);
  mnl_attr_nest_end(header, element);
}

TEST(ElementReaderTest, CountersAreReadWhereThereAreAny) {
  const auto packets = [](uint64_t count) {
    return [count](nlmsghdr* header) {
      mnl_attr_put_u64(header, NFTA_COUNTER_BYTES, htobe64(99));
      mnl_attr_put_u64(header, NFTA_COUNTER_PACKETS, htobe64(count));
    };
  };
  Message message = List([&](nlmsghdr* header) {
    PutExpression(header, 1, "counter", packets(uint64_t{1} << 40));
    PutExpression(header, 2, "quota", packets(5));
    PutExpression(header, 3, "counter", [](nlmsghdr*) {});
    PutExpression(header, 4, "counter",
                  [](nlmsghdr* h) { mnl_attr_put_u32(h, NFTA_COUNTER_PACKETS, 7); });
    PutExpression(header, 5, "counter", packets(0));
    nlattr* bare = mnl_attr_nest_start(header, NFTA_LIST_ELEM);
    PutValue(header, NFTA_SET_ELEM_KEY, {6});
    mnl_attr_nest_end(header, bare);
  });
  std::vector<ElementCount> counts;
  ReadCounts(message.header(), counts);
  EXPECT_THAT(counts, ElementsAre(ElementCount{{1}, uint64_t{1} << 40}, ElementCount{{5}, 0}));
  EXPECT_EQ(message.Read().size(), 6u);  // All six entries are valid elements.
}

TEST(ElementReaderTest, OtherFlagsAndFlagsOfAnotherSizeAreNoEnd) {
  Message other = One([](nlmsghdr* header) {
    mnl_attr_put_u32(header, NFTA_SET_ELEM_FLAGS, htobe32(NFT_SET_ELEM_CATCHALL));
  });
  Message shorter = One([](nlmsghdr* header) { mnl_attr_put_u8(header, NFTA_SET_ELEM_FLAGS, 1); });
  EXPECT_FALSE(other.Read()[0].interval_end);
  EXPECT_FALSE(shorter.Read()[0].interval_end);
}

TEST(ElementReaderTest, UnknownAttributesAreSkipped) {
  Message message = One([](nlmsghdr* header) {
    mnl_attr_put_u64(header, NFTA_SET_ELEM_TIMEOUT, 1);
    mnl_attr_put(header, 0x3fff, 3, "abc");
    PutValue(header, NFTA_SET_ELEM_KEY, {1});
    mnl_attr_put(header, 200, 0, nullptr);
  });
  EXPECT_THAT(message.Read(), ElementsAre(Element{{1}, {}, "", false}));
}

TEST(ElementReaderTest, AVerdictIsNoData) {
  Message message = One([](nlmsghdr* header) {
    PutValue(header, NFTA_SET_ELEM_KEY, {1});
    nlattr* data = mnl_attr_nest_start(header, NFTA_SET_ELEM_DATA);
    nlattr* verdict = mnl_attr_nest_start(header, NFTA_DATA_VERDICT);
    mnl_attr_put_u32(header, NFTA_VERDICT_CODE, htobe32(1));
    mnl_attr_nest_end(header, verdict);
    mnl_attr_nest_end(header, data);
  });
  EXPECT_THAT(message.Read(), ElementsAre(Element{{1}, {}, "", false}));
}

TEST(ElementReaderTest, AMessageWithoutElementsGivesNone) {
  EXPECT_THAT(Message([](nlmsghdr*) {}).Read(), IsEmpty());
  EXPECT_THAT(Message([](nlmsghdr* header) {
                mnl_attr_put_strz(header, NFTA_SET_ELEM_LIST_TABLE, "svcmap");
              }).Read(),
              IsEmpty());
  EXPECT_THAT(List([](nlmsghdr*) {}).Read(), IsEmpty());
  EXPECT_THAT(Message([](nlmsghdr*) {}, /*with_header=*/false).Read(), IsEmpty());
}

TEST(ElementReaderTest, ElementsWithoutAKeyAreKeptEmpty) {
  EXPECT_THAT(One([](nlmsghdr*) {}).Read(), ElementsAre(Element{}));
}

TEST(ElementReaderTest, AKeyWithoutAValueIsEmpty) {
  Message message = One([](nlmsghdr* header) {
    mnl_attr_put(header, NFTA_SET_ELEM_KEY | NLA_F_NESTED, 0, nullptr);
    mnl_attr_put(header, NFTA_SET_ELEM_DATA | NLA_F_NESTED, 3, "abc");
  });
  EXPECT_THAT(message.Read(), ElementsAre(Element{}));
}

}  // namespace
}  // namespace svcmap::nft
