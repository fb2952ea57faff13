// Implements `svcmapctl fleet apply`, which writes objects to etcd by the rules of docs/fleet.md.
#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <random>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "api/cli/commands.h"
#include "api/cli/fleet_reader.h"
#include "api/cli/inputs.h"
#include "api/cli/text.h"
#include "api/convert/convert.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "api/fleet/node_status.h"

namespace svcmap::api {
namespace {

using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

constexpr size_t kMaxOperations = 119;         // Without the head. etcd accepts 128.
constexpr size_t kMaxBytes = size_t{1} << 20;  // Of a transaction. etcd accepts 1.5 MiB.
constexpr size_t kMaxValueBytes = 1'400'000;   // Leaves space for the head and the comparisons.
constexpr int64_t kObjectsPerPage = 500;
constexpr size_t kMinHeld = 20;  // Minimum number of objects of a kind of which removals are held.

// A version of an object.
struct Version {
  ObjectId id;
  // The object itself, or the Service of an EndpointSlice. Changes with the same owner are in one
  // transaction if they fit.
  std::string owner;
  std::string value;
};
using Versions = std::map<std::string, Version>;  // By the key below the prefix.

struct Operation {
  Version version;
  std::string key;
  bool removes = false;
  std::string_view done;  // "created", "configured" or "pruned".

  // Endpoints are added before Services, and removed after them.
  int phase() const {
    const int added = version.id.kind == v1::KIND_SERVICE ? 1 : 0;
    return removes ? 3 - added : added;
  }
  size_t size() const { return removes ? 0 : version.value.size(); }
  auto order() const { return std::tuple(std::string_view(version.owner), phase(), key); }
};

std::string DirectoryOf(const KindInfo& kind) {
  if (kind.proto == v1::KIND_NODE) return "nodes/";
  return absl::StrCat("state/", std::string(kind.plural), "/");
}

// Returns nullopt if `key` is not the key of an object.
std::optional<ObjectId> IdOfKey(std::string_view key) {
  for (const KindInfo& kind : kKinds) {
    const std::string directory = DirectoryOf(kind);
    if (!key.starts_with(directory)) continue;
    const std::vector<std::string> names =
        absl::StrSplit(std::string(key.substr(directory.size())), '/');
    if (names.size() != (kind.namespaced ? 2 : 1)) return std::nullopt;
    return ObjectId{kind.proto, kind.namespaced ? names.front() : "", names.back()};
  }
  return std::nullopt;
}

// Returns the objects of the manifests. Prints the findings that svcmapd would report. Sets `code`
// if an object is rejected.
Versions CheckObjects(const Inputs& inputs, const Session& session, ExitCode& code) {
  Versions versions;
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
    const std::string& value = *converted->change->message();
    const ObjectId id = IdOf(object.object);
    if (value.size() > kMaxValueBytes) {
      error(absl::StrCat(id.ToString(), ": Too long: ", value.size(), " bytes: must have at most ",
                         kMaxValueBytes, " bytes"));
      continue;
    }
    const auto& slice = converted->change->slice;
    versions[DirectoryOf(InfoOf(converted->kind)) + converted->key] = {
        id, slice != nullptr && !slice->service_key.empty() ? slice->service_key : converted->key,
        value};
  }
  return versions;
}

bool Differs(const Version& version, const std::string& key, const Versions& stored) {
  const auto found = stored.find(key);
  return found == stored.end() || found->second.value != version.value;
}

std::vector<Operation> Differences(const Versions& desired, const Versions& stored, bool prune) {
  std::vector<Operation> operations;
  for (const auto& [key, version] : desired) {
    if (!Differs(version, key, stored)) continue;
    operations.push_back({version, key, false, stored.contains(key) ? "configured" : "created"});
  }
  for (const auto& [key, version] : stored) {
    if (prune && !desired.contains(key)) operations.push_back({version, key, true, "pruned"});
  }
  std::sort(operations.begin(), operations.end(),
            [](const Operation& a, const Operation& b) { return a.order() < b.order(); });
  return operations;
}

// Returns the end of the next transaction, which begins at `begin`.
size_t EndOfTransaction(const std::vector<Operation>& operations, size_t begin) {
  size_t end = begin;
  for (size_t next = begin, bytes = 0; next < operations.size();) {
    if (next - begin == kMaxOperations || bytes + operations[next].size() > kMaxBytes) {
      // The changes of one owner are only split if they do not fit into a transaction.
      return end > begin ? end : std::max(next, begin + 1);
    }
    bytes += operations[next].size();
    ++next;
    if (next == operations.size() ||
        operations[next].version.owner != operations[next - 1].version.owner) {
      end = next;
    }
  }
  return end;
}

// Returns "20 of 30 services" if the removals would remove most objects of a kind.
std::string LossOf(const std::vector<Operation>& operations, const Versions& stored) {
  std::map<v1::Kind, size_t> removed, all;
  for (const Operation& operation : operations) {
    if (operation.removes) ++removed[operation.version.id.kind];
  }
  for (const auto& [key, version] : stored) ++all[version.id.kind];
  std::vector<std::string> loss;
  for (const auto& [kind, count] : removed) {
    if (all[kind] < kMinHeld || 2 * count < all[kind]) continue;
    loss.push_back(absl::StrCat(count, " of ", all[kind], " ", std::string(WordsOf(kind).plural)));
  }
  return absl::StrJoin(loss, ", ");
}

class FleetWriter {
 public:
  FleetWriter(const FleetOptions& options, bool force)
      : head_key_(options.prefix + "/state/head"),
        leader_key_(options.prefix + "/leader"),
        prefix_(options.prefix + "/"),
        force_(force),
        connection_(options.etcd) {}

