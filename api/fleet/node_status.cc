#include "api/fleet/node_status.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "api/connect/target.h"
#include "api/convert/quote.h"

namespace svcmap::fleet {
namespace {

using nlohmann::json;

constexpr uint64_t kFormat = 1;  // Of the head.

// Reads the fields of a JSON object. `problem` names the first field that is missing or invalid.
struct Reader {
  json object;
  std::string problem;

  explicit Reader(std::string_view value)
      : object(json::parse(value, nullptr, /*allow_exceptions=*/false)) {
    if (!object.is_object()) problem = "must be a JSON object";
  }

  template <typename T>
  void Field(const char* name, bool (json::*has_type)() const noexcept, const char* type, T& to) {
    if (!problem.empty()) return;
    const auto field = object.find(name);
    if (field == object.end() || !((*field).*has_type)()) {
      problem = absl::StrCat(name, ": must be ", type);
      return;
    }
    to = field->template get<T>();
  }
  void Number(const char* name, uint64_t& to) {
    Field(name, &json::is_number_unsigned, "a non-negative integer", to);
  }
  void Text(const char* name, std::string& to) { Field(name, &json::is_string, "a string", to); }
  void Flag(const char* name, bool& to) { Field(name, &json::is_boolean, "true or false", to); }

  absl::Status Result(std::string_view value) const {
    if (problem.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("Invalid value: " + api::Quote(value) + ": " + problem);
  }
};

// A name or reason may contain bytes that are not UTF-8.
std::string Dump(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

absl::StatusOr<Head> ParseHead(std::string_view value) {
  Reader reader(value);
  uint64_t format = 0;
  Head head;
  reader.Number("format", format);
  if (reader.problem.empty() && format != kFormat) {
    reader.problem = absl::StrCat("format: must be ", kFormat);
  }
  reader.Number("seq", head.seq);
  reader.Number("epoch", head.epoch);
  reader.Text("nonce", head.nonce);
  if (absl::Status result = reader.Result(value); !result.ok()) return result;
  return head;
}

std::string StatusKey(const std::string& status_prefix, std::string_view node) {
  return absl::StrCat(status_prefix, "/nodes/", std::string(node));
}

std::string AskKey(const std::string& status_prefix) { return status_prefix + "/ask"; }

absl::StatusOr<std::string> AgentTarget(const std::string& address) {
  if (address.starts_with("tcp://")) return api::ParseTarget(address);
  return absl::InvalidArgumentError("Invalid value: " + api::Quote(address) +
                                    ": must be tcp://HOST:PORT");
}

std::string ToJson(const Head& head) {
  const nlohmann::ordered_json object = {
      {"format", kFormat}, {"seq", head.seq}, {"epoch", head.epoch}, {"nonce", head.nonce}};
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string ToJson(const NodeStatus& status) {
  json object = {{"seq", status.seq},
                 {"epoch", status.epoch},
                 {"revision", status.revision},
                 {"healthy", status.healthy},
                 {"reason", status.reason},
                 {"rejected", status.rejected},
                 {"held", status.held},
                 {"version", status.version},
                 {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromChrono(status.time),
                                           absl::UTCTimeZone())}};
  if (!status.agent.empty()) object["agent"] = status.agent;
  return Dump(object);
}

std::string ToJson(const Ask& ask) {
  return Dump({{"seq", ask.seq}, {"window_seconds", ask.window.count()}});
}

absl::StatusOr<NodeStatus> ParseStatus(std::string_view value) {
  Reader reader(value);
  NodeStatus status;
  uint64_t revision = 0;
  std::string text;
  reader.Number("seq", status.seq);
  reader.Number("epoch", status.epoch);
  reader.Number("revision", revision);
  reader.Flag("healthy", status.healthy);
  reader.Text("reason", status.reason);
  reader.Number("rejected", status.rejected);
  reader.Flag("held", status.held);
  reader.Text("version", status.version);
  if (reader.object.contains("agent")) reader.Text("agent", status.agent);
  reader.Text("time", text);
  status.revision = static_cast<int64_t>(revision);
  absl::Time time;
  std::string error;
  if (reader.problem.empty() && !absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    reader.problem = "time: must be a time such as \"2026-11-29T06:11:02Z\"";
  }
  if (reader.problem.empty() && time < absl::UnixEpoch()) {
    reader.problem = "time: must not be before 1970";
  }
  if (absl::Status result = reader.Result(value); !result.ok()) return result;
  status.time = absl::ToChronoTime(time);
  return status;
}

absl::StatusOr<Ask> ParseAsk(std::string_view value) {
  Reader reader(value);
  Ask ask;
  uint64_t seconds = 0;
  reader.Number("seq", ask.seq);
  reader.Number("window_seconds", seconds);
  const auto most = static_cast<uint64_t>(kLongestWindow.count());
  if (reader.problem.empty() && seconds > most) {
    reader.problem = absl::StrCat("window_seconds: must be at most ", most);
  }
  if (absl::Status result = reader.Result(value); !result.ok()) return result;
  ask.window = std::chrono::seconds(seconds);
  return ask;
}

Summary Summarize(const std::set<std::string>& names,
                  const std::map<std::string, std::string>& values, uint64_t required_seq,
                  SystemTimePoint now) {
  std::set<std::string> all = names;
  for (const auto& [name, value] : values) all.insert(name);
  Summary summary;
  for (const std::string& name : all) {
    FleetNode node{.name = name, .status = {}};
    if (const auto value = values.find(name); value != values.end()) {
      if (auto status = ParseStatus(value->second); status.ok()) node.status = *std::move(status);
    }
    node.silent = !node.status || std::chrono::abs(now - node.status->time) > kSilence;
    node.behind = node.status && node.status->seq < required_seq;
    summary.up_to_date += node.status && !node.behind ? 1 : 0;
    summary.behind += node.behind ? 1 : 0;
    summary.rejecting += node.rejecting() ? 1 : 0;
    summary.unhealthy += node.unhealthy() ? 1 : 0;
    summary.silent += node.silent ? 1 : 0;
    summary.nodes.push_back(std::move(node));
  }
  return summary;
}

bool Reached(const Summary& summary, int percent) {
  return !summary.nodes.empty() &&
         summary.up_to_date * 100 >= summary.nodes.size() * static_cast<size_t>(percent);
}

}  // namespace svcmap::fleet
