// svcmap-bench-push: measures the cost of svcmapd's push API. Runs the release binary in a separate
// namespace, and connects over a Unix socket and over TCP with mutual TLS on loopback.
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "svcmap/v1/control.grpc.pb.h"
#include "tests/bench/cluster/cluster.h"
#include "tests/bench/process_figures.h"
#include "tests/bench/program.h"
#include "tests/bench/record/statistics.h"
#include "tests/support/agent.h"
#include "tests/support/certificates.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace svcmap::bench {
namespace {

// One Push stream of the echo server. Reads a message only after the answer to the previous message
// has been written.
class EchoStream final : public grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse> {
 public:
  EchoStream() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    response_.Clear();
    if (request_.has_open()) {
      response_.mutable_opened();
    } else {
      response_.mutable_ack()->set_number(request_.batch().number());
    }
    StartWrite(&response_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  v1::PushRequest request_;
  v1::PushResponse response_;
};

class EchoService final : public v1::Control::CallbackService {
  grpc::ServerBidiReactor<v1::PushRequest, v1::PushResponse>* Push(
      grpc::CallbackServerContext*) override {
    return new EchoStream;
  }
};

// A lower bound for the push API: a gRPC server that answers each batch of a Push stream with an
// Ack and does nothing else. Runs in a process of its own, as svcmapd does. Listens on the Unix
// socket `path` until the process receives SIGTERM. Returns the exit code.
int RunEchoServer(const std::string& path) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // The threads of gRPC inherit the mask.
  EchoService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    std::fprintf(stderr, "svcmap-bench-push: echo server: cannot listen on %s\n", path.c_str());
    return 1;
  }
  int signal = 0;
  sigwait(&signals, &signal);
  server->Shutdown(std::chrono::system_clock::now());
  return 0;
}

using Clock = std::chrono::steady_clock;

// Number of Services per snapshot batch. A batch also contains the EndpointSlices of its Services.
constexpr int kPerBatch = 500;
constexpr uint64_t kRoundTrips = 3000;

void AwaitConnection(grpc::Channel& channel) {
  if (!channel.WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(10))) {
    Fail("cannot connect");
  }
}

// The push stream of a controller. Errors terminate the process.
class Push {
 public:
  explicit Push(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(v1::Control::NewStub(channel)), stream_(stub_->Push(&context_)) {}
  ~Push() {
    context_.TryCancel();
    stream_->Finish();
  }

  void Open() {
    v1::PushRequest request;
    request.mutable_open()->set_name("svcmap-bench-push");
    request.mutable_open()->set_protocol_version(2);
    Write(request);
    Read();
  }
  void Write(const v1::PushRequest& request) {
    if (!stream_->Write(request)) Fail("the stream broke");
  }
  v1::PushResponse Read() {
    v1::PushResponse response;
    if (!stream_->Read(&response)) Fail("the stream broke");
    if (response.ack().results_size() > 0) Fail(response.ack().results(0).message());
    return response;
  }
  v1::Ack Await(uint64_t number) {
    for (;;) {
      v1::PushResponse response = Read();
      if (response.ack().number() >= number) return response.ack();
    }
  }
  // Sends a snapshot and returns the Ack of the last message.
  v1::Ack Snapshot(const Cluster& cluster, uint64_t& number) {
    const ClusterShape& shape = cluster.shape();
    v1::PushRequest begin;
    begin.mutable_snapshot_begin();
    Write(begin);
    std::thread reader([&, last = number + Batches(shape) + 1] { end_ = Await(last); });
    for (int first = 0; first < shape.services; first += kPerBatch) {
      v1::PushRequest request;
      request.mutable_batch()->set_number(++number);
      for (int i = first; i < std::min(first + kPerBatch, shape.services); ++i) {
        const ServicePort& port = cluster.ports()[static_cast<size_t>(i)];
        *request.mutable_batch()->add_changes()->mutable_service() = ServiceMessage(port);
        for (v1::EndpointSlice& slice : SliceMessages(port)) {
          *request.mutable_batch()->add_changes()->mutable_endpoint_slice() = std::move(slice);
        }
      }
      Write(request);
    }
    v1::PushRequest end;
    end.mutable_snapshot_end()->set_number(++number);
    end.mutable_snapshot_end()->set_accept_removals(true);
    Write(end);
    reader.join();
    return end_;
  }

 private:
  static uint64_t Batches(const ClusterShape& shape) {
    return static_cast<uint64_t>((shape.services + kPerBatch - 1) / kPerBatch);
  }

  grpc::ClientContext context_;
  std::unique_ptr<v1::Control::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushResponse>> stream_;
  v1::Ack end_;
};

// Returns a message that replaces one endpoint of one Service.
v1::PushRequest OneEndpoint(Cluster& cluster, uint64_t number) {
  v1::PushRequest request;
  request.mutable_batch()->set_number(number);
  *request.mutable_batch()->add_changes() =
      std::move(cluster.ReplaceEndpoint(number % cluster.ports().size()).messages[0]);
  return request;
}

class Bench {
 public:
  Bench() : netns_(*testing::NetNs::Create()), folder_(*testing::TemporaryFolder::Make()) {
    // Enter the network namespace first, because gRPC's threads stay in the namespace of the thread
    // that creates them.
    if (!netns_.Enter().ok()) Fail("cannot enter a network namespace");
    const testing::KeyPair agent = ca_.Issue("agent", "IP:127.0.0.1");
    Put("ca.pem", ca_.certificate());
    Put("agent.pem", agent.certificate);
    Put("agent.key", agent.key);
    const testing::KeyPair client = ca_.Issue("bench", "URI:spiffe://bench/controller");
    options_.pem_root_certs = ca_.certificate();
    options_.pem_cert_chain = client.certificate;
    options_.pem_private_key = client.key;
  }

