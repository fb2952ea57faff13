// Tests of the calls Dump, Explain and List, and of dry runs.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <thread>

#include "nft/base/unique_fd.h"
#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using namespace std::chrono_literals;
using svcmap::testing::AService;
using svcmap::testing::ASlice;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ControlTest = ServerTest;
using svcmap::testing::ServiceRef;

class DumpTest : public ServerTest {
 protected:
  // The dump of these objects does not fit into the buffers of slow_stub_.
  void StoreManyEndpoints() {
    Serve();
    slow_stub_ = v1::Control::NewStub(ChannelWithSmallBuffers());
    testing::Objects objects = {Web()};
    for (int slice = 0; slice < 20; ++slice) {
      ASlice endpoints("shop/web");
      endpoints.Named("web-" + std::to_string(slice)).Port("http", 8080);
      for (int i = 0; i < 1000; ++i) {
        endpoints.Endpoint("10." + std::to_string(slice) + "." + std::to_string(i / 250) + "." +
                           std::to_string(i % 250));
      }
      objects.push_back(endpoints);
    }
    EXPECT_EQ(Apply(objects).outcome(), v1::COMMITTED);
  }

  struct Call {
    Call(v1::Control::Stub& stub, std::chrono::milliseconds within) {
      context.set_deadline(std::chrono::system_clock::now() + within);
      v1::DumpRequest request;
      request.set_what(v1::DumpRequest::APPLIED);
      reader = stub.Dump(&context, request);
    }
    // Reads all responses and returns the size of the text.
    size_t ReadAll() {
      size_t size = 0;
      for (v1::DumpResponse response; reader->Read(&response);) size += response.text().size();
      return size;
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::DumpResponse>> reader;
  };

