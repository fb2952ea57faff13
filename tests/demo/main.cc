// svcmap-demo: opens real connections through svcmap's rules in temporary network namespaces.
// Changes nothing outside these namespaces, and removes the namespaces at the end. Exits with
// status 1 if a result differs from the expectation.
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "api/manifests/manifests.h"
#include "tests/demo/print.h"
#include "tests/demo/probe.h"
#include "tests/demo/scene.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"

namespace svcmap::demo {
namespace {

using Clock = std::chrono::steady_clock;
using testing::Host;

constexpr char kManifest[] = "deploy/examples/demo.yaml";
constexpr size_t kListingLines = 12;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double Milliseconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) * 1e3 + duration.nanos() / 1e6;
}

absl::StatusOr<std::vector<v1::Object>> ReadObjects() {
  const absl::StatusOr<api::Manifests> manifests =
      api::ReadManifestPath(absl::StrCat(SVCMAP_SOURCE_DIR, "/", kManifest));
  if (!manifests.ok()) return manifests.status();
  if (!manifests->errors.empty()) {
    return absl::InvalidArgumentError(manifests->errors.front().ToString());
  }
  std::vector<v1::Object> objects;
  for (const api::ManifestObject& object : manifests->objects) objects.push_back(object.object);
  return objects;
}

void PrintAck(const std::string& what, const v1::Ack& ack, double round_trip) {
  std::printf("  %s: acknowledged %.2f ms after the gRPC request (%s, revision %llu)\n",
              what.c_str(), round_trip, v1::Outcome_Name(ack.outcome()).c_str(),
              static_cast<unsigned long long>(ack.revision()));
  if (ack.has_commit_duration()) {
    std::printf("    including %.2f ms in the queue and %.2f ms for the kernel commit\n",
                Milliseconds(ack.queue_duration()), Milliseconds(ack.commit_duration()));
  }
}

// Sends all objects as a snapshot, as a controller does after it has connected.
absl::Status PushAll(testing::PushStream& stream, const std::vector<v1::Object>& objects) {
  std::vector<v1::Change> changes;
  for (const v1::Object& object : objects) changes.push_back(testing::Upsert(object));
  if (absl::Status status = stream.Begin(); !status.ok()) return status;
  const Clock::time_point sent = Clock::now();
  const absl::StatusOr<v1::Ack> ack = stream.Batch(changes);
  const double took = MillisecondsSince(sent);
  if (!ack.ok()) return ack.status();
  if (absl::Status status = testing::CheckAck(*ack); !status.ok()) return status;
  PrintAck(absl::StrCat(objects.size(), " objects"), *ack, took);
  if (const absl::StatusOr<uint64_t> end = stream.End(); !end.ok()) return end.status();
  const absl::StatusOr<v1::Ack> end = stream.ReadAck();
  return end.ok() ? testing::CheckAck(*end) : end.status();
}

// Tries each target from each source and prints a row for each pair. Returns the number of rows
// that differ from the expectation.
int TryAll(const Scene& scene, const std::vector<Target>& targets,
           const std::vector<const Host*>& from) {
  int different = 0;
  std::string service;
  for (const Target& target : targets) {
    if (target.service != service) {
      std::printf("  -- %s\n", target.service.c_str());
      service = target.service;
    }
    for (const Host* host : from) {
      const Row row = Try(scene, *host, target);
      PrintRow(scene, row);
      different += row.ok ? 0 : 1;
    }
  }
  return different;
}

// Returns a copy of the EndpointSlice without the first endpoint.
v1::Object WithoutFirstEndpoint(v1::Object object) {
  object.mutable_endpoint_slice()->mutable_endpoints()->DeleteSubrange(0, 1);
  return object;
}

absl::StatusOr<int> ChangeAnEndpoint(const Scene& scene, testing::PushStream& stream,
                                     std::vector<v1::Object> objects) {
  std::vector<v1::Change> changes;
  for (v1::Object& object : objects) {
    if (object.endpoint_slice().metadata().namespace_() != "shop") continue;
    object = WithoutFirstEndpoint(object);
    changes.push_back(testing::Upsert(object));
  }
  const Clock::time_point sent = Clock::now();
  const absl::StatusOr<v1::Ack> ack = stream.Batch(changes);
  const double took = MillisecondsSince(sent);
  if (!ack.ok()) return ack.status();
  if (absl::Status status = testing::CheckAck(*ack); !status.ok()) return status;
  PrintAck("backend-1 removed from shop/web", *ack, took);
  PrintTableHeader(scene);
  int different = 0;
  for (const Target& target : TargetsOf(objects, scene)) {
    // Use only TCP. A UDP socket that reuses the port of an earlier socket continues the earlier
    // flow. The flow keeps its endpoint until the connection tracking entry expires.
    if (target.service != "shop/web" || target.protocol != testing::Protocol::kTcp) continue;
    const Row row = Try(scene, scene.pod(), target);
    PrintRow(scene, row);
    different += row.ok ? 0 : 1;
  }
  return different;
}

