#include "api/fleet/store.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "api/convert/projection.h"
#include "api/convert/quote.h"
#include "svcmap/etcd/v3/etcd.grpc.pb.h"

namespace svcmap::fleet {
namespace {

using api::KindInfo;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;
using What = Change::What;

constexpr size_t kMaxOperations = 119;         // Without the head. etcd accepts 128.
constexpr size_t kMaxBytes = size_t{1} << 20;  // Of a transaction. etcd accepts 1.5 MiB.
constexpr size_t kMaxValueBytes = 1'400'000;   // Leaves space for the head and the comparisons.
constexpr int64_t kObjectsPerPage = 500;
constexpr size_t kMinHeld = 20;  // Minimum number of objects of a kind of which removals are held.

constexpr std::chrono::seconds kTimeout{10};  // For each request.
constexpr std::chrono::seconds kHeadInterval{10};
constexpr std::chrono::seconds kLease{15};
// Short, so that the lease does not expire while an etcd member hangs.
constexpr std::chrono::seconds kLeaseTimeout = kLease / 5;
constexpr std::chrono::seconds kWriteTimeout = kLease / 3;  // Of an elected Store.

std::string DirectoryOf(const KindInfo& kind) {
  if (kind.kind == proxy::Kind::kNode) return "nodes/";
  return absl::StrCat("state/", std::string(kind.plural), "/");
}

// Returns nullopt if `key` is not the key of an object.
std::optional<Version> VersionOf(std::string_view key, const std::string& value) {
  for (const KindInfo& kind : api::kKinds) {
    const std::string directory = DirectoryOf(kind);
    if (!key.starts_with(directory)) continue;
    const std::string name(key.substr(directory.size()));
    if (std::count(name.begin(), name.end(), '/') != (kind.namespaced ? 1 : 0)) return std::nullopt;
    Version version{kind.kind, name, name, value};
    v1::EndpointSlice slice;
    if (kind.kind != proxy::Kind::kEndpointSlice || !slice.ParseFromString(value)) return version;
    const auto& labels = slice.metadata().labels();
    if (const auto service = labels.find(api::kServiceNameLabel); service != labels.end()) {
      version.owner = absl::StrCat(name.substr(0, name.find('/') + 1), service->second);
    }
    return version;
  }
  return std::nullopt;
}

// Returns the stored version without the endpoints that a rejected version does not list.
Version WithoutDepartures(Version stored, const std::string& rejected_slice) {
  if (rejected_slice.empty()) return stored;
  const auto kept = api::ConvertDepartures(stored.value, rejected_slice, api::ConvertContext());
  if (kept != nullptr) stored.value = kept->message;
  return stored;
}

std::string KeyOf(const api::ConvertedChange& converted) {
  return DirectoryOf(api::InfoOf(converted.kind)) + converted.key;
}

size_t SizeOf(const Change& change) {
  return change.what == What::kRemove ? 0 : change.version.value.size();
}

// Endpoints are added before Services, and removed after them.
auto OrderOf(const Change& change) {
  const int added = change.version.kind == proxy::Kind::kService ? 1 : 0;
  return std::tuple(std::string_view(change.version.owner),
                    change.what == What::kRemove ? 3 - added : added, std::string_view(change.key));
}

// Returns whether etcd has reported that a lease does not exist. The error of a missing TLS file is
// also NOT_FOUND.
bool IsMissingLease(const absl::Status& status) {
  return absl::IsNotFound(status) && absl::EndsWith(status.message(), "requested lease not found");
}

std::string NewNonce() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

}  // namespace

absl::Status AddVersion(const api::ConvertedChange& converted, Versions& versions) {
  const KindInfo& kind = api::InfoOf(converted.kind);
  const std::string& value = *converted.change->message();
  if (value.size() > kMaxValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(kind.singular), "/", converted.key, ": Too long: ", value.size(),
                     " bytes: must have at most ", kMaxValueBytes, " bytes"));
  }
  const auto& slice = converted.change->slice;
  const bool owned = slice != nullptr && !slice->service_key.empty();
  versions[KeyOf(converted)] = {converted.kind, converted.key,
                                owned ? slice->service_key : converted.key, value};
  return absl::OkStatus();
}

