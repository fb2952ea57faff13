// Implements `svcmapctl apply` and `svcmapctl accept-snapshot`.
#include <algorithm>
#include <optional>
#include <ostream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "api/cli/commands.h"
#include "api/cli/inputs.h"
#include "api/cli/push.h"
#include "api/cli/text.h"
#include "api/convert/error_info.h"

namespace svcmap::api {
namespace {

// Maximum size in bytes of the tag and length that precede an object in an encoded request.
constexpr size_t kObjectOverhead = 6;

Push MakePush(const std::vector<ManifestObject>& objects, bool dry_run, Client& client) {
  Push push{.done = "applied", .dry_run = dry_run};
  for (const ManifestObject& object : objects) {
    push.objects.push_back({IdOf(object.object), LocationOf(object)});
    push.sizes.push_back(object.object.ByteSizeLong() + kObjectOverhead);
  }
  push.call = [&objects, dry_run, &client](size_t begin, size_t end) {
    v1::ApplyRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_validate_only(dry_run);
    for (size_t i = begin; i < end; ++i) *request.add_objects() = objects[i].object;
    return client.Apply(request);
  };
  return push;
}

// Returns the objects that the agent stores and that are not in `objects`.
absl::StatusOr<std::vector<SentObject>> ObjectsToPrune(const std::vector<ManifestObject>& objects,
                                                       Client& client) {
  std::set<ObjectId> kept;
  for (const ManifestObject& object : objects) kept.insert(IdOf(object.object));
  std::vector<SentObject> pruned;
  const absl::Status listed = client.ForEach({}, [&](const v1::Object& object) {
    if (const ObjectId id = IdOf(object); !kept.contains(id)) pruned.push_back({id, ""});
  });
  if (!listed.ok()) return listed;
  return pruned;
}

// Returns kOk if the agent would accept all objects. If the agent rejects an object, nothing may be
// pruned, because the rejected object can replace one of the pruned objects.
ExitCode TryObjects(const ApplyOptions& options, const Inputs& inputs, const Session& session) {
  if (inputs.objects.empty()) return ExitCode::kOk;
  std::ostringstream out, err;
  const Session quiet{
      session.client, session.reader, session.address, session.bundle, session.in, out, err,
      session.screen};
  const ExitCode code = RunPush(MakePush(inputs.objects, /*dry_run=*/true, session.client), quiet);
  if (options.dry_run) session.out << out.str();
  if (options.dry_run || code != ExitCode::kOk) session.err << err.str();
  if (code != ExitCode::kOk) {
    session.Error(
        "--prune: nothing was applied or pruned, because the agent would not accept all objects");
  }
  return code;
}

// Returns kOk if nothing speaks against replacing the agent's complete state.
ExitCode CheckPrune(const ApplyOptions& options, const Inputs& inputs, const Session& session) {
  if (inputs.objects.empty() && !options.allow_empty) {
    return session.Refuse(
        "--prune: nothing was sent, because the input contains no objects and all objects would "
        "be deleted; use --allow-empty to delete them");
  }
  const absl::StatusOr<v1::GetStatusResponse> status = session.client.GetStatus();
  if (!status.ok()) return session.CallFailed(status.status());
  if (options.force || !status->has_controller()) return ExitCode::kOk;
  const std::string text = absl::StrCat(
      "--prune: ", ControllerText(status->controller()),
      " is connected; --prune disconnects it, and a controller may stop when it is disconnected");
  if (options.dry_run) {
    session.Note(text);
    return ExitCode::kOk;
  }
  return session.Refuse(absl::StrCat(text, "; nothing was sent; use --force to disconnect it"));
}

// Drops warnings about conflicts with objects that the end of the snapshot has removed. Findings in
// the status are omitted if there are many.
void DropResolvedConflicts(const v1::GetStatusResponse& status, v1::Ack& ack) {
  constexpr int kMaxFindings = 100;
  if (status.findings_size() >= kMaxFindings) return;
  auto& results = *ack.mutable_results();
  const auto resolved = [&](const v1::ObjectResult& result) {
    return result.severity() == v1::WARNING && result.code() == v1::DUPLICATE &&
           std::none_of(status.findings().begin(), status.findings().end(),
                        [&](const auto& left) { return left.message() == result.message(); });
  };
  results.erase(std::remove_if(results.begin(), results.end(), resolved), results.end());
}

ExitCode Prune(const ApplyOptions& options, const Inputs& inputs, Session& session) {
  if (const ExitCode code = CheckPrune(options, inputs, session); code != ExitCode::kOk) {
    return code;
  }
  const absl::StatusOr<std::vector<SentObject>> pruned =
      ObjectsToPrune(inputs.objects, session.client);
  if (!pruned.ok()) return session.CallFailed(pruned.status());
  const ExitCode tried = TryObjects(options, inputs, session);
  if (tried != ExitCode::kOk) return tried;
  if (options.dry_run) {
    Push removal = MakeRemoval(*pruned, "pruned", /*dry_run=*/true, session.client);
    removal.can_be_held = !options.allow_empty;
    return pruned->empty() ? tried : RunPush(removal, session);
  }
  const Push push = MakePush(inputs.objects, /*dry_run=*/false, session.client);
  std::vector<v1::Object> objects;
  for (const ManifestObject& object : inputs.objects) objects.push_back(object.object);
  absl::StatusOr<v1::Ack> ack = session.client.Replace(objects, options.allow_empty);
  if (!ack.ok()) return session.CallFailed(ack.status(), CountText(objects.size(), "object"));
  if (const auto status = session.client.GetStatus(); status.ok()) {
    DropResolvedConflicts(*status, *ack);
  }
  return ReportAck(*ack, push.objects, push.done, /*dry_run=*/false, session, *pruned);
}

}  // namespace

ExitCode RunApply(const Options& all, Session& session) {
  const ApplyOptions& options = all.apply;
  const std::optional<Inputs> read = ReadObjectsToApply(options, session);
  if (!read) return ExitCode::kIncomplete;
  const Inputs& inputs = *read;
  if (options.prune) return Prune(options, inputs, session);
  if (inputs.objects.empty()) return session.Refuse("no objects to apply; nothing was sent");
  return Worse(inputs.complete ? ExitCode::kOk : ExitCode::kIncomplete,
               RunPush(MakePush(inputs.objects, options.dry_run, session.client), session));
}

ExitCode RunAcceptSnapshot(const Options& /*options*/, Session& session) {
  const absl::StatusOr<v1::Ack> ack = session.client.AcceptSnapshot();
  if (!ack.ok()) return session.CallFailed(ack.status());
  return ReportAck(*ack, {}, "", /*dry_run=*/false, session);
}

}  // namespace svcmap::api
