// Tests of the fake API server that the tests of svcmap-kube use.
#include "tests/support/api_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include "tests/support/kube_encoding.h"
#include "tests/support/status_matchers.h"

namespace svcmap::testing {
namespace {

using ::testing::StartsWith;

constexpr char kServices[] =
    "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"
    "&fieldSelector=spec.clusterIP%21%3DNone";

class ApiServerTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(server_, FakeApiServer::Start()); }

  httplib::Result Get(const std::string& path, const std::string& accept = "application/json") {
    httplib::SSLClient client("127.0.0.1", server_->port());
    client.enable_server_certificate_verification(false);
    client.set_read_timeout(10);
    return client.Get(path, {{"Accept", accept}});
  }

  std::unique_ptr<FakeApiServer> server_;
};

// The expected bytes follow from the field numbers of the Kubernetes API.
TEST_F(ApiServerTest, ProtobufHasThePublicFieldNumbers) {
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

TEST_F(ApiServerTest, FaultsStrikeAsOftenAsTheyAreReported) {
  server_->Fail({.code = 429, .retry_after = 3, .times = 1});
  const httplib::Result rejected = Get(kServices);
  ASSERT_TRUE(rejected);
  EXPECT_EQ(rejected->status, 429);
  EXPECT_EQ(rejected->get_header_value("Retry-After"), "3");
  EXPECT_EQ(Get(kServices)->status, 200);

  server_->Fail({.what = Fault::What::kNoProtobuf});
  EXPECT_EQ(Get(kServices, "application/vnd.kubernetes.protobuf,application/json")->status, 406);
  EXPECT_EQ(Get(kServices)->status, 200);
  server_->Heal();
  const httplib::Result protobuf =
      Get(kServices, "application/vnd.kubernetes.protobuf,application/json");
  EXPECT_EQ(protobuf->get_header_value("Content-Type"), "application/vnd.kubernetes.protobuf");

  server_->RequireToken("secret");
  EXPECT_EQ(Get(kServices)->status, 401);
}

}  // namespace
}  // namespace svcmap::testing