  void Start() {
    port_ = testing::FreeTcpPort();
    auto agent = testing::Agent::Start(
        netns_, {"--state-dir", folder_.path() + "/state", "--listen",
                 absl::StrCat("tcp://127.0.0.1:", port_), "--tls-cert",
                 folder_.path() + "/agent.pem", "--tls-key", folder_.path() + "/agent.key",
                 "--tls-client-ca", folder_.path() + "/ca.pem", "--max-connections", "10000",
                 "--max-connections-per-peer", "10000", "--max-batch-bytes", "100000000"});
    agent_ = Need(std::move(agent));
  }
  testing::Agent& agent() { return *agent_; }
  const testing::NetNs& netns() const { return netns_; }

  // Opens a new connection to svcmapd.
  std::shared_ptr<grpc::Channel> Connect(bool tls) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel =
        tls ? grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                        grpc::SslCredentials(options_), arguments)
            : grpc::CreateCustomChannel("unix:" + agent_->socket().substr(7),
                                        grpc::InsecureChannelCredentials(), arguments);
    AwaitConnection(*channel);
    return channel;
  }

 private:
  void Put(const std::string& name, const std::string& text) {
    std::ofstream(folder_.path() + "/" + name) << text;
  }

  testing::NetNs netns_;
  testing::TemporaryFolder folder_;
  testing::CertificateAuthority ca_{"ca"};
  grpc::SslCredentialsOptions options_;
  uint16_t port_ = 0;
  std::unique_ptr<testing::Agent> agent_;
};

const char* Name(bool tls) { return tls ? "TCP, mutual TLS" : "Unix socket"; }

void Messages(Bench& bench, const ClusterShape& shape, uint64_t count) {
  std::printf("\n%d x %d, batches of one changed endpoint:\n", shape.services, shape.endpoints);
  std::printf(
      "| transport | messages/s | commits/s | message to ack p50 | p99 |\n|---|---|---|---|---|\n");
  for (const bool tls : {false, true}) {
    Push push(bench.Connect(tls));
    push.Open();
    uint64_t number = 0;
    Cluster cluster(shape);
    const uint64_t first = push.Snapshot(cluster, number).revision();
    const auto start = Clock::now();
    uint64_t last = 0;
    std::thread reader([&] { last = push.Await(number + count).revision(); });
    for (uint64_t i = 1; i <= count; ++i) push.Write(OneEndpoint(cluster, number + i));
    reader.join();
    const double seconds = Milliseconds(Clock::now() - start) / 1000;
    number += count;

    std::vector<double> times;
    for (uint64_t i = 0; i < kRoundTrips; ++i) {
      const v1::PushRequest request = OneEndpoint(cluster, ++number);
      const auto sent = Clock::now();
      push.Write(request);
      push.Await(number);
      times.push_back(Milliseconds(Clock::now() - sent));
    }
    std::printf("| %s | %.0f | %.0f | %.2f ms | %.2f ms |\n", Name(tls),
                static_cast<double>(count) / seconds, static_cast<double>(last - first) / seconds,
                Median(times), Percentile(times, 0.99));
  }
}