size_t EndOfTransaction(const std::vector<Change>& changes, size_t begin) {
  size_t end = begin;
  for (size_t next = begin, bytes = 0; next < changes.size();) {
    if (next - begin == kMaxOperations || bytes + SizeOf(changes[next]) > kMaxBytes) {
      // The changes of one owner are only split if they do not fit into a transaction.
      return end > begin ? end : std::max(next, begin + 1);
    }
    bytes += SizeOf(changes[next]);
    ++next;
    if (next == changes.size() || changes[next].version.owner != changes[next - 1].version.owner) {
      end = next;
    }
  }
  return end;
}

Store::Store(EtcdServers servers, const std::string& prefix, std::string name)
    : prefix_(prefix + "/"),
      head_key_(prefix + "/state/head"),
      leader_key_(prefix + "/leader"),
      leader_value_(nlohmann::json({{"name", std::move(name)}, {"nonce", NewNonce()}})
                        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)),
      connection_(std::move(servers)) {}

Store::~Store() {
  if (lease_ == 0 || !connection_.Connect().ok()) return;
  grpc::ClientContext context;
  context.set_deadline(DeadlineOf(Clock::now() + kTimeout));
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease_);
  etcdserverpb::LeaseRevokeResponse answer;
  // If this fails, the lease expires.
  etcdserverpb::Lease::NewStub(connection_.channel())->LeaseRevoke(&context, request, &answer);
}

absl::Status Store::Set(const std::vector<v1::Object>& objects, bool accept_removals) {
  absl::Status problem;
  const absl::Status written = WriteDifferences(objects, accept_removals, problem);
  if (written.ok()) return problem;
  elected_ = false;  // The next call reads the head and all objects again.
  return written;
}

absl::Status Store::WriteDifferences(const std::vector<v1::Object>& objects, bool accept_removals,
                                     absl::Status& problem) {
  if (absl::Status status = Elect(); !status.ok()) return status;
  Versions desired;
  for (const v1::Object& object : objects) {
    const absl::StatusOr<api::ConvertedChange> converted =
        api::ConvertObject(object, api::ConvertContext());
    absl::Status status = converted.status();
    if (status.ok()) {
      status = converted->change ? AddVersion(*converted, desired)
                                 : absl::InvalidArgumentError(converted->findings[0].ToString());
      const auto found = stored_.find(KeyOf(*converted));
      if (!status.ok() && found != stored_.end()) {
        desired.insert({found->first, WithoutDepartures(found->second, converted->rejected_slice)});
      }
    }
    problem.Update(status);
  }
  std::vector<Change> changes = Differences(desired, /*prune=*/true);
  if (const std::string loss = LossOf(changes); !loss.empty() && !accept_removals) {
    problem.Update(absl::FailedPreconditionError(
        "the removals of the list are held, because they would remove " + loss));
    std::erase_if(changes, [](const Change& change) { return change.what == What::kRemove; });
  }
  for (size_t begin = 0; begin < changes.size();) {
    const size_t end = EndOfTransaction(changes, begin);
    if (absl::Status status = RenewLease(); !status.ok()) return status;
    if (absl::Status status = Write(changes, begin, end); !status.ok()) return status;
    begin = end;
  }
  return Beat();
}

