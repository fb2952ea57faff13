// Implements `svcmapctl delete`.
#include <map>
#include <set>

#include "api/cli/commands.h"
#include "api/cli/inputs.h"
#include "api/cli/push.h"
#include "api/cli/text.h"

namespace svcmap::api {
namespace {

// Returns the wanted objects that the agent stores.
absl::StatusOr<std::set<ObjectId>> FindStored(const std::vector<SentObject>& wanted,
                                              Reader& reader) {
  std::map<v1::Kind, std::set<ObjectId>> kinds;
  for (const SentObject& object : wanted) kinds[object.id.kind].insert(object.id);
  std::set<ObjectId> stored;
  for (const auto& entry : kinds) {
    const std::set<ObjectId>& ids = entry.second;
    const ObjectId filter = ids.size() == 1 ? *ids.begin() : ObjectId{entry.first, "", ""};
    const absl::Status listed = reader.ForEach(filter, [&](const v1::Object& object) {
      if (ids.contains(IdOf(object))) stored.insert(IdOf(object));
    });
    if (!listed.ok()) return listed;
  }
  return stored;
}

}  // namespace

ExitCode RunDelete(const Options& all, Session& session) {
  const DeleteOptions& options = all.remove;
  std::vector<SentObject> objects;
  for (const ObjectId& id : options.objects) objects.push_back({id, ""});
  const Inputs inputs = ReadInputs(options.files, "not deleted", session);
  for (const ManifestObject& object : inputs.objects) objects.push_back({IdOf(object.object), ""});
  const ExitCode read = inputs.complete ? ExitCode::kOk : ExitCode::kIncomplete;
  if (objects.empty()) return session.Refuse("no objects to delete; nothing was sent");
  const auto stored = FindStored(objects, session.client);
  if (!stored.ok()) return session.CallFailed(stored.status(), CountText(objects.size(), "object"));
  ExitCode code = read;
  std::erase_if(objects, [&](const SentObject& object) {
    if (stored->contains(object.id)) return false;
    if (options.ignore_not_found) return true;
    session.Error(NotFoundText(object.id, session.client));
    code = Worse(code, ExitCode::kIncomplete);
    return true;
  });
  if (objects.empty()) return code;
  const absl::StatusOr<v1::GetStatusResponse> status = session.client.GetStatus();
  if (status.ok() && status->has_controller()) {
    session.Note(ControllerText(status->controller()) +
                 " is connected and can send the deleted objects again");
  }
  return Worse(code,
               RunPush(MakeRemoval(objects, "deleted", options.dry_run, session.client), session));
}

}  // namespace svcmap::api