// A process that only answers the messages of a Push stream.
class Echo {
 public:
  explicit Echo(const testing::NetNs& netns) {
    process_ = Need(testing::ChildProcess::Start(
        {.argv = {"/proc/self/exe", "--echo-server", socket()}, .netns = &netns}));
  }
  ~Echo() {
    static_cast<void>(process_->Signal(SIGTERM));
    process_->Wait(std::chrono::seconds(10));
  }
  pid_t pid() const { return process_->pid(); }
  std::shared_ptr<grpc::Channel> Connect() const {
    const auto channel =
        grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials());
    AwaitConnection(*channel);
    return channel;
  }

 private:
  std::string socket() const { return folder_.path() + "/echo.sock"; }

  testing::TemporaryFolder folder_ = *testing::TemporaryFolder::Make();
  std::unique_ptr<testing::ChildProcess> process_;
};

// Compares the time until the Ack of a changed endpoint with the time until an echo server has
// answered the empty message. The blocks of both alternate, so that a slow phase of the machine
// affects both.
void BesideEcho(Bench& bench, const ClusterShape& shape) {
  struct Turn {
    const char* name;
    pid_t pid;
    Push push;
    uint64_t number = 0;  // Number of the last batch.
    std::vector<double> times = {};
    int64_t waits = 0;
  };
  const Echo echo(bench.netns());
  Turn turns[] = {{"svcmapd", bench.agent().pid(), Push(bench.Connect(false))},
                  {"echo", echo.pid(), Push(echo.Connect())}};
  Cluster cluster(shape);
  for (Turn& turn : turns) turn.push.Open();
  turns[0].push.Snapshot(cluster, turns[0].number);
  constexpr uint64_t kBlock = 300;
  for (uint64_t sent = 0; sent < kRoundTrips; sent += kBlock) {
    for (Turn& turn : turns) {
      const int64_t waits = WaitsOf(turn.pid);
      for (uint64_t i = 0; i < kBlock; ++i) {
        v1::PushRequest request;
        request.mutable_batch()->set_number(++turn.number);
        if (&turn == &turns[0]) request = OneEndpoint(cluster, turn.number);
        const auto start = Clock::now();
        turn.push.Write(request);
        turn.push.Await(turn.number);
        turn.times.push_back(Milliseconds(Clock::now() - start));
      }
      turn.waits += WaitsOf(turn.pid) - waits;
    }
  }
  std::printf("\n%d x %d, one changed endpoint beside an empty message that a server echoes:\n",
              shape.services, shape.endpoints);
  std::printf(
      "| server | message to answer p50 | p99 | waits of its threads for each message |\n"
      "|---|---|---|---|\n");
  double p50[2];
  for (size_t i = 0; i < 2; ++i) {
    const std::vector<double>& times = turns[i].times;
    p50[i] = Median(times);
    std::printf("| %s | %.3f ms | %.3f ms | %.1f |\n", turns[i].name, p50[i],
                Percentile(times, 0.99),
                static_cast<double>(turns[i].waits) / static_cast<double>(times.size()));
  }
  std::printf("Ratio of the medians: %.2f\n", p50[0] / p50[1]);
}