absl::Status Store::Elect() {
  absl::Status leased = lease_ == 0 ? absl::OkStatus() : RenewLease();
  if (lease_ == 0) {
    elected_ = false;
    leased = GrantLease();
  }
  if (!leased.ok() || elected_) return leased;
  for (int64_t found_revision = 0;;) {
    TxnRequest write;
    AddCompare(leader_key_, found_revision, write);
    AddPut(leader_key_, leader_value_, write);
    write.mutable_success(0)->mutable_request_put()->set_lease(lease_);
    write.add_failure()->mutable_request_range()->set_key(leader_key_);
    const absl::StatusOr<TxnResponse> answer = connection_.TxnAtAnyEndpoint(write, kTimeout);
    if (IsMissingLease(answer.status())) lease_ = 0;
    if (!answer.ok()) return answer.status();
    leader_revision_ = answer->header().revision();
    if (answer->succeeded()) break;
    const auto& found = answer->responses(0).response_range().kvs();
    if (!found.empty() && found[0].value() != leader_value_) {
      return absl::FailedPreconditionError(
          absl::StrCat(leader_key_, ": another Store is elected: ", api::Quote(found[0].value())));
    }
    // This Store was elected before. The key may belong to an earlier lease.
    found_revision = found.empty() ? 0 : found[0].mod_revision();
    leader_revision_ = found_revision;
    if (!found.empty() && found[0].lease() == lease_) break;
  }
  if (absl::Status status = Read(); !status.ok()) return status;
  ++head_.epoch;
  head_due_ = Clock::now();
  elected_ = true;
  return absl::OkStatus();
}

absl::Status Store::Beat() {
  if (absl::Status status = RenewLease(); !status.ok()) return status;
  return Clock::now() < head_due_ ? absl::OkStatus() : Write({}, 0, 0);
}

absl::Status Store::GrantLease() {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(kLease.count());
  etcdserverpb::LeaseGrantResponse answer;
  lease_due_ = Clock::now() + kLease / 3;
  const absl::Status status = connection_.AtAnyEndpoint([&] {
    grpc::ClientContext context;
    context.set_deadline(DeadlineOf(Clock::now() + kLeaseTimeout));
    return connection_.ErrorOf(etcdserverpb::Lease::NewStub(connection_.channel())
                                   ->LeaseGrant(&context, request, &answer));
  });
  if (status.ok()) lease_ = answer.id();
  return status;
}

absl::Status Store::RenewLease() {
  const Clock::time_point now = Clock::now();
  if (now < lease_due_) return absl::OkStatus();
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease_);
  etcdserverpb::LeaseKeepAliveResponse answer;
  const absl::Status status = connection_.AtAnyEndpoint([&] {
    grpc::ClientContext context;
    context.set_deadline(DeadlineOf(Clock::now() + kLeaseTimeout));
    const auto stub = etcdserverpb::Lease::NewStub(connection_.channel());
    const auto stream = stub->LeaseKeepAlive(&context);
    stream->WriteLast(request, grpc::WriteOptions());
    bool answered = false;
    while (stream->Read(&answer)) answered = true;
    const grpc::Status finished = stream->Finish();
    if (finished.ok() && !answered) return absl::InternalError("etcd has answered incompletely");
    return connection_.ErrorOf(finished);
  });
  if (!status.ok()) return status;
  if (answer.ttl() <= 0) {
    lease_ = 0;
    return absl::AbortedError(leader_key_ + ": the lease has expired");
  }
  lease_due_ = now + kLease / 3;
  return absl::OkStatus();
}

absl::Status Store::Read() {
  // Reads the head before the objects, so that the comparison fails if they change afterwards.
  TxnRequest read;
  read.add_success()->mutable_request_range()->set_key(head_key_);
  read.add_success()->mutable_request_range()->set_key(leader_key_);
  const absl::StatusOr<TxnResponse> found = connection_.TxnAtAnyEndpoint(read, kTimeout);
  if (!found.ok()) return found.status();
  head_ = {};
  head_revision_ = 0;
  for (const etcdserverpb::KeyValue& pair : found->responses(0).response_range().kvs()) {
    const absl::StatusOr<Head> head = ParseHead(pair.value());
    if (!head.ok()) {
      return absl::NotFoundError(absl::StrCat(head_key_, ": ", head.status().message()));
    }
    head_ = *head;
    head_revision_ = pair.mod_revision();
  }
  leader_.clear();
  for (const etcdserverpb::KeyValue& pair : found->responses(1).response_range().kvs()) {
    leader_ = absl::StrCat(leader_key_,
                           ": a Store is the elected writer and replaces changes of other "
                           "writers: ",
                           api::Quote(pair.value()));
  }
  stored_.clear();
  absl::Status renewal;
  for (const char* directory : {"state/", "nodes/"}) {
    const auto take = [&](const std::string& name, const std::string& value) {
      if (lease_ != 0 && renewal.ok()) renewal = RenewLease();  // Reading many keys takes long.
      const std::string key = directory + name;
      if (std::optional<Version> version = VersionOf(key, value)) stored_[key] = *version;
    };
    const absl::Status status =
        connection_.ReadAll({prefix_ + directory, kObjectsPerPage, false}, kTimeout, take);
    if (!status.ok()) return status;
  }
  return renewal;
}