  std::unique_ptr<v1::Control::Stub> slow_stub_;
};

TEST_F(DumpTest, OneDumpAtATime) {
  StoreManyEndpoints();
  Call slow(*slow_stub_, svcmap::testing::kHangLimit);
  v1::DumpResponse first;
  ASSERT_TRUE(slow.reader->Read(&first));  // Reads nothing more.
  Call waiting(*stub_, 500ms);
  EXPECT_EQ(waiting.ReadAll(), 0u);
  EXPECT_EQ(waiting.reader->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  // Other calls do not wait for a Dump.
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
  EXPECT_EQ(Apply({Web("shop/other", "10.96.0.11")}).outcome(), v1::COMMITTED);

  Call next(*stub_, svcmap::testing::kHangLimit);
  slow.context.TryCancel();
  slow.reader->Finish();
  EXPECT_GT(next.ReadAll(), 500'000u);
  EXPECT_TRUE(next.reader->Finish().ok());
}

TEST_F(DumpTest, AClientThatDoesNotReadDelaysTheNextDumpForALimitedTime) {
  limits_.read_within.base = 300ms;
  StoreManyEndpoints();
  Call slow(*slow_stub_, svcmap::testing::kHangLimit);
  v1::DumpResponse first;
  ASSERT_TRUE(slow.reader->Read(&first));  // Reads nothing more.
  const auto begin = std::chrono::steady_clock::now();
  Call next(*stub_, svcmap::testing::kHangLimit);
  EXPECT_GT(next.ReadAll(), 500'000u);
  EXPECT_TRUE(next.reader->Finish().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  slow.ReadAll();
  EXPECT_EQ(slow.reader->Finish().error_code(), grpc::CANCELLED);
}

// Reads 256 KiB each 230 ms, which is more than 1 MiB per second.
TEST_F(DumpTest, AClientThatReadsInTimeIsNotCancelled) {
  limits_.read_within.base = 1s;
  StoreManyEndpoints();
  Call steady(*slow_stub_, svcmap::testing::kHangLimit);
  size_t size = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (v1::DumpResponse response; steady.reader->Read(&response);) {
    size += response.text().size();
    std::this_thread::sleep_for(230ms);
  }
  EXPECT_TRUE(steady.reader->Finish().ok());
  EXPECT_GT(size, 500'000u);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, limits_.read_within.base);
}

// Every portion of a Dump is a turn of the loop, and a change fits between two portions.
TEST_F(DumpTest, ChangesAndDumpsAtTheSameTime) {
  StoreManyEndpoints();
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (const auto what :
       {v1::DumpRequest::DESIRED, v1::DumpRequest::APPLIED, v1::DumpRequest::PLAN}) {
    readers.emplace_back([this, what, &stop] {
      while (!stop) {
        grpc::ClientContext context;
        SetDeadline(context);
        v1::DumpRequest request;
        request.set_what(what);
        const auto reader = stub_->Dump(&context, request);
        for (v1::DumpResponse response; reader->Read(&response);) {
        }
        EXPECT_TRUE(reader->Finish().ok());
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Apply({Web("shop/other", "10.96.0." + std::to_string(20 + i))}).outcome(),
              v1::COMMITTED);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

// Tests of the Explain call, including its comparison with the kernel's elements.
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

// Tests of unary calls and of the socket.

TEST_F(ControlTest, ASocketOfAnotherTypeIsNotReplaced) {
  Serve();
  const std::string path = socket() + ".other";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const UniqueFd other(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  const auto second = Server::Start({.listen = {"unix://" + path}}, limits_, *service_);
  EXPECT_EQ(second.status().message(), "another process listens on " + path);
  unlink(path.c_str());
}

TEST_F(ControlTest, StoredObjectsAreListedWithoutUnusedLabels) {
  Serve();
  const v1::Object web = Web();
  v1::Object labelled = web;
  (*labelled.mutable_service()->mutable_metadata()->mutable_labels())["team"] = "shop";
  Apply({labelled});
  const std::vector<v1::Object> listed = List(v1::KIND_SERVICE);
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].SerializeAsString(), web.SerializeAsString());
  EXPECT_TRUE(List(v1::KIND_NODE).empty());
}

TEST_F(ControlTest, WithManifestsNoClientMayChangeTheState) {
  Serve("/etc/svcmap/manifests");
  v1::ApplyRequest request;
  *request.add_objects() = Web();
  v1::Ack ack;
  const grpc::Status status = TryApply(request, ack);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("/etc/svcmap/manifests"));
  Stream stream(*stub_);
  EXPECT_EQ(stream.Finish().error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(GetStatus().manifests_path(), "/etc/svcmap/manifests");
}

TEST_F(ControlTest, AMessageWithTooManyObjectsIsRejected) {
  Serve();
  v1::ApplyRequest request;
  for (int i = 0; i < 65537; ++i) request.add_objects()->mutable_service();
  v1::Ack ack;
  const grpc::Status status = TryApply(request, ack);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("message contains 65537 objects"));
  Stream stream(*stub_, "test");
  ASSERT_TRUE(stream.Send(1, std::vector<v1::Change>(65537)));
  EXPECT_EQ(stream.Finish().error_code(), grpc::RESOURCE_EXHAUSTED);
}

TEST_F(ControlTest, SeveralVersionsOfAnObjectInARequestAreAWarning) {
  Serve();
  const v1::Ack ack = Apply({Web("shop/web", "10.96.0.10"), Web("shop/dns", "10.96.0.11"),
                             Web("shop/web", "10.96.0.12")});
  ASSERT_EQ(ack.results_size(), 1);
  EXPECT_EQ(ack.results(0).code(), v1::DUPLICATE);
  EXPECT_EQ(ack.results(0).severity(), v1::WARNING);
  EXPECT_EQ(ack.results(0).message(),
            "Service shop/web: Duplicate value: the request contains 2 versions of the object; the "
            "last version is used");
}

// Tests of validate_only: Apply and Remove report their effect and change nothing.

v1::Object SliceWith(int endpoints) {
  ASlice slice("shop/web");
  for (int i = 0; i < endpoints; ++i) {
    slice.Endpoint("10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250));
  }
  return slice.Port("http", 8080);
}

std::vector<std::string> Reported(const v1::Ack& ack) {
  std::vector<std::string> lines;
  for (const v1::ElementChange& e : ack.dry_run().elements()) {
    lines.push_back((e.change() == v1::ElementChange::ADDED ? "+ " : "- ") + e.family() + " " +
                    e.set() + " " + e.key() + (e.data().empty() ? "" : " : " + e.data()) +
                    (e.comment().empty() ? "" : " \"" + e.comment() + "\""));
  }
  return lines;
}

class DryRunTest : public ServerTest {
 protected:
  v1::Ack Try(const testing::Objects& objects) { return Apply(objects, /*validate_only=*/true); }
  v1::Ack TryRemoval(const std::vector<v1::ObjectRef>& refs) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::RemoveRequest request;
    request.set_protocol_version(2);
    for (const v1::ObjectRef& ref : refs) *request.add_objects() = ref;
    request.set_validate_only(true);
    v1::Ack ack;
    const grpc::Status status = stub_->Remove(&context, request, &ack);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return ack;
  }
  // Returns the state token of all stored objects.
  proxy::StateToken Token() {
    proxy::StateToken token = {};
    EXPECT_TRUE(loop_->Call([&](proxy::Reconciler& r) { token = r.store().token(); }));
    return token;
  }
  // Returns the status without fields that change over time.
  std::string Seen() {
    v1::GetStatusResponse status = GetStatus();
    status.clear_started();
    // pending_since stays set until the loop iteration after the response.
    status.clear_pending_since();
    std::string seen = status.SerializeAsString();
    for (const v1::Kind kind : {v1::KIND_SERVICE, v1::KIND_ENDPOINT_SLICE, v1::KIND_NODE}) {
      for (const v1::Object& object : List(kind)) seen += object.SerializeAsString();
    }
    return seen;
  }
};

TEST_F(DryRunTest, TellsElementsAndChangesNothing) {
  Serve();
  const v1::Ack real = Apply({Web(), SliceWith(1)});
  const proxy::StateToken token = Token();
  const std::string before = Seen();
  const v1::Ack ack = Try({SliceWith(2)});
  EXPECT_EQ(ack.outcome(), v1::WOULD_CHANGE);
  EXPECT_EQ(ack.revision(), real.revision());
  EXPECT_EQ(ack.state_token(), "");
  EXPECT_FALSE(ack.has_commit_duration());
  EXPECT_THAT(Reported(ack),
              ElementsAre("- IPv4 service-ips 10.96.0.10 . tcp . 80",
                          "+ IPv4 endpoints 0x1 . 1 : 10.1.0.1 . 8080",
                          "+ IPv4 service-ips 10.96.0.10 . tcp . 80 : 2.0.0.1 \"shop/web:http\""));
  EXPECT_EQ(ack.dry_run().deleted(), 1u);
  EXPECT_EQ(ack.dry_run().added(), 2u);
  EXPECT_FALSE(ack.dry_run().rewrites_tables());
  EXPECT_EQ(Seen(), before);
  // The dry run has changed neither the stored objects nor the state token.
  const v1::Ack again = Apply({Web(), SliceWith(1)});
  EXPECT_EQ(again.outcome(), v1::UNCHANGED);
  EXPECT_EQ(Token(), token);
}

TEST_F(DryRunTest, NothingToChangeIsUnchanged) {
  Serve();
  Apply({Web()});
  for (const v1::Ack& ack : {Try({Web()}), TryRemoval({ServiceRef("shop/nothing")}), Try({})}) {
    EXPECT_EQ(ack.outcome(), v1::UNCHANGED);
    EXPECT_FALSE(ack.has_dry_run());
  }
}

TEST_F(DryRunTest, RemovalIsReported) {
  Serve();
  Apply({Web()});
  EXPECT_THAT(Reported(TryRemoval({ServiceRef("shop/web")})),
              ElementsAre("- IPv4 no-endpoint-services 10.96.0.10 . tcp . 80",
                          "- IPv4 cluster-ips 10.96.0.10"));
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
}

// A dry run reports invalid objects, exceeded limits and conflicts, but stores no findings.
TEST_F(DryRunTest, S16_ResultsAreThoseOfTheRealCall) {
  StartLoop({.objects = 3});
  Serve();
  Apply({Web()});
  const testing::Objects objects = {
      AService("shop/bad").ClusterIp("10.96.0.11").Port("http", 70000),
      AService("shop/x-same").ClusterIp("10.96.0.10").Port("http", 80),
      AService("shop/y-odd").ClusterIp("10.96.0.13").ExternalIp("relay.example").Port("", 25),
      AService("shop/z-over").ClusterIp("10.96.0.14").Port("http", 80)};
  const v1::Ack reported = Try(objects);
  const v1::GetStatusResponse status = GetStatus();
  for (const v1::ObjectResult& finding : status.findings()) {
    EXPECT_EQ(finding.code(), v1::NODE_UNKNOWN) << finding.message();
  }
  EXPECT_EQ(status.refused_objects(), 0u);
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
  EXPECT_THAT(Messages(reported),
              ElementsAre(HasSubstr("70000: must be between 1 and 65535"),
                          HasSubstr("\"relay.example\": must be a valid IP address"),
                          HasSubstr("already stores --max-objects 3"),
                          HasSubstr("already used by Service shop/web")));
  EXPECT_EQ(Messages(Apply(objects)), Messages(reported));
}

TEST_F(DryRunTest, TheListIsBoundedAndTheCountsAreTrue) {
  Serve();
  Apply({Web()});
  testing::Objects slices;
  for (int i = 0; i < 12; ++i) {
    ASlice slice("shop/web");
    slice.Named("web-" + std::to_string(i)).Port("http", 8080);
    for (int n = 0; n < 1000; ++n) {
      slice.Endpoint("10." + std::to_string(i + 1) + "." + std::to_string(n / 250) + "." +
                     std::to_string(n % 250));
    }
    slices.push_back(slice);
  }
  const v1::Ack ack = Try(slices);
  EXPECT_EQ(ack.dry_run().elements_size(), 10'000);
  EXPECT_EQ(ack.dry_run().deleted(), 1u);
  EXPECT_EQ(ack.dry_run().added(), 12'001u);
  EXPECT_FALSE(ack.dry_run().rewrites_tables());  // The map has room for 196,608 endpoints.
  EXPECT_LT(ack.ByteSizeLong(), 2'000'000u);
}

}  // namespace
}  // namespace svcmap::api
