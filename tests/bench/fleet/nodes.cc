#include "tests/bench/fleet/nodes.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "api/convert/kinds.h"
#include "tests/bench/program.h"

namespace svcmap::bench {

void ObjectSet::Apply(const std::string& bytes) {
  v1::Change change;
  if (!change.ParseFromString(bytes)) Fail("a change cannot be decoded");
  std::string key;
  if (change.has_remove()) {
    const v1::ObjectRef& ref = change.remove();
    key = absl::StrCat(ref.kind(), "/", ref.namespace_(), "/", ref.name());
  } else {
    const v1::ObjectMeta& metadata = *api::FindMetadata(change);
    key = absl::StrCat(api::FindKindOfField(change.change_case())->proto, "/",
                       metadata.namespace_(), "/", metadata.name());
  }
  const uint64_t hash = change.has_remove() ? 0 : std::hash<std::string>()(bytes);
  digest_ += hash - std::exchange(hashes_[key], hash);
}

void Node::Acknowledge() {
  for (;;) {
    const etcd::Mirror::Wake wake = mirror_.Wait(Clock::now() + std::chrono::hours(1));
    if (wake == etcd::Mirror::Wake::kEnded) return;
    if (wake == etcd::Mirror::Wake::kSnapshot) {
      mirror_.StartSnapshot();
      objects_ = {};
    }
    for (const std::string& change : mirror_.TakeChanges(1 << 20, 1 << 24)) {
      if (position() == 0 || !std::exchange(loses_change_, false)) objects_.Apply(change);
    }
    if (const auto sent = mirror_.SentPosition()) Reach(*sent);
  }
}

bool CheckNodes(const std::vector<std::unique_ptr<Node>>& nodes, uint64_t digest) {
  std::string wrong;
  int count = 0;
  etcd::FollowerFacts sum;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const etcd::FollowerFacts facts = nodes[i]->facts();
    sum.lists += facts.lists;
    sum.watches += facts.watches;
    sum.failures += facts.failures;
    sum.gaps += facts.gaps;
    sum.silences += facts.silences;
    if (nodes[i]->digest() == digest && facts.rejected_keys == 0) continue;
    if (++count <= 3) absl::StrAppend(&wrong, " n", i);
  }
  std::printf("lists %lu, watches %lu, failed requests %lu, gaps %lu, silences %lu\n", sum.lists,
              sum.watches, sum.failures, sum.gaps, sum.silences);
  if (count > 0) {
    std::printf("objects differ from the written objects on %d of %zu nodes, for example%s\n",
                count, nodes.size(), wrong.c_str());
  } else {
    std::printf("all %zu nodes have the written objects\n", nodes.size());
  }
  return count == 0;
}

void PlainNode::Run() {
  while (!stop_) {
    gate_.wait(false);
    connected_ = true;
    Need(connection_.Connect());
    const absl::Status end = position() == 0 && first_ == 0 ? List() : Watch();
    if (!end.ok() && gate_ && !stop_) ++failures_;
    if (!end.ok()) connection_.Drop();
    connected_ = false;
  }
}

absl::Status PlainNode::List() {
  std::string key = absl::StrCat(kPlainPrefix, "/state/");
  for (int64_t revision = 0;;) {
    etcdserverpb::TxnRequest read;
    etcdserverpb::RangeRequest& range = *read.add_success()->mutable_request_range();
    range.set_key(key);
    range.set_range_end(absl::StrCat(kPlainPrefix, "/state0"));
    range.set_limit(etcd::FollowerOptions().page_size);
    range.set_revision(revision);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    const auto page = connection_.Txn(read, std::chrono::minutes(10), context);
    if (!page.ok()) return page.status();
    if (revision == 0) revision = page->header().revision();
    const auto& response = page->responses(0).response_range();
    if (!response.more()) {
      Reach(static_cast<uint64_t>(revision));
      return absl::OkStatus();
    }
    key = response.kvs().rbegin()->key() + std::string(1, '\0');
  }
}

absl::Status PlainNode::Watch() {
  context_ = std::make_unique<grpc::ClientContext>();
  context_->set_wait_for_ready(true);
  const auto stub = etcdserverpb::Watch::NewStub(connection_.channel());
  const auto stream = stub->Watch(context_.get());
  etcdserverpb::WatchRequest request;
  etcdserverpb::WatchCreateRequest& create = *request.mutable_create_request();
  create.set_key(absl::StrCat(kPlainPrefix, "/state/"));
  create.set_range_end(absl::StrCat(kPlainPrefix, "/state0"));
  create.set_start_revision(static_cast<int64_t>(std::max(position(), first_)) + 1);
  stream->Write(request);
  etcdserverpb::WatchResponse response;
  while (stream->Read(&response)) {
    if (response.created() && position() == 0) Reach(first_);
    if (response.events().empty()) continue;
    Reach(static_cast<uint64_t>(response.events().rbegin()->kv().mod_revision()));
  }
  const grpc::Status end = stream->Finish();
  return absl::UnavailableError(end.error_message());
}

HungWatch::HungWatch(fleet::EtcdServers servers) : connection_(std::move(servers)) {
  Need(connection_.Connect());
  context_.set_wait_for_ready(true);
  stream_ = etcdserverpb::Watch::NewStub(connection_.channel())->Watch(&context_);
  etcdserverpb::WatchRequest request;
  request.mutable_create_request()->set_key(absl::StrCat(kPlainPrefix, "/state/"));
  request.mutable_create_request()->set_range_end(absl::StrCat(kPlainPrefix, "/state0"));
  if (!stream_->Write(request)) Fail("a watch that never reads cannot be created");
}

}  // namespace svcmap::bench