bool Store::Differs(const std::string& key, const Version& version) const {
  const auto found = stored_.find(key);
  return found == stored_.end() || found->second.value != version.value;
}

std::vector<Change> Store::Differences(const Versions& desired, bool prune) const {
  std::vector<Change> changes;
  for (const auto& [key, version] : desired) {
    if (!Differs(key, version)) continue;
    changes.push_back({stored_.contains(key) ? What::kReplace : What::kCreate, key, version});
  }
  for (const auto& [key, version] : stored_) {
    if (prune && !desired.contains(key)) changes.push_back({What::kRemove, key, version});
  }
  std::ranges::sort(changes, {}, OrderOf);
  return changes;
}

std::string Store::LossOf(const std::vector<Change>& changes) const {
  std::map<proxy::Kind, size_t> removed, all;
  for (const Change& change : changes) {
    if (change.what == What::kRemove) ++removed[change.version.kind];
  }
  for (const auto& [key, version] : stored_) ++all[version.kind];
  std::vector<std::string> loss;
  for (const auto& [kind, count] : removed) {
    if (all[kind] < kMinHeld || 2 * count < all[kind]) continue;
    loss.push_back(
        absl::StrCat(count, " of ", all[kind], " ", std::string(api::InfoOf(kind).plural)));
  }
  return absl::StrJoin(loss, ", ");
}

absl::Status Store::Write(const std::vector<Change>& changes, size_t begin, size_t end) {
  const Head next{head_.seq + 1, std::max<uint64_t>(head_.epoch, 1), NewNonce()};
  TxnRequest write;
  AddCompare(head_key_, head_revision_, write);
  if (leader_revision_) AddCompare(leader_key_, *leader_revision_, write);
  AddPut(head_key_, ToJson(next), write);
  for (size_t i = begin; i < end; ++i) {
    const std::string key = prefix_ + changes[i].key;
    if (changes[i].what == What::kRemove) {
      write.add_success()->mutable_request_delete_range()->set_key(key);
    } else {
      AddPut(key, changes[i].version.value, write);
    }
  }
  write.add_failure()->mutable_request_range()->set_key(head_key_);
  const absl::StatusOr<TxnResponse> answer =
      connection_.TxnAtAnyEndpoint(write, lease_ == 0 ? kTimeout : kWriteTimeout);
  if (!answer.ok()) return answer.status();
  head_revision_ = answer->header().revision();
  if (!answer->succeeded()) {
    // If the answer of another endpoint was lost, etcd has already applied the transaction.
    const auto& heads = answer->responses(0).response_range().kvs();
    const absl::StatusOr<Head> found =
        heads.empty() ? absl::NotFoundError("") : ParseHead(heads[0].value());
    if (!found.ok() || *found != next) {
      return absl::AbortedError(
          absl::StrCat(prefix_, ": another writer has written, or a Store was elected"));
    }
    head_revision_ = heads[0].mod_revision();
  }
  head_ = next;
  head_due_ = Clock::now() + kHeadInterval;
  for (size_t i = begin; i < end; ++i) {
    if (changes[i].what == What::kRemove) {
      stored_.erase(changes[i].key);
    } else {
      stored_[changes[i].key] = changes[i].version;
    }
  }
  return absl::OkStatus();
}

}  // namespace svcmap::fleet
