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
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "api/manifests/manifests.h"
#include "tests/demo/probe.h"
#include "tests/support/netns.h"
#include "tests/support/process.h"

namespace svcmap::demo {
namespace {

using Clock = std::chrono::steady_clock;
using testing::Host;

constexpr size_t kColumns = 98;  // Width of the output.

std::string UpperName(testing::Protocol protocol) {
  std::string name = testing::ProtocolName(protocol);
  for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
  return name;
}

// Formats the number of answers of each backend, and the source addresses that the backends saw,
// for example "12  9 11  pod".
std::string SeenText(const Scene& scene, const Row& row, bool v6) {
  const Seen& seen = row.seen[v6];
  if (row.target.addresses[v6].empty()) return "-";
  if (!seen.strange.empty()) return seen.strange.substr(0, 22);
  std::string text;
  int known = 0;
  if (!seen.answers.empty()) {
    for (const testing::Host* backend : scene.backends()) {
      const auto found = seen.answers.find(backend->name());
      const int count = found == seen.answers.end() ? 0 : found->second;
      char cell[8];
      std::snprintf(cell, sizeof(cell), count == 0 ? "  -" : "%3d", count);
      text += cell;
      known += count;
    }
    int all = 0;
    for (const auto& [server, count] : seen.answers) all += count;
    if (all != known) absl::StrAppend(&text, " other ", all - known);
    absl::StrAppend(&text, "  ", absl::StrJoin(seen.sources, ", "));
  }
  if (seen.rejected > 0) absl::StrAppend(&text, seen.rejected, " rejected");
  if (seen.unanswered > 0) absl::StrAppend(&text, " ", seen.unanswered, " unanswered");
  return text;
}

void PrintTitle(const std::string& title) { std::printf("\n== %s\n", title.c_str()); }

void PrintScene(const Scene& scene) {
  const auto line = [](const testing::Host& host, const char* what) {
    std::printf("  %-10s %-14s %-20s %s\n", host.name().c_str(), host.v4().c_str(),
                host.v6().c_str(), what);
  };
  line(scene.node(), "node with svcmapd");
  for (const testing::Host* backend : scene.backends()) {
    line(*backend,
         backend == scene.backends().back() ? "backend on another node" : "backend on the node");
  }
  line(scene.pod(), "client pod on the node");
  line(scene.client(), "client outside the cluster");
}

// Prints the addresses of each Service port, one line per kind of address.
void PrintService(const std::vector<Target>& targets) {
  for (const Target& target : targets) {
    std::printf("  %-15s %-13s %-15s %-17s %5d/%-5s %zu endpoints\n", target.service.c_str(),
                KindName(target.kind), target.addresses[0].c_str(), target.addresses[1].c_str(),
                target.port, UpperName(target.protocol).c_str(), target.names.size());
  }
}

void PrintTableHeader(const Scene& scene) {
  std::string backends;
  for (const testing::Host* backend : scene.backends()) {
    backends += std::string(" b") + backend->name().back();
  }
  std::printf("\n  %-10s%-24s%-20s%-18s%s\n", "", "", "", " IPv4 result", " IPv6 result");
  std::printf("  %-10s%-24s%-20s%-18s%s\n", "from", "to", "expected",
              (backends + "  source").c_str(), (backends + "  source").c_str());
}

void PrintRow(const Scene& scene, const Row& row) {
  const char* const mark = row.ok ? "ok" : "DIFFERENT";
  const std::string to = absl::StrCat(KindName(row.target.kind), " ", row.target.port, "/",
                                      UpperName(row.target.protocol));
  const std::string seen[] = {SeenText(scene, row, false), SeenText(scene, row, true)};
  if (seen[0].size() <= 17 && seen[1].size() <= 17) {
    std::printf("  %-10s%-24s%-20s%-17s %-17s %s\n", row.from.c_str(), to.c_str(),
                row.expected.c_str(), seen[0].c_str(), seen[1].c_str(), mark);
    return;
  }
  std::printf("  %-10s%-24s%-20s%-35s %s\n", row.from.c_str(), to.c_str(),
              (row.expected + " (IPv4)").c_str(), seen[0].c_str(), mark);
  std::printf("  %-10s%-24s%-20s%-35s %s\n", "", "", (row.expected + " (IPv6)").c_str(),
              seen[1].c_str(), mark);
}

// Prints the first lines of an nft listing, truncates long lines, and counts the remaining lines.
void PrintListing(const std::string& listing, size_t lines) {
  const std::vector<std::string> all = absl::StrSplit(listing, '\n', absl::SkipEmpty());
  for (size_t i = 0; i < all.size() && i < lines; ++i) {
    std::string line;
    for (const char c : all[i]) line += c == '\t' ? std::string("  ") : std::string(1, c);
    if (line.size() > kColumns - 2) line = line.substr(0, kColumns - 5) + "...";
    std::printf("  %s\n", line.c_str());
  }
  if (all.size() > lines) std::printf("  ... and %zu more lines\n", all.size() - lines);
}

// Prints names separated by spaces. Wraps long lines.
void PrintNames(const std::vector<std::string>& names) {
  std::string line = " ";
  for (const std::string& name : names) {
    if (line.size() + 1 + name.size() > kColumns) {
      std::printf("%s\n", line.c_str());
      line = " ";
    }
    absl::StrAppend(&line, " ", name);
  }
  std::printf("%s\n", line.c_str());
}

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
