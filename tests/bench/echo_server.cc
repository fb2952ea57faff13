#include "tests/bench/echo_server.h"

#include <grpcpp/grpcpp.h>
#include <signal.h>

#include <cstdio>
#include <memory>

#include "svcmap/v1/control.grpc.pb.h"

namespace svcmap::bench {
namespace {

// One Push stream. Reads a message only after the answer to the previous message has been written.
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

}  // namespace

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

}  // namespace svcmap::bench
