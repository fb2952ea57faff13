#include "api/cli/push.h"

#include <algorithm>
#include <limits>
#include <map>
#include <ostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "api/cli/text.h"
#include "api/convert/error_info.h"
#include "api/convert/fields.h"
#include "api/convert/kinds.h"
#include "proxy/ruleset/table.h"

namespace svcmap::api {
namespace {

// Maximum number of held deletions that are printed on a terminal.
constexpr size_t kMaxHeldShown = 10;

// Returns the name of an object in the agent's results, such as "service/shop/web". Invalid names
// are escaped and shortened.
std::string NameInResults(const ObjectId& id) {
  const KindInfo* kind = FindKind(id.kind);
  if (kind == nullptr) return id.ToString();
  return absl::StrCat(std::string(kind->singular), "/", KeyFor(kind->kind, id.name_space, id.name));
}

// Prints the agent's findings about individual objects. Returns the names of rejected objects in
// the results.
std::set<std::string> ReportFindings(const v1::Ack& ack, const std::vector<SentObject>& objects,
                                     const Session& session) {
  std::set<std::string> rejected;
  if (ack.results().empty()) return rejected;
  // For duplicate objects, uses the origin of the last object, because the agent uses the last
  // object.
  std::map<std::string, std::string> origins;
  for (const SentObject& object : objects) origins[NameInResults(object.id)] = object.origin;
  for (const v1::ObjectResult& result : ack.results()) {
    const std::string name = IdOf(result).ToString();
    const auto origin = origins.find(name);
    const bool known = origin != origins.end() && !origin->second.empty();
    const std::string text =
        absl::StrCat(known ? origin->second + ": " : "",
                     result.message().empty() ? name + " " + result.reason() : result.message());
    if (result.severity() == v1::REFUSED) {
      session.Error(text);
      rejected.insert(name);
    } else {
      session.Warn(text);
    }
  }
  return rejected;
}

// Returns true if the agent stores the change, but the rules of its previous run stay in effect.
bool IsNotProgrammed(const v1::Ack& ack, const Session& session) {
  if (ack.outcome() != v1::HELD || ack.held().empty()) return ack.outcome() == v1::HELD;
  const absl::StatusOr<v1::GetStatusResponse> status = session.client.GetStatus();
  return status.ok() && status->phase() == v1::PHASE_HOLDING;
}

// Example: "revision 12, committed in 1.83 ms"
std::string RevisionLine(const v1::Ack& ack, bool not_programmed) {
  std::string text = absl::StrCat("revision ", ack.revision());
  switch (ack.outcome()) {
    case v1::COMMITTED:
      absl::StrAppend(&text, ", committed");
      if (ack.has_commit_duration()) {
        absl::StrAppend(&text, " in ", DurationText(ack.commit_duration()));
      }
      if (ack.has_queue_duration()) {
        absl::StrAppend(&text, " after ", DurationText(ack.queue_duration()), " in the queue");
      }
      return text;
    case v1::UNCHANGED:
      return text + ", no kernel changes needed";
    case v1::HELD:
      return text + (not_programmed ? ", stored, not programmed" : ", deletions held");
    case v1::FAILED:
      return text + ", not committed to the kernel";
    case v1::WOULD_CHANGE:
      return absl::StrCat(text, ", would delete ", CountText(ack.dry_run().deleted(), "element"),
                          " and add ", ack.dry_run().added());
    default:
      return text + ", outcome not supported by this version of svcmapctl";
  }
}

// Example:
//   + element ip svcmap service-ips { 10.96.0.10 . tcp . 80 comment "shop/web:http" : 2.0.0.1 }
std::string ElementLine(const v1::ElementChange& element) {
  const bool added = element.change() == v1::ElementChange::ADDED;
  const bool ipv4 = element.family() == FamilyName(Family::kIpv4);
  std::string text =
      absl::StrCat(added ? "+" : "-", " element ", ipv4 ? "ip " : "ip6 ",
                   std::string(proxy::kTableName), " ", element.set(), " { ", element.key());
  if (!element.comment().empty()) absl::StrAppend(&text, " comment \"", element.comment(), "\"");
  if (!element.data().empty()) absl::StrAppend(&text, " : ", element.data());
  return OneLine(text + " }");
}

void ReportElements(const v1::DryRun& dry_run, const Session& session) {
  for (const v1::ElementChange& element : dry_run.elements()) {
    session.out << ElementLine(element) << '\n';
  }
  const auto listed = static_cast<uint64_t>(dry_run.elements_size());
  const uint64_t all = dry_run.deleted() + dry_run.added();
  if (listed < all) session.Note(absl::StrCat("showing ", listed, " of ", all, " elements"));
  if (dry_run.rewrites_tables()) {
    session.Note("the agent would rewrite its tables completely; only the differences are shown");
  }
}

constexpr size_t kRefOverhead = 2;  // Size in bytes of a reference's tag and length.

}  // namespace

ExitCode ReportAck(const v1::Ack& ack, const std::vector<SentObject>& objects,
                   std::string_view done, bool dry_run, const Session& session,
                   const std::vector<SentObject>& pruned) {
  if (dry_run && ack.outcome() != v1::WOULD_CHANGE && ack.outcome() != v1::UNCHANGED) {
    session.Error("the agent does not support dry runs and has applied the change");
    return Worse(ExitCode::kIncomplete, ReportAck(ack, objects, done, false, session, pruned));
  }
  const std::set<std::string> rejected = ReportFindings(ack, objects, session);
  const bool failed = ack.outcome() == v1::FAILED;
  // A dry run reports the loss of each change, but only pruning can be held.
  const bool held = !ack.held().empty() && (!dry_run || !pruned.empty());
  const bool not_programmed = IsNotProgrammed(ack, session);
  const std::string_view word = failed           ? "stored, not committed"
                                : not_programmed ? "stored, not programmed"
                                                 : done;
  const std::string_view suffix = dry_run ? " (dry run)\n" : "\n";
  for (const SentObject& object : objects) {
    const std::string name = NameInResults(object.id);
    session.out << name << ' ' << (rejected.contains(name) ? "rejected" : word) << suffix;
  }
  const std::string_view gone = held ? "not pruned" : word == done ? "pruned" : word;
  const bool shorten = held && session.screen.rows > 0;
  const size_t shown = shorten ? std::min(pruned.size(), kMaxHeldShown) : pruned.size();
  for (size_t i = 0; i < shown; ++i) {
    session.out << NameInResults(pruned[i].id) << ' ' << gone << suffix;
  }
  if (shown < pruned.size()) {
    session.out << "and " << pruned.size() - shown << " more " << gone << suffix;
  }
  ReportElements(ack.dry_run(), session);
  session.out << RevisionLine(ack, not_programmed) << '\n';
  if (failed) {
    session.Error(absl::StrCat(
        "the kernel rejected the change: ", ack.error(),
        "; the agent stores the change and retries, and the previous rules stay in effect"));
    return ExitCode::kKernelFailed;
  }
  if (held && dry_run) {
    return session.Refuse(absl::StrCat(
        "the agent would hold the deletions (svcmapd's flag --hold-removals), because they would "
        "remove ",
        ack.held(), "; use --allow-empty if they are intended"));
  }
  if (held) {
    session.Error(absl::StrCat(
        not_programmed ? "nothing is programmed, and the rules of the agent's previous run stay in "
                         "effect: "
                       : "",
        "the agent holds the deletions, because they would remove ", ack.held(),
        "; run \"svcmapctl accept-snapshot\" if they are intended"));
    return not_programmed ? ExitCode::kNotProgrammed : ExitCode::kIncomplete;
  }
  if (not_programmed) {
    session.Error(
        "nothing is programmed: the agent has no saved state, so the rules of its previous run "
        "stay "
        "in effect until it has received a complete state; remedy: connect a controller, or run "
        "svcmapctl apply --prune with the manifests of all objects");
    return ExitCode::kNotProgrammed;
  }
  return rejected.empty() ? ExitCode::kOk : ExitCode::kIncomplete;
}

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
  // The first request contains all objects. If it is too large, the limit is halved until a request
  // is accepted, because svcmapd reports its limit only on a Push stream, which would end the
  // controller's session.
  constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
  size_t limit = kNoLimit;
  for (size_t sent = 0; sent < push.objects.size();) {
    size_t end = sent + 1;
    size_t bytes = push.sizes[sent];
    while (end < push.sizes.size() && bytes + push.sizes[end] <= limit) bytes += push.sizes[end++];
    const absl::StatusOr<v1::Ack> ack = push.call(sent, end);
    if (ack.ok()) {
      const auto first = push.objects.begin();
      const std::vector<SentObject> none, part(first + sent, first + end);
      code = Worse(code, ReportAck(*ack, push.can_be_held ? none : part, push.done, push.dry_run,
                                   session, push.can_be_held ? part : none));
      sent = end;
      continue;
    }
    const bool too_large = absl::IsResourceExhausted(ack.status());
    if (too_large && end - sent > 1) {
      if (limit == kNoLimit) {
        session.Note(absl::StrCat("a request of ", BytesText(bytes),
                                  " exceeds the agent's size limit and is split: ",
                                  push.dry_run ? "each part is evaluated independently"
                                               : "each part is applied atomically"));
      }
      limit = bytes / 2;
      continue;
    }
    if (too_large) {
      session.Error(absl::StrCat(push.objects[sent].id.ToString(), ": ", BytesText(bytes),
                                 " exceed the agent's size limit for a request"));
    }
    code = Worse(code, session.CallFailed(ack.status(), CountText(end - sent, "object")));
    const size_t rest = push.objects.size() - end;
    if (sent > 0 || rest > 0) {
      session.Note(absl::StrCat(CountText(sent, "object"), " sent before the error, ", rest,
                                " remaining not sent"));
    }
    return code;
  }
  return code;
}

}  // namespace svcmap::api
