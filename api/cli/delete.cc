// Implements `svcmapctl delete`.
#include "api/cli/commands.h"
#include "api/cli/inputs.h"
#include "api/cli/push.h"
#include "api/convert/protocol_version.h"

namespace svcmap::api {
namespace {

constexpr size_t kRefOverhead = 2;  // Size in bytes of a reference's tag and length.

Push MakePush(const std::vector<SentObject>& objects, bool dry_run, Client& client) {
  Push push{.objects = objects, .done = "deleted", .dry_run = dry_run};
  for (const SentObject& object : objects) {
    push.sizes.push_back(object.id.ToRef().ByteSizeLong() + kRefOverhead);
  }
  push.call = [&objects, dry_run, &client](size_t begin, size_t end) {
    v1::RemoveRequest request;
    request.set_protocol_version(kProtocolVersion);
    request.set_validate_only(dry_run);
    for (size_t i = begin; i < end; ++i) *request.add_objects() = objects[i].id.ToRef();
    return client.Remove(request);
  };
  return push;
}

}  // namespace

ExitCode Execute(const DeleteOptions& options, Session& session) {
  std::vector<SentObject> objects;
  for (const ObjectId& id : options.objects) objects.push_back({id, ""});
  const Inputs inputs = ReadInputs(options.files, "not deleted", session);
  for (const ManifestObject& object : inputs.objects) objects.push_back({IdOf(object.object), ""});
  const ExitCode read = inputs.complete ? ExitCode::kOk : ExitCode::kIncomplete;
  if (objects.empty()) {
    session.Error("no objects to delete; nothing was sent");
    return ExitCode::kIncomplete;
  }
  return Worse(read, RunPush(MakePush(objects, options.dry_run, session.client), session));
}

}  // namespace svcmap::api
