#include "tests/unit/api/cli_fake_agent.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "api/cli/object_id.h"
#include "api/cli/run.h"
#include "svcmap/v1/control.grpc.pb.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/wait.h"

namespace svcmap::api {

std::string FreshSocketPath() {
  static const auto folder = testing::TemporaryFolder::Make();
  static int count = 0;
  return folder->path() + "/" + std::to_string(++count) + ".sock";
}

class FakeAgent::Service : public v1::Control::Service {
 public:
  Service(FakeAnswers answers, int max_bytes, const std::string& address)
      : answers_(std::move(answers)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.SetMaxReceiveMessageSize(max_bytes);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr) std::abort();
  }

  ~Service() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Apply(grpc::ServerContext* context, const v1::ApplyRequest* request,
                     v1::Ack* answer) override {
    *answer = request->validate_only() ? answers_.dry_run.value_or(answers_.ack) : answers_.ack;
    return Seen(&SeenRequests::apply, *request, *context);
  }

  grpc::Status Remove(grpc::ServerContext* context, const v1::RemoveRequest* request,
                      v1::Ack* answer) override {
    *answer = request->validate_only() ? answers_.dry_run.value_or(answers_.ack) : answers_.ack;
    return Seen(&SeenRequests::remove, *request, *context);
  }

  grpc::Status Push(grpc::ServerContext* context,
                    grpc::ServerReaderWriter<v1::PushResponse, v1::PushRequest>* stream) override {
    v1::PushRequest request;
    while (stream->Read(&request)) {
      if (const grpc::Status seen = Seen(&SeenRequests::push, request, *context); !seen.ok()) {
        return seen;
      }
      v1::PushResponse response;
      if (request.has_open()) response.mutable_opened();
      if (request.has_batch() || request.has_snapshot_end()) *response.mutable_ack() = answers_.ack;
      if (response.message_case() != v1::PushResponse::MESSAGE_NOT_SET) stream->Write(response);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* /*request*/,
                         v1::GetStatusResponse* answer) override {
    *answer = answers_.status;
    return End(*context);
  }

  grpc::Status List(grpc::ServerContext* context, const v1::ListRequest* request,
                    grpc::ServerWriter<v1::ListResponse>* writer) override {
    for (const v1::ListResponse& part : answers_.list) {
      v1::ListResponse selected;
      for (const v1::Object& object : part.objects()) {
        const bool all = request->kind() == v1::KIND_UNSPECIFIED;
        if (all || IdOf(object).kind == request->kind()) *selected.add_objects() = object;
      }
      if (!writer->Write(selected)) break;
    }
    return Seen(&SeenRequests::list, *request, *context);
  }

  grpc::Status Dump(grpc::ServerContext* context, const v1::DumpRequest* request,
                    grpc::ServerWriter<v1::DumpResponse>* writer) override {
    for (const std::string& text : answers_.dump) {
      v1::DumpResponse part;
      part.set_text(text);
      if (!writer->Write(part)) break;
    }
    return Seen(&SeenRequests::dump, *request, *context);
  }

  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainResponse* answer) override {
    *answer = answers_.explain;
    return Seen(&SeenRequests::explain, *request, *context);
  }

  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* /*request*/,
                     grpc::ServerWriter<v1::WatchEvent>* writer) override {
    for (const v1::WatchEvent& event : answers_.watch) {
      if (!writer->Write(event)) break;
    }
    return End(*context);
  }

  SeenRequests seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  template <typename T>
  grpc::Status Seen(std::vector<T> SeenRequests::*list, const T& request,
                    const grpc::ServerContext& context) {
    {
      const std::lock_guard lock(mutex_);
      (seen_.*list).push_back(request);
    }
    return End(context);
  }

  grpc::Status End(const grpc::ServerContext& context) const {
    if (answers_.hang) testing::WaitUntil([&] { return context.IsCancelled(); });
    return {static_cast<grpc::StatusCode>(answers_.error.code()),
            std::string(answers_.error.message())};
  }

  const FakeAnswers answers_;
  mutable std::mutex mutex_;
  SeenRequests seen_;
  std::unique_ptr<grpc::Server> server_;
};

FakeAgent::FakeAgent(FakeAnswers answers, int max_bytes, const std::string& socket)
    : address_("unix://" + (socket.empty() ? FreshSocketPath() : socket)),
      service_(std::make_unique<Service>(std::move(answers), max_bytes, address_)) {}

FakeAgent::~FakeAgent() = default;

SeenRequests FakeAgent::seen() const { return service_->seen(); }

CtlResult Ctl(const std::vector<std::string>& args, const std::string& input, TerminalSize screen) {
  std::istringstream in(input);
  std::ostringstream out, err;
  const int code = Run(args, in, out, err, screen);
  return {code, out.str(), err.str()};
}

CtlResult Ctl(const FakeAgent& agent, std::vector<std::string> args, const std::string& input,
              TerminalSize screen) {
  args.insert(args.end(), {"--address", agent.address()});
  return Ctl(args, input, screen);
}

}  // namespace svcmap::api
