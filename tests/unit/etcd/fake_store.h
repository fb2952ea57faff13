// The part of etcd's store that svcmap-etcd reads, with its history. Written from the documentation
// of the v3 API.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "svcmap/etcd/v3/etcd.pb.h"

namespace svcmap::etcd::test {

class FakeStore {
 public:
  explicit FakeStore(std::string prefix) : prefix_(std::move(prefix)) {}

  // A value for each key, or nullopt to delete the key.
  using Changes = std::vector<std::pair<std::string, std::optional<std::string>>>;

  // One transaction of the writer. Keys are relative to the prefix.
  void Write(Changes changes) {
    changes.insert(changes.begin(), {"/state/head", Head(++seq_)});
    WriteWithoutHead(changes);
  }
  void WriteWithoutHead(const Changes& changes) {
    State next = history_.back();
    ++revision_;
    for (const auto& [key, value] : changes) {
      if (value) {
        next[prefix_ + key] = {*value, revision_};
      } else {
        next.erase(prefix_ + key);
      }
      etcdserverpb::Event& event = events_.emplace_back();
      event.set_type(value ? etcdserverpb::Event::PUT : etcdserverpb::Event::DELETE);
      event.mutable_kv()->set_key(prefix_ + key);
      event.mutable_kv()->set_mod_revision(revision_);
      if (value) event.mutable_kv()->set_value(*value);
    }
    history_.push_back(std::move(next));
  }
  std::string Head(uint64_t seq) {
    return absl::StrCat("{\"format\":1,\"seq\":", seq, ",\"epoch\":", epoch_, ",\"nonce\":\"",
                        history_name_, "-", ++nonces_, "\"}");
  }

  void Compact() { compacted_ = revision_; }
  void SetEpoch(uint64_t epoch) { epoch_ = epoch; }

  // Continues with another history from the state `back` revisions ago.
  void Restore(int64_t back) {
    revision_ -= back;
    history_.resize(static_cast<size_t>(revision_));
    std::erase_if(events_, [this](const auto& e) { return e.kv().mod_revision() > revision_; });
    seq_ -= static_cast<uint64_t>(back);  // If each revision was a transaction of the writer.
    history_name_ += "'";
  }

  int64_t revision() const { return revision_; }
  uint64_t seq() const { return seq_; }
  size_t values_read() const { return values_read_; }
  std::map<std::string, std::string> values() const {
    std::map<std::string, std::string> values;
    for (const auto& [key, value] : history_.back())
      values[key.substr(prefix_.size())] = value.value;
    return values;
  }

  absl::StatusOr<etcdserverpb::TxnResponse> Read(const etcdserverpb::TxnRequest& request) {
    etcdserverpb::TxnResponse response;
    response.mutable_header()->set_revision(revision_);
    for (const etcdserverpb::RequestOp& op : request.success()) {
      const etcdserverpb::RangeRequest& range = op.request_range();
      const int64_t revision = range.revision() == 0 ? revision_ : range.revision();
      if (revision > revision_) {
        return absl::OutOfRangeError("etcdserver: mvcc: required revision is a future revision");
      }
      if (revision < compacted_) {
        return absl::OutOfRangeError("etcdserver: mvcc: required revision has been compacted");
      }
      Fill(history_[static_cast<size_t>(revision) - 1], range,
           *response.add_responses()->mutable_response_range());
    }
    return response;
  }

  // The events of a watch since `create.start_revision`, in one response.
  etcdserverpb::WatchResponse Watch(const etcdserverpb::WatchCreateRequest& create) const {
    etcdserverpb::WatchResponse response;
    response.set_watch_id(create.watch_id());
    response.mutable_header()->set_revision(revision_);
    if (create.start_revision() < compacted_ && compacted_ <= revision_) {
      response.set_canceled(true);
      response.set_compact_revision(compacted_);
      return response;
    }
    for (const etcdserverpb::Event& event : events_) {
      const std::string& key = event.kv().key();
      const bool inside = create.range_end().empty()
                              ? key == create.key()
                              : key >= create.key() && key < create.range_end();
      if (inside && event.kv().mod_revision() >= create.start_revision()) {
        *response.add_events() = event;
      }
    }
    return response;
  }

 private:
  struct Value {
    std::string value;
    int64_t revision = 0;
  };
  using State = std::map<std::string, Value>;

  void Fill(const State& state, const etcdserverpb::RangeRequest& range,
            etcdserverpb::RangeResponse& response) {
    const std::string end =
        range.range_end().empty() ? range.key() + std::string(1, '\0') : range.range_end();
    for (auto at = state.lower_bound(range.key()); at != state.end() && at->first < end; ++at) {
      if (range.limit() != 0 && response.kvs_size() == range.limit()) {
        response.set_more(true);
        return;
      }
      etcdserverpb::KeyValue& pair = *response.add_kvs();
      pair.set_key(at->first);
      pair.set_mod_revision(at->second.revision);
      if (range.keys_only()) continue;
      pair.set_value(at->second.value);
      ++values_read_;
    }
  }

  const std::string prefix_;
  std::vector<State> history_ = {{}};  // The state of revision i + 1.
  std::vector<etcdserverpb::Event> events_;
  int64_t revision_ = 1;  // A new etcd has revision 1.
  int64_t compacted_ = 0;
  uint64_t seq_ = 0;
  uint64_t epoch_ = 1;
  int nonces_ = 0;
  std::string history_name_ = "a";
  size_t values_read_ = 0;
};

}  // namespace svcmap::etcd::test
