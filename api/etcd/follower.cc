#include "api/etcd/follower.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "api/log/log_value.h"

namespace svcmap::etcd {
namespace {

using api::LogValue;
using etcdserverpb::RangeRequest;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;
using etcdserverpb::WatchResponse;
using std::chrono::milliseconds;

// Time without failures after which the retry delay is reset.
constexpr std::chrono::minutes kGoodTime{1};

constexpr std::chrono::seconds kCheckTimeout{5};
constexpr std::chrono::seconds kListTimeout{30};

// Maximum delay before a list if events were lost, because the state is already old.
constexpr std::chrono::seconds kUrgentDelay{5};

// Values per request. etcd accepts at most 128 operations in a transaction.
constexpr size_t kFetchKeys = 64;
constexpr char kUnknownKey[] = "unknown key";
constexpr int64_t kKeysPerObject = 10;  // Keys are much smaller than objects.

RangeRequest& AddRange(const std::string& key, int64_t revision, TxnRequest& read) {
  RangeRequest& range = *read.add_success()->mutable_request_range();
  range.set_key(key);
  range.set_revision(revision);
  return range;
}

absl::StatusOr<Head> HeadIn(const etcdserverpb::RangeResponse& range) {
  if (range.kvs().empty()) return absl::NotFoundError("the key does not exist");
  return ParseHead(range.kvs(0).value());
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

void Log(bool warning, const std::string& text) {
  spdlog::log(warning ? spdlog::level::warn : spdlog::level::info, "{}", text);
}

}  // namespace

Follower::Follower(FollowerOptions options, Mirror& mirror, Backoff::Random random)
    : options_(std::move(options)),
      schema_(options_.prefix, options_.node_name),
      mirror_(mirror),
      backoff_(options_.first_retry, options_.last_retry, kGoodTime, std::move(random)) {}

Follower::Request Follower::Next(Clock::time_point now) {
  Request request;
  if (step_ == Step::kWatch) {
    ++facts_.watches;
    heard_ = now;
    pending_.Clear();
    etcdserverpb::WatchCreateRequest state;
    state.set_key(schema_.state());
    state.set_range_end(schema_.state_end());
    state.set_start_revision(saved_->revision + 1);
    state.set_watch_id(kStateWatch);
    state.set_fragment(true);
    etcdserverpb::WatchCreateRequest node;
    node.set_key(schema_.node());
    node.set_start_revision(node_revision_ + 1);
    node.set_watch_id(kNodeWatch);
    request.watches = {state, node};
    return request;
  }
  TxnRequest& read = request.read.emplace();
  request.timeout = kListTimeout;
  switch (step_) {
    case Step::kCheck:
      request.timeout = kCheckTimeout;
      AddRange(schema_.head(), 0, read);
      AddRange(schema_.head(), saved_->revision, read);
      AddRange(schema_.node(), 0, read);
      break;
    case Step::kList: {
      const bool first = list_.revision == 0;
      if (first) list_.started = now;
      RangeRequest& page = AddRange(first ? schema_.state() : list_.next_key, list_.revision, read);
      page.set_range_end(schema_.state_end());
      page.set_limit(options_.page_size * (list_.differences ? kKeysPerObject : 1));
      page.set_keys_only(list_.differences);
      if (first) AddRange(schema_.node(), 0, read);
      break;
    }
    default:
      for (size_t i = 0; i < std::min(kFetchKeys, list_.fetch.size()); ++i) {
        AddRange(list_.fetch[list_.fetch.size() - 1 - i], list_.revision, read);
      }
  }
  return request;
}

void Follower::Read(const TxnResponse& response, Clock::time_point now) {
  switch (step_) {
    case Step::kCheck:
      return Checked(response, now);
    case Step::kList:
      return Page(response, now);
    default:
      return Fetched(response, now);
  }
}

void Follower::Checked(const TxnResponse& response, Clock::time_point now) {
  const absl::StatusOr<Head> newest = HeadIn(response.responses(0).response_range());
  const absl::StatusOr<Head> as_saved = HeadIn(response.responses(1).response_range());
  if (!as_saved.ok() || as_saved->nonce != saved_->head.nonce) {
    ++facts_.histories;
    Log(true, absl::StrCat("etcd has another history, listing all objects; was it restored from a "
                           "backup? revision=",
                           saved_->revision, " seq=", saved_->head.seq));
    return StartList(/*differences=*/false, options_.list_delay, now);
  }
  if (!newest.ok()) return Fail(schema_.head() + ": " + Text(newest.status()), now);
  Succeeded(now);

  etcdserverpb::Event node;
  node.set_type(etcdserverpb::Event::DELETE);
  node.mutable_kv()->set_key(schema_.node());
  if (const auto& range = response.responses(2).response_range(); !range.kvs().empty()) {
    node.set_type(etcdserverpb::Event::PUT);
    *node.mutable_kv() = range.kvs(0);
  }
  std::vector<Mirror::Change> changes;
  AddChange(node, changes);
  mirror_.Apply(std::move(changes), saved_->head.seq);
  node_revision_ = response.header().revision();

  const bool same = *newest == saved_->head;
  const bool near = newest->seq >= saved_->head.seq && newest->seq - saved_->head.seq <= kMaxBehind;
  if (same && suspect_ && !std::exchange(reported_silence_, true)) {
    Log(true, absl::StrFormat("no transaction for %ds, but none is missing; is the writer running? "
                              "seq=%d",
                              options_.silence / std::chrono::seconds(1), saved_->head.seq));
  }
  if (same || (near && !suspect_)) {
    suspect_ = false;
    step_ = Step::kWatch;
    return;
  }
  if (suspect_) ++facts_.gaps;
  Log(suspect_,
      absl::StrCat(suspect_ ? "the watch has lost transactions" : "many transactions missed",
                   ", listing the differences seq=", saved_->head.seq, " newest=", newest->seq));
  const milliseconds delay =
      near ? std::min<milliseconds>(options_.list_delay, kUrgentDelay) : options_.list_delay;
  StartList(/*differences=*/true, delay, now);
}

void Follower::StartList(bool differences, milliseconds delay, Clock::time_point now) {
  list_ = List{.differences = differences};
  step_ = Step::kList;
  not_before_ = now + backoff_.RandomPart(delay);
}

void Follower::Page(const TxnResponse& response, Clock::time_point now) {
  if (list_.revision == 0) {
    list_.revision = response.header().revision();
    for (const KeyValue& pair : response.responses(1).response_range().kvs()) ListValue(pair);
  }
  const etcdserverpb::RangeResponse& page = response.responses(0).response_range();
  for (const KeyValue& pair : page.kvs()) list_.differences ? ListKey(pair) : ListValue(pair);
  if (page.more() && !page.kvs().empty()) {
    list_.next_key = page.kvs().rbegin()->key() + std::string(1, '\0');
  } else if (!list_.fetch.empty()) {
    step_ = Step::kFetch;
  } else {
    Listed(now);
  }
}

// Keeps the stored object if the key has not changed since the saved revision.
void Follower::ListKey(const KeyValue& pair) {
  const std::optional<Schema::Name> name = schema_.NameOf(pair.key());
  if (pair.key() == schema_.head() || (name && pair.mod_revision() > saved_->revision)) {
    list_.fetch.push_back(pair.key());
    return;
  }
  if (!name) return ListValue(pair);
  list_.items[static_cast<size_t>(name->resource)].push_back(
      {.key = name->object, .resource_version = {}, .change = {}});
  if (const auto known = findings_.find(pair.key()); known != findings_.end()) {
    list_.findings.emplace_back(*known);
  }
}

// If the value cannot be used, keeps the stored object, if any.
void Follower::ListValue(const KeyValue& pair) {
  if (pair.key() == schema_.head()) {
    list_.head = ParseHead(pair.value());
    return;
  }
  const std::optional<Schema::Name> name = schema_.NameOf(pair.key());
  if (!name) {
    list_.findings.emplace_back(pair.key(), kUnknownKey);
    return;
  }
  absl::StatusOr<Item> item = DecodeValue(*name, pair.value());
  if (!item.ok()) {
    list_.findings.emplace_back(pair.key(), Text(item.status()));
    item = Item{.key = name->object, .resource_version = {}, .change = {}};
  }
  list_.items[static_cast<size_t>(name->resource)].push_back(*std::move(item));
}

void Follower::Fetched(const TxnResponse& response, Clock::time_point now) {
  for (int i = 0; i < response.responses_size() && !list_.fetch.empty(); ++i) {
    for (const KeyValue& pair : response.responses(i).response_range().kvs()) ListValue(pair);
    list_.fetch.pop_back();
  }
  if (list_.fetch.empty()) Listed(now);
}

void Follower::Listed(Clock::time_point now) {
  if (!list_.head.ok()) {
    Fail(schema_.head() + ": " + Text(list_.head.status()), now);
    return Restart();
  }
  Succeeded(now);
  size_t count = 0;
  for (const std::vector<Item>& items : list_.items) count += items.size();
  Log(false, absl::StrFormat("listed %s=%d duration=%dms revision=%d seq=%d epoch=%d",
                             list_.differences ? "differences in objects" : "objects", count,
                             std::chrono::duration_cast<milliseconds>(now - list_.started).count(),
                             list_.revision, list_.head->seq, list_.head->epoch));
  mirror_.ReplaceAll(std::move(list_.items), list_.head->seq);
  ReplaceFindings(list_.findings);
  saved_ = {list_.revision, *list_.head};
  node_revision_ = list_.revision;
  suspect_ = false;
  step_ = Step::kWatch;
  list_ = {};
  ++facts_.lists;
  facts_.listed = true;
  facts_.revision = saved_->revision;
  if (facts_.head != saved_->head) facts_.last_head = now;
  facts_.head = saved_->head;
}

void Follower::Restart() {
  list_ = {};
  step_ = saved_ ? Step::kCheck : Step::kList;
}

bool Follower::Event(const WatchResponse& response, Clock::time_point now) {
  if (response.canceled()) {
    const std::string why = absl::StrCat("etcd has canceled the watch: ", response.cancel_reason());
    Failed(
        response.compact_revision() != 0 ? absl::OutOfRangeError(why) : absl::UnavailableError(why),
        now);
    return false;
  }
  Succeeded(now);
  if (response.watch_id() == kNodeWatch) {
    std::vector<Mirror::Change> changes;
    for (const etcdserverpb::Event& event : response.events()) {
      AddChange(event, changes);
      node_revision_ = std::max(node_revision_, event.kv().mod_revision());
    }
    if (!changes.empty()) mirror_.Apply(std::move(changes), saved_->head.seq);
    return true;
  }
  if (response.fragment() || pending_.events_size() > 0) {
    pending_.mutable_events()->MergeFrom(response.events());
    if (response.fragment()) return true;
  }
  const WatchResponse collected = std::exchange(pending_, {});
  const Events& events = collected.events().empty() ? response.events() : collected.events();
  for (int begin = 0, end = 0; begin < events.size(); begin = end) {
    const int64_t revision = events[begin].kv().mod_revision();
    while (end < events.size() && events[end].kv().mod_revision() == revision) ++end;
    // etcd 3.4 may send old events again.
    if (revision > saved_->revision && !TakeRevision(events, begin, end, now)) return false;
  }
  return true;
}

// Processes the events [begin, end) of one revision. Returns false if the watch is over.
bool Follower::TakeRevision(const Events& events, int begin, int end, Clock::time_point now) {
  const int64_t revision = events[begin].kv().mod_revision();
  std::vector<Mirror::Change> changes;
  std::optional<Head> head;
  for (int i = begin; i < end; ++i) {
    const etcdserverpb::Event& event = events[i];
    if (event.kv().key() != schema_.head()) {
      AddChange(event, changes);
      continue;
    }
    absl::StatusOr<Head> parsed = event.type() == etcdserverpb::Event::PUT
                                      ? ParseHead(event.kv().value())
                                      : absl::NotFoundError("the key was deleted");
    if (!parsed.ok()) return Gap(schema_.head() + ": " + Text(parsed.status()));
    head = *std::move(parsed);
  }
  if (!head) {
    // The next head shows whether events were lost.
    ++facts_.foreign;
    Log(true, absl::StrCat("a change without ", schema_.head(),
                           " was applied; is there a second writer? revision=", revision,
                           " key=", LogValue(events[begin].kv().key())));
  } else {
    if (head->seq != saved_->head.seq + 1) {
      return Gap(absl::StrCat("seq ", head->seq, " follows ", saved_->head.seq));
    }
    if (head->epoch < saved_->head.epoch) {
      Log(true, absl::StrCat("the epoch has decreased; is there a second writer? revision=",
                             revision, " epoch=", head->epoch, " before=", saved_->head.epoch));
    }
    saved_->head = *std::move(head);
    heard_ = facts_.last_head = now;
    reported_silence_ = false;
  }
  saved_->revision = revision;
  mirror_.Apply(std::move(changes), saved_->head.seq);
  ++facts_.transactions;
  facts_.revision = revision;
  facts_.head = saved_->head;
  return true;
}

void Follower::AddChange(const etcdserverpb::Event& event, std::vector<Mirror::Change>& changes) {
  const std::string& key = event.kv().key();
  const std::optional<Schema::Name> name = schema_.NameOf(key);
  if (event.type() == etcdserverpb::Event::DELETE) {
    findings_.erase(key);
    if (name)
      changes.push_back(
          {name->resource, {.key = name->object, .resource_version = {}, .change = {}}});
    return;
  }
  if (!name) return SetFinding(key, kUnknownKey);
  absl::StatusOr<Item> item = DecodeValue(*name, event.kv().value());
  if (!item.ok()) return SetFinding(key, Text(item.status()));
  findings_.erase(key);
  changes.push_back({name->resource, *std::move(item)});
}

bool Follower::Gap(const std::string& why) {
  Log(true,
      "the watch has lost transactions or a second writer exists, checking error=" + LogValue(why));
  suspect_ = reconnect_ = true;
  Restart();
  return false;
}

void Follower::Silent(Clock::time_point) {
  ++facts_.silences;
  suspect_ = reconnect_ = true;
  Restart();
}

void Follower::Failed(const absl::Status& error, Clock::time_point now) {
  if (!absl::IsOutOfRange(error)) {
    reconnect_ = true;
    Fail(Text(error), now);
    return Restart();
  }
  ++facts_.expired;
  Log(false, absl::StrCat("the revision is not available, listing all objects error=",
                          LogValue(Text(error))));
  StartList(/*differences=*/false, saved_ ? options_.list_delay : options_.first_retry, now);
}

void Follower::SetFinding(const std::string& key, const std::string& text) {
  const auto known = findings_.find(key);
  if (known == findings_.end() && findings_.size() >= kMaxFindings) return;
  if (known != findings_.end() && known->second == text) return;
  findings_[key] = text;
  Log(true, "value rejected, an earlier version stays in effect key=" + LogValue(key) +
                " error=" + LogValue(text));
}

void Follower::ReplaceFindings(const std::vector<std::pair<std::string, std::string>>& findings) {
  const std::map<std::string, std::string> before = std::exchange(findings_, {});
  for (const auto& [key, text] : findings) {
    const auto known = before.find(key);
    if (known != before.end() && known->second == text) {
      findings_[key] = text;  // Already logged.
    } else {
      SetFinding(key, text);
    }
  }
}

void Follower::Fail(const std::string& why, Clock::time_point now) {
  ++facts_.failures;
  const milliseconds wait = backoff_.Failure(now);
  not_before_ = now + wait;
  facts_.last_error = why;
  if (reported_ == why) return;
  reported_ = why;
  Log(true, absl::StrFormat("reading from etcd failed, retrying, rules stay in effect error=%s",
                            LogValue(why)));
}

void Follower::Succeeded(Clock::time_point now) {
  backoff_.Success(now);
  facts_.last_error.clear();
  if (!reported_.empty()) Log(false, "reading from etcd succeeds again");
  reported_.clear();
}

FollowerFacts Follower::facts() const {
  FollowerFacts facts = facts_;
  facts.rejected_keys = findings_.size();
  return facts;
}

}  // namespace svcmap::etcd
