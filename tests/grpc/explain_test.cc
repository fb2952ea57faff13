// Tests of the Explain call, including its comparison with the kernel's elements.
#include <gmock/gmock.h>

#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::AService;
using svcmap::testing::ASlice;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class ExplainRpcTest : public ServerTest {
 protected:
  grpc::Status Explain(const std::string& address, uint32_t port, const std::string& from = "",
                       const std::string& protocol = "") {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ExplainRequest request;
    request.set_address(address);
    request.set_port(port);
    request.set_from(from);
    request.set_protocol(protocol);
    return stub_->Explain(&context, request, &response_);
  }

  v1::ExplainResponse response_;
};

TEST_F(ExplainRpcTest, AnswersFromTheWantedStateAndChecksTheKernel) {
  Serve();
  const v1::Ack ack = Apply({AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80),
                             ASlice("shop/web").Endpoint("10.1.0.5", "n1").Port("http", 8080)});
  ASSERT_TRUE(Explain("10.96.0.010", 80, "203.0.113.9", "TCP").ok());
  EXPECT_EQ(response_.address(), "10.96.0.10");
  EXPECT_EQ(response_.protocol(), "TCP");
  EXPECT_EQ(response_.service().ShortDebugString(),
            "namespace: \"shop\" name: \"web\" port_name: \"http\" port: 80");
  EXPECT_EQ(response_.revision(), ack.revision());
  ASSERT_THAT(response_.explanations(), SizeIs(1));
  const v1::Explanation& explanation = response_.explanations(0);
  EXPECT_EQ(explanation.source_kind(), v1::Explanation::OTHER);
  EXPECT_EQ(explanation.verdict(), v1::Explanation::DNAT);
  EXPECT_EQ(explanation.endpoint_set(), v1::Explanation::CLUSTER);
  ASSERT_THAT(explanation.endpoints(), SizeIs(1));
  EXPECT_EQ(explanation.endpoints(0).address(), "10.1.0.5");
  EXPECT_EQ(explanation.endpoints(0).port(), 8080u);
  EXPECT_TRUE(explanation.endpoints(0).local());
  EXPECT_THAT(explanation.endpoints(0).kube_chain(), HasSubstr("KUBE-SEP-"));
  EXPECT_THAT(explanation.kube_chains(), ElementsAre(HasSubstr("KUBE-SVC-")));
  EXPECT_EQ(explanation.steps(0).what(), "source");
  EXPECT_TRUE(response_.kernel().agrees()) << response_.kernel().ShortDebugString();
  EXPECT_FALSE(response_.kernel().pending());
}

TEST_F(ExplainRpcTest, WhatTheKernelDoesNotTakeIsADifference) {
  Serve();
  Apply({AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80)});
  rejecting_ = true;
  Apply({ASlice("shop/web").Endpoint("10.1.0.5", "n1").Port("http", 8080)});
  ASSERT_TRUE(Explain("10.96.0.10", 80).ok());
  EXPECT_EQ(response_.explanations(0).verdict(), v1::Explanation::DNAT);
  EXPECT_FALSE(response_.kernel().agrees());
  EXPECT_TRUE(response_.kernel().pending());
  EXPECT_EQ(response_.kernel().error(), "");
  EXPECT_THAT(response_.kernel().differences(),
              ::testing::Contains("10.96.0.10 . tcp . 80 in service-ips is missing in the kernel"));
}

TEST_F(ExplainRpcTest, RejectedSlicesOfTheServiceAreShown) {
  Serve();
  v1::Object rejected = ASlice("shop/web").Endpoint("10.1.0.5", "n1").Port("http", 8080);
  rejected.mutable_endpoint_slice()->set_address_type("IPv5");
  v1::Object other = ASlice("shop/mail").Endpoint("10.1.0.6", "n1").Port("smtp", 25);
  other.mutable_endpoint_slice()->set_address_type("IPv5");
  Apply({AService("shop/web").ClusterIp("10.96.0.10").Port("http", 80), rejected, other});
  ASSERT_TRUE(Explain("10.96.0.10", 80).ok());
  const v1::Explanation& explanation = response_.explanations(0);
  EXPECT_EQ(explanation.verdict(), v1::Explanation::REJECT);
  const v1::ExplainStep& step = explanation.steps(explanation.steps_size() - 1);
  EXPECT_EQ(step.what(), "finding");
  EXPECT_THAT(step.text(), HasSubstr("rejected: addressType: Unsupported value: \"IPv5\""));
  EXPECT_THAT(step.text(), HasSubstr("EndpointSlice shop/web"));
}

TEST_F(ExplainRpcTest, BadQuestionsAreNamed) {
  Serve();
  const struct {
    const char* address;
    uint32_t port;
    const char* from;
    const char* protocol;
    const char* problem;
  } cases[] = {
      {"web", 80, "", "", "address: Invalid value: \"web\": must be an IP address"},
      {"10.0.0.1", 0, "", "", "port: Invalid value: 0: must be between 1 and 65535, inclusive"},
      {"10.0.0.1", 65536, "", "",
       "port: Invalid value: 65536: must be between 1 and 65535, inclusive"},
      {"10.0.0.1", 80, "", "ICMP",
       "protocol: Invalid value: \"ICMP\": must be \"TCP\", \"UDP\" or \"SCTP\""},
      {"10.0.0.1", 80, "pod", "",
       "from: Invalid value: \"pod\": must be an IP address or \"node\""},
      {"10.0.0.1", 80, "fd00::1", "",
       "from: Invalid value: fd00::1: must be of the same IP family as address 10.0.0.1"},
  };
  for (const auto& c : cases) {
    const grpc::Status status = Explain(c.address, c.port, c.from, c.protocol);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), c.problem);
  }
}

}  // namespace
}  // namespace svcmap::api
