#include "api/cli/push.h"

#include "absl/strings/str_cat.h"
#include "api/cli/parts.h"
#include "api/cli/text.h"
#include "api/convert/error_info.h"

namespace svcmap::api {
namespace {

constexpr size_t kRefOverhead = 2;  // Size in bytes of a reference's tag and length.

}  // namespace

Push MakeRemoval(const std::vector<SentObject>& objects, std::string_view done, bool dry_run,
                 Client& client) {
  Push push{.objects = objects, .done = done, .dry_run = dry_run};
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

std::string ControllerText(const v1::ControllerStatus& controller) {
  return absl::StrCat(
      "controller ", controller.name(),
      controller.instance().empty() ? "" : absl::StrCat(" (", controller.instance(), ")"));
}

ExitCode RunPush(const Push& push, const Session& session) {
  ExitCode code = ExitCode::kOk;
  bool split = false;
  size_t sent = 0;
  size_t tried = 0;  // Number of objects in the last request.
  const auto send = [&](size_t begin, size_t end) {
    tried = end - begin;
    const absl::StatusOr<v1::Ack> ack = push.call(begin, end);
    if (!ack.ok()) return ack.status();
    const auto first = push.objects.begin();
    const std::vector<SentObject> none, part(first + begin, first + end);
    code = Worse(code, ReportAck(*ack, push.can_be_held ? none : part, push.done, push.dry_run,
                                 session, push.can_be_held ? part : none));
    return absl::OkStatus();
  };
  const auto on_split = [&](size_t bytes) {
    if (split) return;
    split = true;
    session.Note(absl::StrCat(
        "a request of ", BytesText(bytes), " exceeds the agent's size limit and is split: ",
        push.dry_run ? "each part is evaluated independently" : "each part is applied atomically"));
  };
  const absl::Status status = SendInParts(push.sizes, send, on_split, sent);
  if (status.ok()) return code;
  if (absl::IsResourceExhausted(status)) {
    session.Error(absl::StrCat(push.objects[sent].id.ToString(), ": ", BytesText(push.sizes[sent]),
                               " exceed the agent's size limit for a request"));
  }
  code = Worse(code, session.CallFailed(status, CountText(tried, "object")));
  const size_t rest = push.objects.size() - sent - tried;
  if (sent > 0 || rest > 0) {
    session.Note(absl::StrCat(CountText(sent, "object"), " sent before the error, ", rest,
                              " remaining not sent"));
  }
  return code;
}

}  // namespace svcmap::api