absl::Status ShowRules(const Scene& scene) {
  const absl::StatusOr<std::string> map =
      testing::RunOk({.argv = {"nft", "list", "map", "ip", "svcmap", "service-ips"},
                      .netns = &scene.node().netns()});
  if (!map.ok()) return map.status();
  std::printf("  nft list map ip svcmap service-ips\n");
  PrintListing(*map, kListingLines);
  const absl::StatusOr<std::string> chains =
      testing::RunOk({.argv = {"nft", "list", "chains", "ip"}, .netns = &scene.node().netns()});
  if (!chains.ok()) return chains.status();
  std::vector<std::string> names;
  for (size_t at = 0; (at = chains->find("chain ", at)) != std::string::npos;) {
    at += 6;
    names.push_back(chains->substr(at, chains->find(' ', at) - at));
  }
  std::printf("\n  %zu chains, independent of the number of Services:\n", names.size());
  PrintNames(names);
  return absl::OkStatus();
}

absl::StatusOr<int> Play() {
  const Clock::time_point start = Clock::now();
  if (absl::Status status = testing::NetNsAvailable(); !status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the demo requires network namespaces, run it as root: ", std::string(status.message())));
  }
  PrintTitle("Network namespaces");
  const absl::StatusOr<std::unique_ptr<Scene>> set = Scene::Set();
  if (!set.ok()) return set.status();
  Scene& scene = **set;
  PrintScene(scene);

  PrintTitle(absl::StrCat("Services from ", kManifest, ", sent over gRPC"));
  const absl::StatusOr<std::vector<v1::Object>> objects = ReadObjects();
  if (!objects.ok()) return objects.status();
  const std::vector<Target> targets = TargetsOf(*objects, scene);
  PrintService(targets);
  const absl::StatusOr<std::unique_ptr<testing::PushStream>> stream =
      scene.agent().Push("svcmap-demo");
  if (!stream.ok()) return stream.status();
  if (absl::Status status = PushAll(**stream, *objects); !status.ok()) return status;

  PrintTitle("Connections: number of answers from each backend, and the client address it saw");
  PrintTableHeader(scene);
  int different = TryAll(scene, targets, {&scene.client(), &scene.pod(), &scene.node()});
  std::printf("  -- client backend-1: sees the node's address if it reaches itself (hairpin)\n");
  for (const Target& target : targets) {
    if (target.kind != Kind::kClusterIp || target.names.empty()) continue;
    const Row row = Try(scene, *scene.backends().front(), target);
    PrintRow(scene, row);
    different += row.ok ? 0 : 1;
  }

  PrintTitle("Update: remove an endpoint");
  const absl::StatusOr<int> after = ChangeAnEndpoint(scene, **stream, *objects);
  if (!after.ok()) return after.status();
  different += *after;

  PrintTitle("Rules as listed by nft");
  if (absl::Status status = ShowRules(scene); !status.ok()) return status;
  if (absl::Status status = scene.agent().CheckServing(); !status.ok()) return status;

  if (different == 0) {
    PrintTitle(absl::StrCat("All results as expected, after ",
                            static_cast<int>(MillisecondsSince(start) / 1000 + 0.5), " s"));
  } else {
    PrintTitle(absl::StrCat("Unexpected results: ", different, " rows"));
  }
  return different;
}

}  // namespace
}  // namespace svcmap::demo

int main(int argc, char**) {
  if (argc > 1) {
    std::fprintf(stderr, "Usage: svcmap-demo\n");
    return 2;
  }
  const absl::StatusOr<int> different = svcmap::demo::Play();
  if (!different.ok()) {
    std::fprintf(stderr, "svcmap-demo: %s\n", std::string(different.status().message()).c_str());
    return 1;
  }
  return *different == 0 ? 0 : 1;
}
