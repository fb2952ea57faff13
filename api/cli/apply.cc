// Implements `svcmapctl apply`.
#include "absl/strings/str_cat.h"
#include "api/cli/commands.h"
#include "api/cli/inputs.h"
#include "api/cli/push.h"
#include "api/cli/text.h"
#include "api/convert/protocol_version.h"

namespace svcmap::api {
namespace {

// Maximum size in bytes of the tag and length that precede an object in an encoded request.
constexpr size_t kObjectOverhead = 6;

Push MakePush(const std::vector<ManifestObject>& objects, bool dry_run, Client& client) {
  Push push{.done = "applied", .dry_run = dry_run};
  for (const ManifestObject& object : objects) {
    push.objects.push_back(
        {IdOf(object.object),
         absl::StrCat(object.source, ": document ", object.document, ", line ", object.line)});
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

// Maximum number of unknown fields that are printed one by one.
constexpr size_t kMaxUnknownPrinted = 100;

// Prints a warning for each unknown field of the objects. Returns the number of unknown fields.
size_t WarnOfUnknownFields(const Inputs& inputs, const Session& session) {
  size_t count = 0;
  for (const ManifestObject& object : inputs.objects) {
    for (const ManifestError& unknown : object.unknown_fields) {
      if (count++ < kMaxUnknownPrinted) session.Warn(unknown.ToString());
    }
  }
  if (count > kMaxUnknownPrinted) {
    session.Warn(absl::StrCat(count - kMaxUnknownPrinted, " more unknown fields"));
  }
  return count;
}

ExitCode Prune(const Inputs& inputs, Session& session) {
  if (!inputs.complete) {
    session.Error(
        "--prune: nothing was sent, because objects that could not be read would be deleted");
    return ExitCode::kIncomplete;
  }
  std::vector<v1::Object> objects;
  for (const ManifestObject& object : inputs.objects) objects.push_back(object.object);
  const absl::StatusOr<v1::Ack> ack = session.client.Replace(objects);
  if (!ack.ok()) return session.CallFailed(ack.status(), CountText(objects.size(), "object"));
  const Push push = MakePush(inputs.objects, /*dry_run=*/false, session.client);
  return ReportAck(*ack, push.objects, push.done, push.dry_run, session);
}

}  // namespace

ExitCode Execute(const ApplyOptions& options, Session& session) {
  const Inputs inputs = ReadInputs(options.files, "not sent", session);
  const size_t unknown = WarnOfUnknownFields(inputs, session);
  if (options.strict && (!inputs.complete || unknown > 0)) {
    session.Error(absl::StrCat("--strict: nothing was sent, not even ",
                               CountText(inputs.objects.size(), "valid object"),
                               unknown > 0 ? ", because fields are unknown" : ""));
    return ExitCode::kIncomplete;
  }
  if (options.prune) return Prune(inputs, session);
  const ExitCode read = inputs.complete ? ExitCode::kOk : ExitCode::kIncomplete;
  if (inputs.objects.empty()) {
    session.Error("no objects to apply; nothing was sent");
    return ExitCode::kIncomplete;
  }
  return Worse(read, RunPush(MakePush(inputs.objects, options.dry_run, session.client), session));
}

}  // namespace svcmap::api