  // Reads the head before the objects, so that the comparison fails if they change afterwards.
  absl::Status Read() {
    TxnRequest read;
    read.add_success()->mutable_request_range()->set_key(head_key_);
    read.add_success()->mutable_request_range()->set_key(leader_key_);
    const absl::StatusOr<TxnResponse> found = connection_.TxnAtAnyEndpoint(read, kEtcdTimeout);
    if (!found.ok()) return found.status();
    if (found->responses_size() != 2) return absl::InternalError("etcd has answered incompletely");
    for (const etcdserverpb::KeyValue& pair : found->responses(0).response_range().kvs()) {
      const absl::StatusOr<fleet::Head> head = fleet::ParseHead(pair.value());
      if (!head.ok())
        return absl::NotFoundError(absl::StrCat(head_key_, ": ", head.status().message()));
      head_ = *head;
      head_revision_ = pair.mod_revision();
    }
    for (const etcdserverpb::KeyValue& pair : found->responses(1).response_range().kvs()) {
      leader_ = absl::StrCat(leader_key_,
                             ": a Store is the elected writer and replaces changes of other "
                             "writers: ",
                             Quote(pair.value()));
    }
    for (const char* directory : {"state/", "nodes/"}) {
      const auto take = [&](const std::string& name, const std::string& value) {
        const std::string key = directory + name;
        const std::optional<ObjectId> id = IdOfKey(key);
        if (!id) return;
        Version& version =
            stored_[key] = {*id, key.substr(DirectoryOf(WordsOf(id->kind)).size()), value};
        v1::EndpointSlice slice;
        if (id->kind != v1::KIND_ENDPOINT_SLICE || !slice.ParseFromString(value)) return;
        const auto& labels = slice.metadata().labels();
        if (const auto service = labels.find(kServiceNameLabel); service != labels.end()) {
          version.owner = absl::StrCat(id->name_space, "/", service->second);
        }
      };
      const absl::Status status =
          connection_.ReadAll({prefix_ + directory, kObjectsPerPage, false}, kEtcdTimeout, take);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Writes the operations [begin, end) in one transaction.
  absl::Status Write(const std::vector<Operation>& operations, size_t begin, size_t end) {
    const fleet::Head next{head_.seq + 1, std::max<uint64_t>(head_.epoch, 1), NewNonce()};
    TxnRequest write;
    fleet::AddCompare(head_key_, head_revision_, write);
    if (!force_) fleet::AddCompare(leader_key_, 0, write);
    fleet::AddPut(head_key_, fleet::ToJson(next), write);
    for (size_t i = begin; i < end; ++i) {
      const std::string key = prefix_ + operations[i].key;
      if (operations[i].removes) {
        write.add_success()->mutable_request_delete_range()->set_key(key);
      } else {
        fleet::AddPut(key, operations[i].version.value, write);
      }
    }
    write.add_failure()->mutable_request_range()->set_key(head_key_);
    const absl::StatusOr<TxnResponse> answer = connection_.TxnAtAnyEndpoint(write, kEtcdTimeout);
    if (!answer.ok()) return answer.status();
    head_revision_ = answer->header().revision();
    if (!answer->succeeded()) {
      // If the answer of another endpoint was lost, etcd has already applied the transaction.
      const auto& heads = answer->responses(0).response_range().kvs();
      const absl::StatusOr<fleet::Head> found =
          heads.empty() ? absl::NotFoundError("") : fleet::ParseHead(heads[0].value());
      if (!found.ok() || *found != next) {
        return absl::AbortedError(
            absl::StrCat(prefix_, ": another writer has written, or a Store was elected"));
      }
      head_revision_ = heads[0].mod_revision();
    }
    head_ = next;
    return absl::OkStatus();
  }

  const std::string& leader() const { return leader_; }  // Empty if no Store is elected.
  const Versions& stored() const { return stored_; }
  uint64_t seq() const { return head_.seq; }

 private:
  static std::string NewNonce() {
    std::random_device random;
    return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
  }

  const std::string head_key_, leader_key_, prefix_;
  const bool force_;
  fleet::EtcdConnection connection_;
  fleet::Head head_;
  int64_t head_revision_ = 0;  // 0: the head does not exist.
  std::string leader_;
  Versions stored_;
};

ExitCode Refuse(const std::string& reason, const Session& session) {
  session.Error(reason);
  return ExitCode::kIncomplete;
}

// Prints the changes, and writes them except with --dry-run.
ExitCode Write(const std::vector<Operation>& operations, bool dry_run, FleetWriter& writer,
               const Session& session) {
  const std::string_view suffix = dry_run ? " (dry run)\n" : "\n";
  size_t transactions = 0;
  for (size_t begin = 0; begin < operations.size(); ++transactions) {
    const size_t end = EndOfTransaction(operations, begin);
    const absl::Status status = dry_run ? absl::OkStatus() : writer.Write(operations, begin, end);
    if (!status.ok()) {
      session.Note(absl::StrCat("at least ", begin, " of ", operations.size(),
                                " changes were written; run the command again"));
      return EtcdFailed(status, session);
    }
    for (; begin < end; ++begin) {
      session.out << OneLine(operations[begin].version.id.ToString()) << ' '
                  << operations[begin].done << suffix;
    }
  }
  session.out << "seq " << writer.seq() << ", "
              << (operations.empty() ? "no changes"
                                     : absl::StrCat(CountText(operations.size(), "change"), " in ",
                                                    CountText(transactions, "transaction")))
              << suffix;
  return ExitCode::kOk;
}

ExitCode CompareAndWrite(const Options& options, const Versions& desired, const Session& session) {
  const ApplyOptions& manifests = options.apply;
  FleetWriter writer(options.fleet, manifests.force);
  if (absl::Status status = writer.Read(); !status.ok()) return EtcdFailed(status, session);
  if (!writer.leader().empty()) {
    if (!manifests.dry_run && !manifests.force) {
      return Refuse(writer.leader() + "; nothing was written; use --force to write", session);
    }
    session.Note(writer.leader());
  }
  const std::vector<Operation> operations = Differences(desired, writer.stored(), manifests.prune);
  ExitCode code = ExitCode::kOk;
  const std::string loss = LossOf(operations, writer.stored());
  if (!loss.empty() && !manifests.allow_empty) {
    code = Refuse(absl::StrCat("--prune: nothing was written, because it would delete ", loss,
                               "; use --allow-empty to delete them"),
                  session);
    if (!manifests.dry_run) return code;
  }
  for (const auto& [key, version] : desired) {
    if (!Differs(version, key, writer.stored())) {
      session.out << OneLine(version.id.ToString()) << " unchanged"
                  << (manifests.dry_run ? " (dry run)\n" : "\n");
    }
  }
  return Worse(code, Write(operations, manifests.dry_run, writer, session));
}

}  // namespace

ExitCode RunFleetApply(const Options& options, Session& session) {
  const ApplyOptions& manifests = options.apply;
  const std::optional<Inputs> inputs = ReadObjectsToApply(manifests, session);
  if (!inputs) return ExitCode::kIncomplete;
  ExitCode code = inputs->complete ? ExitCode::kOk : ExitCode::kIncomplete;
  const Versions desired = CheckObjects(*inputs, session, code);
  if (manifests.prune && code != ExitCode::kOk) {
    return Refuse("--prune: nothing was written, because an object is rejected", session);
  }
  if (desired.empty() && !manifests.allow_empty) {  // --allow-empty requires --prune.
    return Refuse(manifests.prune
                      ? "--prune: nothing was written, because the input contains no objects and "
                        "all objects would be deleted; use --allow-empty to delete them"
                      : "no objects to apply; nothing was written",
                  session);
  }
  return Worse(code, CompareAndWrite(options, desired, session));
}

}  // namespace svcmap::api
