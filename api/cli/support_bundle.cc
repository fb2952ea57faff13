// Implements `svcmapctl support-bundle`.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "api/bundle/contents.h"
#include "api/bundle/name_hash.h"
#include "api/bundle/node_facts.h"
#include "api/check/target.h"
#include "api/cli/check.h"
#include "api/cli/commands.h"
#include "api/cli/fd_output.h"
#include "api/cli/http_get.h"
#include "api/cli/text.h"
#include "api/version/version.h"
#include "nft/base/lock_sockets.h"
#include "nft/base/status.h"

namespace svcmap::api {
namespace {

// Limits the time for explanations. An explanation takes up to 10 ms with 100,000 Services.
constexpr size_t kMaxExplained = 20000;
// Number of Service addresses that the check connects to.
constexpr size_t kCheckSample = 500;

constexpr char kReadme[] = R"(Support bundle of svcmap.

svcmapctl --bundle FILE status|get|explain|dump reads the files in agent/.
bundle.json lists files that are missing, with reasons.

check.txt               differences between predicted and real connections, with likely causes
agent/status.json       status of svcmapd (GetStatusResponse)
agent/objects.jsonl     stored objects, one per line
agent/explain.jsonl     explanations of all Service addresses, one per line
agent/desired.nft       desired elements
agent/applied.nft       elements that the kernel confirmed
agent/plan.nft          pending changes
agent/metrics.txt       /metrics of svcmapd
agent/configz.json      /configz of svcmapd, only with --config
node/system.txt         kernel and distribution
node/preflight.json     node checks of svcmapd and all nf_tables chains
node/sysctls.txt        network settings
node/ruleset.nft        all nf_tables tables, without elements
node/svcmap.nft         svcmap's tables in the kernel, with elements
node/iptables.txt       rules of iptables that are not in ruleset.nft
node/conntrack.txt      size of the connection tracking table, and UDP entries
node/network.txt        addresses, rules, routes and neighbour entries
node/netstat.txt        kernel counters
node/svcmapd.log        log of svcmapd

The bundle contains IP addresses and, without --hash-names, names of objects.
It contains no keys, certificates or tokens.
)";

class Bundle {
 public:
  Bundle(const BundleOptions& options, Session& session) : options_(options), session_(session) {}

  void Collect() {
    Add({"README.txt", kReadme});
    ReadAgent();
    for (BundleFile& file : CollectNodeFacts(options_.log_file, info_.missing)) {
      Add(std::move(file));
    }
  }

  bool agent_missing() const { return agent_missing_; }
  const std::vector<MissingPart>& missing() const { return info_.missing; }
  size_t size() const { return files_.size(); }
  const std::string& node() const { return node_; }

  // Returns the archive. Can be called once.
  std::string Pack(absl::Time now) {
    info_.created = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now, absl::UTCTimeZone());
    info_.version = VersionLine("svcmapctl");
    info_.hashed_names = options_.hash_names;
    if (options_.hash_names) HashNames();
    std::vector<ArchiveFile> files = {{kBundleInfoFile, BundleInfoJson(info_)}};
    for (BundleFile& file : files_) {
      files.push_back({std::move(file.name), std::move(file.content)});
    }
    return MakeArchive(files, absl::ToUnixSeconds(now));
  }

 private:
  void Add(BundleFile file) { files_.push_back(std::move(file)); }
  void Missing(const char* file, const absl::Status& status) {
    info_.missing.push_back({file, std::string(status.message())});
  }

  void ReadAgent() {
    const absl::StatusOr<v1::GetStatusResponse> status = session_.reader.GetStatus();
    if (!status.ok()) {
      agent_missing_ = true;
      const absl::Status problem =
          absl::UnavailableError(CallProblem(status.status(), session_.address));
      for (const char* file : {kStatusFile, kObjectsFile, kExplainFile, kDesiredFile, kAppliedFile,
                               kPlanFile, "check.txt"}) {
        Missing(file, problem);
      }
    } else {
      node_ = status->node_name();
      hash_.Learn(node_);
      hash_.Learn(status->controller().instance());
      Add({kStatusFile, ToJsonLine(*status), NamesIn::kJsonValues});
      ReadObjects();
      Explain();
      ReadDumps();
      if (!options_.no_check) CheckAddresses();
    }
    ReadPage("agent/metrics.txt", "/metrics");
    ReadPage("agent/configz.json", "/configz");
  }

  void ReadObjects() {
    std::string lines;
    const absl::Status listed = session_.reader.ForEach({}, [&](const v1::Object& object) {
      hash_.Learn(object);
      lines += ToJsonLine(object);
      if (object.has_service()) services_.push_back(object.service());
      if (object.has_node() && object.node().metadata().name() == node_) {
        node_addresses_ = InternalAddresses(object.node());
      }
    });
    if (!listed.ok()) return AgentPartMissing(kObjectsFile, listed);
    Add({kObjectsFile, std::move(lines), NamesIn::kJsonValues});
  }

