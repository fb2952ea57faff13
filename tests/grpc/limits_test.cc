// Tests of the limits for controllers, and of the errors for requests that exceed these limits.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <future>
#include <map>
#include <thread>

#include "nft/base/unique_fd.h"
#include "tests/grpc/any_call.h"
#include "tests/grpc/server_fixture.h"
#include "tests/support/certificates.h"
#include "tests/support/wait.h"

namespace svcmap::api {
namespace {

using svcmap::testing::ASlice;
using svcmap::testing::Upsert;
using svcmap::testing::WaitUntil;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LimitsTest : public ServerTest {
 protected:
  static v1::Object Slice(const std::string& name, int endpoints, int first = 1) {
    ASlice slice("shop/web");
    slice.Named(name).Port("http", 8080);
    for (int i = 0; i < endpoints; ++i) slice.Endpoint("10.1.0." + std::to_string(first + i));
    return slice;
  }
};

TEST_F(LimitsTest, OpenedSaysThemAll) {
  StartLoop({.objects = 7, .endpoints_per_service = 8});
  limits_ = {.max_batch_bytes = 5000,
             .max_batches_in_flight = 3,
             .max_bytes_in_flight = 9000,
             .max_streams = 2};
  Serve();
  const Stream stream(*stub_, "test");
  const v1::Limits& limits = stream.opened.limits();
  EXPECT_EQ(limits.max_objects(), 7u);
  EXPECT_EQ(limits.max_endpoints_per_service(), 8u);
  EXPECT_EQ(limits.max_batch_bytes(), 5000u);
  EXPECT_EQ(limits.max_batches_in_flight(), 3u);
  EXPECT_EQ(limits.max_streams(), 2u);
  EXPECT_EQ(limits.max_bytes_in_flight(), 9000u);
}

// While the loop is blocked, the agent sends no Acks. All batches that the agent reads while the
// loop is blocked become one commit.
TEST_F(LimitsTest, BytesInFlightAreBounded) {
  constexpr int kBatches = 20;
  limits_.max_bytes_in_flight = 2000;
  Serve();
  Stream stream(*stub_, "test");
  std::promise<void> go_on;
  std::promise<void> stands;
  std::thread still([&] {
    loop_->Call([&](proxy::Reconciler&) {
      stands.set_value();
      go_on.get_future().wait();
    });
  });
  stands.get_future().wait();
  for (int i = 1; i <= kBatches; ++i) {
    const v1::Object web = Web("shop/web-" + std::to_string(i), "10.96.1." + std::to_string(i));
    ASSERT_TRUE(stream.Send(static_cast<uint64_t>(i), {Upsert(Slice("web-1", 40)), Upsert(web)}));
  }
  // Health checks use the same connection as the stream and do not need the agent's loop.
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(svcmap::testing::CallAny(channel_, "/grpc.health.v1.Health/Check").ok());
  }
  go_on.set_value();
  still.join();
  std::map<uint64_t, int> batches_of_revision;
  for (int i = 0; i < kBatches; ++i) ++batches_of_revision[stream.ReadAck().revision()];
  v1::PushRequest request;
  *request.mutable_batch()->add_changes() = Upsert(Slice("web-1", 40));
  const auto most = static_cast<int>(2000 / request.ByteSizeLong()) + 1;
  for (const auto& [revision, batches] : batches_of_revision) EXPECT_LE(batches, most) << revision;
}

// A Service and its EndpointSlice with `ports` ports.
testing::Objects WebWith(int ports, int endpoints) {
  svcmap::testing::AService service("shop/web");
  ASlice slice("shop/web");
  service.ClusterIp("10.96.0.10");
  for (int i = 0; i < ports; ++i) {
    const std::string name = "p" + std::to_string(i);
    service.Port(name, 1000 + i);
    slice.Port(name, 30000 + i % 1000);
  }
  for (int i = 0; i < endpoints; ++i) {
    slice.Endpoint("10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1));
  }
  return {service, slice};
}

TEST_F(LimitsTest, ManyPortsOrManyEndpointsAreProgrammed) {
  Serve();
  const std::pair<int, int> sizes[] = {{101, 1}, {20'000, 13}, {5, 1000}};
  for (const auto& [ports, endpoints] : sizes) {
    EXPECT_THAT(Messages(Apply(WebWith(ports, endpoints))), IsEmpty()) << ports;
    EXPECT_EQ(GetStatus().endpoints(), static_cast<uint64_t>(ports * endpoints));
  }
  // One endpoint more exceeds svcmap's limit of ports times endpoints.
  EXPECT_THAT(Messages(Apply(WebWith(20'000, 14))),
              ElementsAre(HasSubstr("would be 280000 for IPv4, which exceeds svcmap's limit of "
                                    "262144")));
}

// The responses are larger than the flow-control window of a client that does not read them.
TEST_F(LimitsTest, CallsWhoseResponseIsNotReadAreCancelled) {
  limits_.read_within.most = std::chrono::milliseconds(200);
  Serve();
  testing::Objects valid;
  v1::ApplyRequest invalid;
  invalid.set_protocol_version(2);
  for (int i = 0; i < 3000; ++i) {
    const std::string name = "shop/web-" + std::to_string(i);
    const std::string ip = std::to_string(i / 200) + "." + std::to_string(1 + i % 200);
    valid.push_back(Web(name, "10.96." + ip));
    *invalid.add_objects() = Web(name, "10.96.0.999");
  }
  Apply(valid);
  const auto channel = ChannelWithSmallBuffers();
  const auto stub = v1::Control::NewStub(channel);
  grpc::GenericStub generic(channel);
  // A generic call does not read the response before Read().
  grpc::CompletionQueue queue;
  void* tag = nullptr;
  bool ok = false;
  grpc::ClientContext apply_context;
  SetDeadline(apply_context);
  const auto apply = generic.PrepareCall(&apply_context, "/svcmap.v1.Control/Apply", &queue);
  apply->StartCall(nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  const grpc::Slice bytes(invalid.SerializeAsString());
  apply->WriteLast(grpc::ByteBuffer(&bytes, 1), {}, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok) && ok);
  grpc::ClientContext list_context;
  SetDeadline(list_context);
  const auto list = stub->List(&list_context, {});
  // A slow client: the server cancels both calls before the client reads.
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));

  grpc::Status status;
  grpc::ByteBuffer response;
  apply->Read(&response, nullptr);
  EXPECT_TRUE(queue.Next(&tag, &ok) && !ok) << response.Length() << " bytes";
  apply->Finish(&status, nullptr);
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(status.error_code(), grpc::CANCELLED) << status.error_message();
  for (v1::ListResponse part; list->Read(&part);) {
  }
  EXPECT_EQ(list->Finish().error_code(), grpc::CANCELLED);
  EXPECT_EQ(GetStatus().node_name(), "n1");
}

// Keeps the loop busy until the destructor.
class BusyLoop {
 public:
  explicit BusyLoop(proxy::Loop& loop)
      : thread_([this, &loop] {
          loop.Call([&](proxy::Reconciler&) {
            busy_.set_value();
            go_on_.get_future().wait();
          });
        }) {
    busy_.get_future().wait();
  }
  ~BusyLoop() {
    go_on_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> busy_;
  std::promise<void> go_on_;
  std::thread thread_;
};

TEST_F(LimitsTest, GetStatusDoesNotWaitForOtherCalls) {
  Serve();
  std::vector<std::future<grpc::Status>> calls;
  {
    const BusyLoop busy(*loop_);
    for (int i = 0; i < 40; ++i) {
      calls.push_back(std::async(std::launch::async, [this] {
        v1::ApplyRequest request;
        request.set_validate_only(true);
        v1::Ack ack;
        return TryApply(request, ack);
      }));
    }
    for (int i = 0; i < 20; ++i) EXPECT_EQ(GetStatus().node_name(), "n1");
  }
  for (auto& call : calls) EXPECT_TRUE(call.get().ok());
}

// A client can have 8 calls of Apply at the same time. Further calls wait.
TEST_F(LimitsTest, CallThatIsCancelledWhileItWaitsChangesNothing) {
  Serve();
  const auto apply = [this](int i, std::chrono::milliseconds time) {
    v1::ApplyRequest request;
    *request.add_objects() = Web("shop/web-" + std::to_string(i), "10.96.0." + std::to_string(i));
    v1::Ack ack;
    return TryApply(request, ack, time).error_code();
  };
  std::vector<std::future<grpc::StatusCode>> calls;
  {
    const BusyLoop busy(*loop_);
    for (int i = 1; i <= 8; ++i) {
      calls.push_back(std::async(std::launch::async, apply, i, svcmap::testing::kHangLimit));
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
    EXPECT_EQ(apply(9, std::chrono::milliseconds(100)), grpc::DEADLINE_EXCEEDED);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  for (auto& call : calls) EXPECT_EQ(call.get(), grpc::OK);
  EXPECT_EQ(apply(10, svcmap::testing::kHangLimit), grpc::OK);
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 9u);
}

// This test uses only TCP, because the agent accepts Unix socket connections itself, and gRPC has
// no handshake deadline for them. For Unix sockets, keepalive timeouts close silent connections.
TEST_F(LimitsTest, ConnectionOnWhichNothingIsReportedEnds) {
  limits_.greet_within = std::chrono::milliseconds(20);
  const uint16_t port = svcmap::testing::FreeTcpPort();
  ServeAt({.listen = {"tcp://127.0.0.1:" + std::to_string(port)}, .insecure = true});
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const timeval patience = {.tv_sec = svcmap::testing::kHangLimit.count()};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  char bytes[4096];
  ssize_t got = 0;
  do {  // The server sends its HTTP/2 settings first, then closes the connection.
    got = read(fd.get(), bytes, sizeof(bytes));
  } while (got > 0);
  EXPECT_TRUE(got == 0 || errno == ECONNRESET) << errno;
}

TEST_F(LimitsTest, MessageOverTheLimitEndsOnlyItsStream) {
  v1::Object web = Web();
  std::string& note = (*web.mutable_service()->mutable_metadata()->mutable_annotations())["note"];
  note = std::string(10'000, 'a');
  v1::PushRequest request;
  request.mutable_batch()->set_number(1);
  *request.mutable_batch()->add_changes() = Upsert(web);
  limits_.max_batch_bytes = static_cast<uint32_t>(request.ByteSizeLong());
  Serve();
  Stream stream(*stub_, "test");
  ASSERT_TRUE(stream.Send(1, {Upsert(web)}));
  EXPECT_EQ(stream.ReadAck().outcome(), v1::COMMITTED);
  note += 'a';
  stream.Send(2, {Upsert(web)});
  const grpc::Status status = stream.Finish();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr(std::to_string(limits_.max_batch_bytes)));
  // svcmapd drops the annotation, so the Service without the annotation is the stored Service.
  EXPECT_EQ(Apply({Web()}).outcome(), v1::UNCHANGED);
}

TEST_F(LimitsTest, OneStreamMoreIsRejectedUntilAnotherHasEnded) {
  limits_.max_streams = 2;
  Serve();
  Stream holder(*stub_, "holder");
  auto second = std::make_unique<Stream>(*stub_);
  ASSERT_TRUE(second->Open("second"));  // The second stream replaces the first stream, which ends.
  EXPECT_EQ(holder.Finish().error_code(), grpc::ABORTED);
  Stream silent(*stub_);
  // The client may see the end of the first stream before the server has released the stream.
  grpc::Status status;
  EXPECT_TRUE(WaitUntil([&] {
    Stream more(*stub_);
    status = more.Finish();
    return !status.ok();
  }));
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--max-streams 2"));
  EXPECT_EQ(GetStatus().controller().name(), "second");
  second.reset();
  EXPECT_TRUE(WaitUntil([&] {
    Stream next(*stub_);
    return next.Open("next");
  }));
}

}  // namespace
}  // namespace svcmap::api
