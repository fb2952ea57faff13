// Implements `svcmapctl fleet apply`, which writes objects to etcd by the rules of docs/fleet.md.
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "api/cli/commands.h"
#include "api/cli/fleet_reader.h"
#include "api/cli/inputs.h"
#include "api/cli/text.h"
#include "api/convert/convert.h"
#include "api/fleet/store.h"

namespace svcmap::api {
namespace {

using What = fleet::Change::What;

// Returns the objects of the manifests. Prints the findings that svcmapd would report. Sets `code`
// if an object is rejected.
fleet::Versions CheckObjects(const Inputs& inputs, const Session& session, ExitCode& code) {
  fleet::Versions versions;
  for (const ManifestObject& object : inputs.objects) {
    absl::StatusOr<ConvertedChange> converted = ConvertObject(object.object, ConvertContext());
    const auto error = [&](const std::string& text) {
      session.Error(absl::StrCat(LocationOf(object), ": ", text, "; not written"));
      code = ExitCode::kIncomplete;
    };
    if (!converted.ok()) {
      error(std::string(converted.status().message()));
      continue;
    }
    for (proxy::Finding& finding : converted->findings) {
      if (finding.rejected()) {
        finding.severity = proxy::Finding::Severity::kNotStored;
        error(finding.ToString());
      } else {
        session.Warn(absl::StrCat(LocationOf(object), ": ", finding.ToString()));
      }
    }
    if (!converted->change) continue;
    if (absl::Status status = fleet::AddVersion(*converted, versions); !status.ok()) {
      error(std::string(status.message()));
    }
  }
  return versions;
}

// "service/shop/web"
std::string NameOf(const fleet::Version& version) {
  return OneLine(absl::StrCat(std::string(InfoOf(version.kind).singular), "/", version.name));
}

std::string_view DoneText(What what) {
  if (what == What::kRemove) return " pruned";
  return what == What::kCreate ? " created" : " configured";
}

// Prints the changes, and writes them except with --dry-run.
ExitCode Write(const std::vector<fleet::Change>& changes, bool dry_run, fleet::Store& store,
               const Session& session) {
  const std::string_view suffix = dry_run ? " (dry run)\n" : "\n";
  size_t transactions = 0;
  for (size_t begin = 0; begin < changes.size(); ++transactions) {
    const size_t end = fleet::EndOfTransaction(changes, begin);
    const absl::Status status = dry_run ? absl::OkStatus() : store.Write(changes, begin, end);
    if (!status.ok()) {
      session.Note(absl::StrCat("at least ", begin, " of ", changes.size(),
                                " changes were written; run the command again"));
      return EtcdFailed(status, session);
    }
    for (; begin < end; ++begin) {
      session.out << NameOf(changes[begin].version) << DoneText(changes[begin].what) << suffix;
    }
  }
  session.out << "seq " << store.seq() << ", "
              << (changes.empty() ? "no changes"
                                  : absl::StrCat(CountText(changes.size(), "change"), " in ",
                                                 CountText(transactions, "transaction")))
              << suffix;
  return ExitCode::kOk;
}

ExitCode CompareAndWrite(const Options& options, const fleet::Versions& desired,
                         const Session& session) {
  const ApplyOptions& manifests = options.apply;
  fleet::Store store(options.fleet.etcd, options.fleet.prefix, "svcmapctl");
  if (absl::Status status = store.Read(); !status.ok()) return EtcdFailed(status, session);
  if (manifests.force) store.IgnoreLeader();
  if (const std::string& leader = store.leader(); !leader.empty()) {
    if (!manifests.dry_run && !manifests.force) {
      return session.Refuse(leader + "; nothing was written; use --force to write");
    }
    session.Note(leader);
  }
  const std::vector<fleet::Change> changes = store.Differences(desired, manifests.prune);
  ExitCode code = ExitCode::kOk;
  const std::string loss = store.LossOf(changes);
  if (!loss.empty() && !manifests.allow_empty) {
    code = session.Refuse(absl::StrCat("--prune: nothing was written, because it would delete ",
                                       loss, "; use --allow-empty to delete them"));
    if (!manifests.dry_run) return code;
  }
  for (const auto& [key, version] : desired) {
    if (!store.Differs(key, version)) {
      session.out << NameOf(version) << " unchanged" << (manifests.dry_run ? " (dry run)\n" : "\n");
    }
  }
  return Worse(code, Write(changes, manifests.dry_run, store, session));
}

}  // namespace

ExitCode RunFleetApply(const Options& options, Session& session) {
  const ApplyOptions& manifests = options.apply;
  const std::optional<Inputs> inputs = ReadObjectsToApply(manifests, session);
  if (!inputs) return ExitCode::kIncomplete;
  ExitCode code = inputs->complete ? ExitCode::kOk : ExitCode::kIncomplete;
  const fleet::Versions desired = CheckObjects(*inputs, session, code);
  if (manifests.prune && code != ExitCode::kOk) {
    return session.Refuse("--prune: nothing was written, because an object is rejected");
  }
  if (desired.empty() && !manifests.allow_empty) {  // --allow-empty requires --prune.
    return session.Refuse(
        manifests.prune ? "--prune: nothing was written, because the input contains no objects and "
                          "all objects would be deleted; use --allow-empty to delete them"
                        : "no objects to apply; nothing was written");
  }
  return Worse(code, CompareAndWrite(options, desired, session));
}

}  // namespace svcmap::api