  void Explain() {
    std::vector<CheckTarget> targets;
    for (const v1::Service& service : services_) AddTargets(service, node_addresses_, targets);
    if (targets.size() > kMaxExplained) {
      Missing(kExplainFile, absl::ResourceExhaustedError(
                                absl::StrCat("only the first ", kMaxExplained, " of ",
                                             targets.size(), " addresses are explained")));
      targets.resize(kMaxExplained);
    }
    std::string lines;
    for (const CheckTarget& target : targets) {
      const absl::StatusOr<v1::ExplainResponse> explained =
          session_.reader.Explain(ExplainRequestFor(target));
      if (!explained.ok()) {
        AgentPartMissing(kExplainFile, explained.status());
        break;
      }
      lines += ToJsonLine(*explained);
    }
    Add({kExplainFile, std::move(lines), NamesIn::kJsonValues});
  }

  void ReadDumps() {
    for (const auto& [what, file] : {std::pair(v1::DumpRequest::DESIRED, kDesiredFile),
                                     std::pair(v1::DumpRequest::APPLIED, kAppliedFile),
                                     std::pair(v1::DumpRequest::PLAN, kPlanFile)}) {
      std::string text;
      const absl::Status dumped = session_.reader.Dump(what, [&text](const std::string& part) {
        text += part;
        return true;
      });
      if (!dumped.ok()) {
        AgentPartMissing(file, dumped);
      } else {
        Add({file, std::move(text), NamesIn::kQuotes});
      }
    }
  }

  void CheckAddresses() {
    const absl::StatusOr<Place> place = Place::Own();
    CheckOptions options;
    options.sample = kCheckSample;
    const absl::StatusOr<CheckReport> report =
        place.ok() ? CheckServices(options, *place, session_.reader) : place.status();
    if (!report.ok()) return Missing("check.txt", report.status());
    std::string text = ReportText(*report);
    if (const std::string elsewhere = AgentElsewhere(LockSockets()); !elsewhere.empty()) {
      absl::StrAppend(&text, "\nNote: ", elsewhere, "\n");
    }
    for (const std::string& note : report->notes) absl::StrAppend(&text, "\nNote: ", note, "\n");
    Add({"check.txt", std::move(text), NamesIn::kText});
  }

  void ReadPage(const char* file, const char* path) {
    absl::StatusOr<std::string> page =
        HttpGet(options_.metrics_address, path, std::chrono::seconds(10));
    if (!page.ok()) return Missing(file, page.status());
    Add({file, *std::move(page), NamesIn::kQuotes});
  }

  void AgentPartMissing(const char* file, const absl::Status& status) {
    agent_missing_ = true;
    Missing(file, status);
  }

  void HashNames() {
    for (BundleFile& file : files_) {
      if (file.names == NamesIn::kText) file.content = hash_.Text(file.content);
      if (file.names == NamesIn::kQuotes) file.content = hash_.QuotedText(file.content);
      if (file.names == NamesIn::kJsonValues) file.content = hash_.JsonLines(file.content);
    }
    for (MissingPart& part : info_.missing) part.reason = hash_.Text(part.reason);
    node_ = hash_.Text(node_);
  }

  const BundleOptions& options_;
  Session& session_;
  NameHash hash_{NameHash::RandomSalt()};
  std::string node_ = "unknown";
  std::vector<v1::Service> services_;
  std::vector<IpAddress> node_addresses_;
  std::vector<BundleFile> files_;
  BundleInfo info_;
  bool agent_missing_ = false;
};

// Writes a new file that only its owner can read.
absl::Status WriteNewFile(const std::string& path, const std::string& bytes) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.ok()) return ErrnoStatus(errno, "create " + path);
  FdOutput output(fd.get());
  std::ostream(&output) << bytes << std::flush;
  return output.error() == 0 ? absl::OkStatus() : ErrnoStatus(output.error(), "write " + path);
}

// Checks that WriteNewFile can create the file. Collecting the facts can take minutes.
absl::Status CheckNewFile(const std::string& path) {
  absl::Status created = WriteNewFile(path, "");
  if (created.ok()) unlink(path.c_str());
  return created;
}

std::string PathOf(const BundleOptions& options, const std::string& node, absl::Time now) {
  if (!options.file.empty()) return options.file;
  return absl::StrCat("svcmap-bundle-", node, "-",
                      absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()), ".tar.gz");
}

}  // namespace

ExitCode RunSupportBundle(const Options& all, Session& session) {
  const BundleOptions& options = all.support_bundle;
  const absl::Time now = absl::Now();
  Bundle bundle(options, session);
  if (options.file != "-") {
    const absl::Status created = CheckNewFile(PathOf(options, bundle.node(), now));
    if (!created.ok()) return session.Refuse(std::string(created.message()));
  }
  bundle.Collect();
  const std::string bytes = bundle.Pack(now);
  std::map<std::string, std::vector<std::string>> missing;  // Files by reason.
  for (const MissingPart& part : bundle.missing()) missing[part.reason].push_back(part.file);
  for (const auto& [reason, files] : missing) {
    session.Note(absl::StrCat(absl::StrJoin(files, ", "), files.size() == 1 ? " is" : " are",
                              " missing: ", reason));
  }
  if (options.file == "-") {
    session.out << bytes;
  } else {
    const std::string path = PathOf(options, bundle.node(), now);
    if (const absl::Status written = WriteNewFile(path, bytes); !written.ok()) {
      return session.Refuse(std::string(written.message()));
    }
    session.out << path << ": " << CountText(bundle.size(), "file") << ", "
                << BytesText(bytes.size()) << '\n';
  }
  return bundle.agent_missing() ? ExitCode::kIncomplete : ExitCode::kOk;
}

}  // namespace svcmap::api