// Prints the time from a message to its Ack while other clients run a read method in a loop.
void PushesDuring(Bench& bench, const ClusterShape& shape, uint64_t count, int readers) {
  std::printf("\n%d x %d, batches of one changed endpoint while %d other clients read:\n",
              shape.services, shape.endpoints, readers);
  std::printf(
      "| read | reads | longest read | message to ack p50 | p99 | max |\n"
      "|---|---|---|---|---|---|\n");
  using Stub = v1::Control::Stub;
  const auto dump = [](v1::DumpRequest::What what) {
    return [what](Stub& stub, grpc::ClientContext& context) {
      v1::DumpRequest request;
      request.set_what(what);
      const auto reader = stub.Dump(&context, request);
      for (v1::DumpResponse response; reader->Read(&response);) {
      }
      return reader->Finish();
    };
  };
  const auto list = [](Stub& stub, grpc::ClientContext& context) {
    const auto reader = stub.List(&context, {});
    for (v1::ListResponse response; reader->Read(&response);) {
    }
    return reader->Finish();
  };
  const std::pair<const char*, std::function<grpc::Status(Stub&, grpc::ClientContext&)>> reads[] = {
      {"none", nullptr},
      {"Dump DESIRED", dump(v1::DumpRequest::DESIRED)},
      {"Dump APPLIED", dump(v1::DumpRequest::APPLIED)},
      {"Dump PLAN", dump(v1::DumpRequest::PLAN)},
      {"List", list}};
  Push push(bench.Connect(false));
  push.Open();
  uint64_t number = 0;
  Cluster cluster(shape);
  push.Snapshot(cluster, number);
  for (const auto& [name, read] : reads) {
    std::atomic<bool> stop = false;
    std::atomic<int> finished = 0;
    std::atomic<double> longest = 0;
    std::vector<std::thread> threads;
    for (int i = 0; read && i < readers; ++i) {
      threads.emplace_back([&, &read = read] {
        const auto stub = v1::Control::NewStub(bench.Connect(false));
        while (!stop) {
          grpc::ClientContext context;
          const auto start = Clock::now();
          const grpc::Status status = read(*stub, context);
          if (!status.ok()) Fail(status.error_message());
          longest = std::max<double>(longest, Milliseconds(Clock::now() - start));
          ++finished;
        }
      });
    }
    std::vector<double> times;
    const auto start = Clock::now();
    // At least three complete reads, and at most a minute.
    while (times.size() < count ||
           (read && finished < 3 * readers && Clock::now() - start < std::chrono::minutes(1))) {
      const v1::PushRequest request = OneEndpoint(cluster, ++number);
      const auto sent = Clock::now();
      push.Write(request);
      push.Await(number);
      times.push_back(Milliseconds(Clock::now() - sent));
    }
    stop = true;
    for (std::thread& thread : threads) thread.join();
    std::printf("| %s | %d | %.0f ms | %.2f ms | %.2f ms | %.2f ms |\n", name, finished.load(),
                longest.load(), Median(times), Percentile(times, 0.99), Percentile(times, 1));
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  ClusterShape shape{.services = 10000, .endpoints = 10};
  uint64_t messages = 20000;
  CLI::App app("svcmap-bench-push measures the push API.");
  app.add_option("--services", shape.services)->capture_default_str();
  app.add_option("--messages", messages)->capture_default_str();
  bool reads_only = false;
  int readers = 1;
  app.add_option("--readers", readers, "Number of clients that call Dump or List")
      ->capture_default_str();
  app.add_flag("--reads-only", reads_only, "Measures only changes during Dump and List.");
  bool echo_only = false;
  app.add_flag("--echo-only", echo_only, "Measures only changes beside an echo server.");
  std::string echo_server;
  app.add_option("--echo-server", echo_server, "Runs only the echo server, on this Unix socket");
  CLI11_PARSE(app, argc, argv);
  if (!echo_server.empty()) return RunEchoServer(echo_server);
  Bench bench;
  bench.Start();
  if (reads_only) {
    PushesDuring(bench, shape, std::min<uint64_t>(messages, kRoundTrips), readers);
    return 0;
  }
  if (echo_only) {
    BesideEcho(bench, shape);
    return 0;
  }
  Messages(bench, shape, messages);
  BesideEcho(bench, shape);
  PushesDuring(bench, shape, std::min<uint64_t>(messages, kRoundTrips), readers);
  return 0;
}

}  // namespace
}  // namespace svcmap::bench

int main(int argc, char** argv) { return svcmap::bench::Main(argc, argv); }
