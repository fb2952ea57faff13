// Tests of the encoding of the fake API server that the tests of svcmap-kube use.
#include "tests/support/kube_encoding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/builders.h"

namespace svcmap::testing {
namespace {

using ::testing::StartsWith;

// The expected bytes follow from the field numbers of the Kubernetes API.
TEST(KubeEncodingTest, ProtobufHasThePublicFieldNumbers) {
  v1::Object cidr;
  cidr.mutable_service_cidr()->mutable_metadata()->set_name("k");
  cidr.mutable_service_cidr()->mutable_spec()->add_cidrs("10.0.0.0/8");
  const std::string item = EncodeItem(Encoding::kProtobuf, cidr, 7);
  const std::string body = EncodeObject(Encoding::kProtobuf, Collection::kServiceCidrs, item);
  const std::string magic("k8s\0", 4);
  const std::string type = "\x0a\x14networking.k8s.io/v1\x12\x0bServiceCIDR";
  EXPECT_THAT(body, StartsWith(magic + "\x0a" + static_cast<char>(type.size()) + type));
  // metadata starts with the fields name, generateName, namespace and selfLink.
  EXPECT_THAT(item.substr(item.find("\x0a\x01k")),
              StartsWith(std::string("\x0a\x01k\x12\x00\x1a\x00\x22\x00\x2a", 10)));
  EXPECT_NE(item.find("\x32\x01"
                      "7"),
            std::string::npos);  // metadata contains the field resourceVersion.
  EXPECT_NE(item.find("\x12\x0c\x0a\x0a"
                      "10.0.0.0/8"),
            std::string::npos);  // spec contains the field cidrs.
  const std::string event = EncodeEvent(Encoding::kProtobuf, "ADDED", "o");
  EXPECT_EQ(event, std::string("\x00\x00\x00\x0c\x0a\x05"
                               "ADDED\x12\x03\x0a\x01o",
                               16));
}

}  // namespace
}  // namespace svcmap::testing
