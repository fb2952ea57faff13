// Example controller: synchronizes an agent with a file that contains one svcmap.v1.Object as JSON
// per line.
//
//   apt-get install g++ pkg-config libgrpc++-dev libprotobuf-dev protobuf-compiler-grpc
//   P=--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin
//   protoc -I proto --cpp_out=. --grpc_out=. $P proto/svcmap/v1/*.proto
//   FLAGS="-std=c++20 -I. $(pkg-config --cflags --libs grpc++ protobuf)"
//   g++ -o controller deploy/examples/cpp/controller.cc svcmap/v1/*.cc $FLAGS
//   ./controller objects.jsonl unix:///run/svcmap/svcmap.sock [EPOCH]
//
// When the file is replaced, the controller sends the differences. FILE.sent stores the
// acknowledged objects and their token. Therefore the controller sends only differences after a
// restart of the controller or agent, unless the agent requests a snapshot. proto/README.md
// explains each step.
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <iostream>
#include <map>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "svcmap/v1/control.grpc.pb.h"

using namespace svcmap::v1;            // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

// Maps a serialized ObjectRef to the Object as JSON.
using Objects = std::map<std::string, std::string>;
constexpr int kPart = 1000;  // Objects in a batch of a snapshot.
constexpr uint64_t kEnded = UINT64_MAX;

template <typename Message>
Message Parse(const std::string& json) {
  Message message;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (!status.ok()) std::cerr << json << ": " << status.ToString() << std::endl, exit(2);
  return message;
}

template <typename T>
std::string Ref(Kind kind, const T& object) {
  ObjectRef ref;
  ref.set_kind(kind);
  ref.set_namespace_(object.metadata().namespace_());
  ref.set_name(object.metadata().name());
  return ref.SerializeAsString();
}

Objects Read(std::istream&& file) {
  Objects objects;
  if (!file) std::cerr << "cannot read the objects" << std::endl, exit(2);
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    const auto object = Parse<Object>(line);
    objects[object.has_service()          ? Ref(KIND_SERVICE, object.service())
            : object.has_endpoint_slice() ? Ref(KIND_ENDPOINT_SLICE, object.endpoint_slice())
            : object.has_node()           ? Ref(KIND_NODE, object.node())
                                          : Ref(KIND_SERVICE_CIDR, object.service_cidr())] = line;
  }
  return objects;
}

std::vector<PushRequest> Batches(const Objects& held, const Objects& wanted) {
  std::vector<PushRequest> batches;
  const auto add = [&]() -> Change& {
    if (batches.empty() || batches.back().batch().changes_size() == kPart) batches.emplace_back();
    return *batches.back().mutable_batch()->add_changes();
  };
  for (const auto& [ref, json] : wanted) {
    const auto found = held.find(ref);  // A Change has the same fields as an Object.
    if (found == held.end() || found->second != json) add() = Parse<Change>(json);
  }
  for (const auto& [ref, json] : held) {
    if (!wanted.contains(ref)) add().mutable_remove()->ParseFromString(ref);
  }
  return batches;
}

// Runs until the stream ends. Returns true if the stream was opened.
bool Session(Control::Stub& agent, const std::string& path, uint64_t epoch, grpc::Status& end) {
  // The first line is an Open message with the token. The other lines are the objects that the
  // token covers.
  std::ifstream sent(path + ".sent");
  std::string line;
  PushRequest request;
  if (std::getline(sent, line)) *request.mutable_open() = Parse<Open>(line);
  request.mutable_open()->set_name("example");
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  request.mutable_open()->set_instance(host);
  request.mutable_open()->set_protocol_version(2);
  request.mutable_open()->set_epoch(epoch);

  grpc::ClientContext context;
  const auto stream = agent.Push(&context);
  PushResponse opened;
  if (!stream->Write(request) || !stream->Read(&opened)) return end = stream->Finish(), false;
  bool resume = opened.opened().resume() == CONTINUE;
  std::cout << (resume ? "resume" : "snapshot") << std::endl;
  Objects held = resume ? Read(std::move(sent)) : Objects();

  std::atomic<uint64_t> acked = 0;  // The number of the last Ack.
  std::string token;                // The token of the last Ack.
  std::thread reader([&] {
    for (PushResponse response; stream->Read(&response);) {
      const Ack& ack = response.ack();
      std::cout << ack.number() << " " << Outcome_Name(ack.outcome()) << " revision "
                << ack.revision() << " " << ack.error();
      for (const ObjectResult& result : ack.results()) std::cout << " " << result.message();
      std::cout << std::endl;
      token = ack.state_token();
      acked = ack.number();
      acked.notify_all();
    }
    acked = kEnded;
    acked.notify_all();
  });
  for (uint64_t number = 0, seen = 0; acked != kEnded; std::this_thread::sleep_for(200ms)) {
    const Objects wanted = Read(std::ifstream(path));
    std::vector<PushRequest> requests = Batches(held, wanted);
    if (!resume) {  // Sends all objects and the end of the snapshot.
      requests.emplace(requests.begin())->mutable_snapshot_begin();
      requests.emplace_back().mutable_snapshot_end();
      resume = true;
    }
    for (PushRequest& next : requests) {
      if (!next.has_snapshot_begin()) ++number;
      if (next.has_batch()) next.mutable_batch()->set_number(number);
      if (next.has_snapshot_end()) next.mutable_snapshot_end()->set_number(number);
      stream->Write(next);  // Blocks while the agent cannot receive more messages.
    }
    while ((seen = acked) < number) acked.wait(seen);
    if (seen == number && !requests.empty()) {
      request.mutable_open()->set_state_token(token);
      std::string json;
      (void)google::protobuf::util::MessageToJsonString(request.open(), &json);
      std::ofstream file(path + ".sent");
      file << json << "\n";
      for (const auto& [ref, object] : wanted) file << object << "\n";
    }
    held = wanted;
  }
  reader.join();
  end = stream->Finish();
  return true;
}

int main(int argc, char** argv) {
  if (argc < 3) return std::cerr << "usage: controller FILE ADDRESS [EPOCH]" << std::endl, 2;
  std::string target = argv[2];
  if (target.starts_with("unix://")) target.erase(5, 2);
  const auto agent =
      Control::NewStub(grpc::CreateChannel(target, grpc::InsecureChannelCredentials()));
  for (auto wait = 1s;; wait = std::min(2 * wait, 30s)) {
    grpc::Status end;
    if (Session(*agent, argv[1], argc > 3 ? std::stoull(argv[3]) : 0, end)) wait = 1s;
    std::cout << absl::StatusCodeToString(static_cast<absl::StatusCode>(end.error_code())) << " "
              << end.error_message() << std::endl;
    if (end.error_code() == grpc::FAILED_PRECONDITION || end.error_code() == grpc::ABORTED) {
      return 1;  // Another controller is the leader.
    }
    std::this_thread::sleep_for(wait);
  }
}
