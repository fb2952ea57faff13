// Tests the requests to etcd after each kind of result. The tests use a fake store and a fake
// clock.
#include "api/etcd/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "svcmap/v1/control.pb.h"
#include "tests/support/log_capture.h"
#include "tests/unit/etcd/fake_store.h"

namespace svcmap::etcd::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr char kDomain[] = "/svcmap/v1/test";

std::string WebKey(const std::string& name) { return "/state/services/shop/" + name; }

std::string Web(const std::string& name, const std::string& ip) {
  v1::Service service;
  service.mutable_metadata()->set_namespace_("shop");
  service.mutable_metadata()->set_name(name);
  service.mutable_spec()->set_cluster_ip(ip);
  return service.SerializeAsString();
}

std::string NodeValue(const std::string& name, const std::string& cidr) {
  v1::Node node;
  node.mutable_metadata()->set_name(name);
  node.mutable_spec()->add_pod_cidrs(cidr);
  return node.SerializeAsString();
}

// Formats a change as "web=10.96.0.1", "node=10.244.0.0/24", "-web" or the name of another object.
std::string Text(const std::string& bytes) {
  v1::Change change;
  EXPECT_TRUE(change.ParseFromString(bytes));
  if (change.has_remove()) return "-" + change.remove().name();
  if (change.has_node()) return "node=" + change.node().spec().pod_cidrs(0);
  if (!change.has_service()) return change.endpoint_slice().metadata().name();
  return change.service().metadata().name() + "=" + change.service().spec().cluster_ip();
}

class FollowerTest : public ::testing::Test {
 protected:
  using Request = Follower::Request;

  FollowerTest() {
    options_.prefix = kDomain;
    options_.node_name = "n1";
    options_.page_size = 3;
    Reset();
  }

  void Reset() {
    follower_.reset();
    store_ = std::make_unique<FakeStore>(kDomain);
    mirror_ = std::make_unique<Mirror>();
  }

  void Start() {
    follower_.emplace(options_, *mirror_, [this] { return random_; });
  }
  void Put(const std::string& name, const std::string& ip) {
    store_->Write({{WebKey(name), Web(name, ip)}});
  }
  void Delete(const std::string& name) { store_->Write({{WebKey(name), std::nullopt}}); }

  // Advances the clock to the time of the next request.
  Request Next() {
    waited_ = follower_->not_before() > now_ ? follower_->not_before() - now_ : seconds(0);
    now_ += waited_;
    return follower_->Next(now_);
  }
  void Answer(const Request& request) {
    if (!request.read) {
      ADD_FAILURE() << "the request is a watch";
      return;
    }
    const auto response = store_->Read(*request.read);
    response.ok() ? follower_->Read(*response, now_) : follower_->Failed(response.status(), now_);
  }
  // Sends requests and answers reads until the follower watches. Returns the watch.
  Request UntilWatch() {
    for (int i = 0; i < 1000; ++i) {
      Request request = Next();
      if (!request.read) return request;
      Answer(request);
    }
    ADD_FAILURE() << "no watch";
    return {};
  }
  Request StartWatching() {
    Start();
    return UntilWatch();
  }
  // Starts with Service "a" in the store, and discards the changes of the first list. Returns the
  // request of the watch.
  Request WatchWithA() {
    Put("a", "1");
    const Request watch = StartWatching();
    Changes();
    return watch;
  }
  // Delivers all events of both watches. Returns false if the follower has ended the watch.
  bool Deliver(const Request& watch) {
    for (const auto& create : watch.watches) {
      const etcdserverpb::WatchResponse response = store_->Watch(create);
      if (response.canceled() || response.events_size() > 0) {
        if (!follower_->Event(response, now_)) return false;
      }
    }
    return true;
  }

  // Changes in the mirror, in batches.
  std::vector<std::vector<std::string>> Batches() {
    std::vector<std::vector<std::string>> batches;
    for (;;) {
      std::vector<std::string>& batch = batches.emplace_back();
      for (const std::string& bytes : mirror_->TakeChanges(1, 1 << 30))
        batch.push_back(Text(bytes));
      if (batch.empty()) break;
    }
    batches.pop_back();
    return batches;
  }
  std::vector<std::string> Changes() {
    std::vector<std::string> changes;
    for (const auto& batch : Batches()) changes.insert(changes.end(), batch.begin(), batch.end());
    return changes;
  }
  // Returns the new log lines.
  std::string Log() {
    const std::string log = log_.Text();
    return log.substr(std::exchange(seen_log_, log.size()));
  }

  svcmap::testing::LogCapture log_;
  size_t seen_log_ = 0;  // Size of the text that Log() has returned.
  FollowerOptions options_;
  std::unique_ptr<FakeStore> store_;
  std::unique_ptr<Mirror> mirror_;
  double random_ = 0.5;
  Follower::Clock::time_point now_{std::chrono::hours(1000)};
  Follower::Clock::duration waited_{0};
  std::optional<Follower> follower_;
};

// ---- The first list ----

TEST_F(FollowerTest, AllPagesHaveTheRevisionOfTheFirst) {
  for (const char* name : {"a", "b", "c", "d", "e"}) Put(name, "1");
  const int64_t revision = store_->revision();
  Start();
  Answer(Next());
  EXPECT_EQ(waited_, seconds(0));
  EXPECT_FALSE(mirror_->complete());
  Put("a", "2");
  Delete("e");
  Put("f", "1");
  const Request watch = UntilWatch();
  ASSERT_TRUE(mirror_->complete());
  EXPECT_THAT(Changes(), UnorderedElementsAre("a=1", "b=1", "c=1", "d=1", "e=1"));
  ASSERT_THAT(watch.watches, SizeIs(2));
  EXPECT_EQ(watch.watches[0].start_revision(), revision + 1);
  EXPECT_TRUE(watch.watches[0].fragment());
  ASSERT_TRUE(Deliver(watch));
  EXPECT_THAT(Changes(), ElementsAre("a=2", "-e", "f=1"));
  EXPECT_EQ(mirror_->SentPosition(), store_->seq());
}

TEST_F(FollowerTest, AListThatIsCompactedMeanwhileStartsAgain) {
  for (const char* name : {"a", "b", "c", "d"}) Put(name, "1");
  Start();
  Answer(Next());
  Put("a", "2");
  store_->Compact();
  UntilWatch();
  EXPECT_THAT(Changes(), UnorderedElementsAre("a=2", "b=1", "c=1", "d=1"));
  EXPECT_EQ(follower_->facts().expired, 1u);
  EXPECT_EQ(follower_->facts().lists, 1u);
}

struct BadHead {
  const char* name;
  std::optional<std::string> head;
  const char* error;
};

TEST_F(FollowerTest, WithoutAUsableHeadNothingIsSent) {
  const BadHead cases[] = {
      {"no writer has written anything", std::nullopt, "state/head: the key does not exist"},
      {"no JSON", "x", "state/head: Invalid value: \"x\": must be a JSON object"},
      {"another format", R"({"format":2,"seq":1,"epoch":1,"nonce":"a"})", "format: must be 1"},
      {"no nonce", R"({"format":1,"seq":1,"epoch":1})", "nonce: must be a string"},
      {"negative", R"({"format":1,"seq":-1,"epoch":1,"nonce":"a"})",
       "seq: must be a non-negative integer"},
  };
  for (const BadHead& bad : cases) {
    SCOPED_TRACE(bad.name);
    store_->WriteWithoutHead({{WebKey("a"), Web("a", "1")}, {"/state/head", bad.head}});
    Start();
    for (int i = 0; i < 5; ++i) Answer(Next());
    EXPECT_GT(waited_, seconds(0));
    EXPECT_FALSE(mirror_->complete());
    EXPECT_THAT(follower_->facts().last_error, HasSubstr(bad.error));
  }
  Put("b", "1");
  UntilWatch();
  EXPECT_THAT(Changes(), UnorderedElementsAre("a=1", "b=1"));
}

// ---- Transactions ----

TEST_F(FollowerTest, EachTransactionIsOneBatch) {
  const Request watch = WatchWithA();
  store_->Write({{WebKey("a"), Web("a", "2")}, {WebKey("b"), Web("b", "2")}});
  store_->Write({{WebKey("c"), Web("c", "2")}});
  ASSERT_TRUE(Deliver(watch));
  EXPECT_THAT(Batches(), ElementsAre(ElementsAre("a=2", "b=2"), ElementsAre("c=2")));
}

TEST_F(FollowerTest, FragmentsAreCollected) {
  const Request watch = WatchWithA();
  store_->Write({{WebKey("a"), Web("a", "2")}, {WebKey("b"), Web("b", "2")}});
  etcdserverpb::WatchResponse first = store_->Watch(watch.watches[0]);
  etcdserverpb::WatchResponse last = first;
  first.set_fragment(true);
  first.mutable_events()->DeleteSubrange(2, 1);
  last.mutable_events()->DeleteSubrange(0, 2);
  ASSERT_TRUE(follower_->Event(first, now_));
  EXPECT_THAT(Batches(), IsEmpty());
  ASSERT_TRUE(follower_->Event(last, now_));
  EXPECT_THAT(Batches(), ElementsAre(ElementsAre("a=2", "b=2")));
}

TEST_F(FollowerTest, RepeatedEventsAreIgnored) {
  const Request watch = WatchWithA();
  Put("a", "2");
  const etcdserverpb::WatchResponse old = store_->Watch(watch.watches[0]);
  Put("a", "3");
  ASSERT_TRUE(Deliver(watch));
  ASSERT_TRUE(follower_->Event(old, now_));
  EXPECT_THAT(Changes(), ElementsAre("a=3"));
  EXPECT_EQ(follower_->facts().transactions, 2u);
}

TEST_F(FollowerTest, AChangeWithoutHeadIsAppliedAndReported) {
  const Request watch = WatchWithA();
  store_->WriteWithoutHead({{WebKey("a"), Web("a", "2")}});
  Put("b", "1");
  ASSERT_TRUE(Deliver(watch));
  EXPECT_THAT(Changes(), ElementsAre("a=2", "b=1"));
  EXPECT_EQ(follower_->facts().foreign, 1u);
  EXPECT_THAT(Log(), HasSubstr("a change without /svcmap/v1/test/state/head was applied"));
}

TEST_F(FollowerTest, ALowerEpochIsReported) {
  store_->SetEpoch(7);
  const Request watch = WatchWithA();
  store_->SetEpoch(6);
  Put("a", "2");
  ASSERT_TRUE(Deliver(watch));
  EXPECT_THAT(Log(), HasSubstr("epoch=6 before=7"));
}

// ---- Distrust ----

TEST_F(FollowerTest, AfterAGapTheDifferencesAreListed) {
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"}) Put(name, "1");
  Request watch = StartWatching();
  Changes();
  Delete("b");
  Put("c", "2");  // The watch loses these events.
  watch.watches[0].set_start_revision(store_->revision() + 1);
  Put("h", "1");
  EXPECT_FALSE(Deliver(watch));
  EXPECT_THAT(Log(), HasSubstr("seq 10 follows 7"));
  EXPECT_THAT(Changes(), IsEmpty());

  const size_t values = store_->values_read();
  EXPECT_TRUE(follower_->TakeReconnect());
  Answer(Next());
  Answer(Next());
  EXPECT_EQ(waited_, milliseconds(2500));  // Half of the maximum delay after a gap.
  watch = UntilWatch();
  EXPECT_THAT(Batches(), ElementsAre(UnorderedElementsAre("c=2", "h=1", "-b")));
  EXPECT_EQ(store_->values_read() - values, 2u + 3u);  // The heads, and the head, c and h.
  EXPECT_EQ(follower_->facts().gaps, 1u);
  Put("a", "2");
  ASSERT_TRUE(Deliver(watch));
  EXPECT_THAT(Changes(), ElementsAre("a=2"));
}

TEST_F(FollowerTest, ADeletedHeadRemovesNothing) {
  const Request watch = WatchWithA();
  store_->WriteWithoutHead({{"/state/head", std::nullopt}, {WebKey("a"), std::nullopt}});
  EXPECT_FALSE(Deliver(watch));
  for (int i = 0; i < 5; ++i) Answer(Next());
  EXPECT_THAT(follower_->facts().last_error, HasSubstr("head: the key does not exist"));
  EXPECT_THAT(Changes(), IsEmpty());
  Put("b", "1");
  UntilWatch();
  EXPECT_THAT(Changes(), UnorderedElementsAre("b=1", "-a"));
}

TEST_F(FollowerTest, SilenceIsMeasuredFromTheLastHead) {
  const Request watch = WatchWithA();
  EXPECT_EQ(follower_->silence_deadline(), now_ + seconds(30));
  now_ += seconds(20);
  store_->WriteWithoutHead({{WebKey("a"), Web("a", "2")}});
  ASSERT_TRUE(Deliver(watch));
  EXPECT_EQ(follower_->silence_deadline(), now_ + seconds(10));
  Put("a", "3");
  ASSERT_TRUE(Deliver(watch));
  EXPECT_EQ(follower_->silence_deadline(), now_ + seconds(30));
}

TEST_F(FollowerTest, AfterSilenceTheHeadDecides) {
  Put("a", "1");
  StartWatching();
  Log();
  for (int i = 0; i < 3; ++i) {
    now_ += seconds(30);
    follower_->Silent(now_);
    EXPECT_TRUE(follower_->TakeReconnect());
    const Request check = Next();
    EXPECT_EQ(waited_, seconds(0));
    Answer(check);
    EXPECT_FALSE(Next().read);
    EXPECT_EQ(Log().find("no transaction for 30s") != std::string::npos, i == 0);
  }
  EXPECT_EQ(follower_->facts().lists, 1u);
  Changes();

  Put("a", "2");  // The watch is dead.
  now_ += seconds(30);
  follower_->Silent(now_);
  UntilWatch();
  EXPECT_THAT(Changes(), ElementsAre("a=2"));
  EXPECT_EQ(follower_->facts().lists, 2u);
}

// ---- Resuming ----

struct Resume {
  const char* name;
  int missed;
  bool lists;
};

TEST_F(FollowerTest, AWatchResumesIfFewTransactionsAreMissing) {
  const Resume cases[] = {{"none", 0, false}, {"most", 100, false}, {"too many", 101, true}};
  for (const Resume& resume : cases) {
    SCOPED_TRACE(resume.name);
    Put("a", "0");
    const Request before = StartWatching();
    Changes();
    for (int i = 1; i <= resume.missed; ++i) Put("a", std::to_string(i));
    follower_->Failed(absl::UnavailableError("connection refused"), now_);
    Answer(Next());
    EXPECT_EQ(waited_, milliseconds(600));  // Half of the delay, and half of the rest by chance.
    const Request next = Next();
    EXPECT_EQ(next.read.has_value(), resume.lists);
    EXPECT_EQ(waited_, resume.lists ? seconds(5) : seconds(0));
    if (resume.lists) {
      Answer(next);
      UntilWatch();
    } else {
      EXPECT_EQ(next.watches[0].start_revision(), before.watches[0].start_revision());
      ASSERT_TRUE(Deliver(next));
    }
    if (resume.missed > 0) {
      EXPECT_THAT(Changes(), ElementsAre("a=" + std::to_string(resume.missed)));
    }
  }
}

struct History {
  const char* name;
  std::function<void(FakeStore&)> change;
  std::vector<std::string> changes;
  uint64_t histories = 0, expired = 0;
};

// The store has "a", "b" and "c" in three transactions, and the follower has all of them.
TEST_F(FollowerTest, AfterARestoreOrACompactionEverythingIsListed) {
  const auto put = [](FakeStore& store, const std::string& name) {
    store.Write({{WebKey(name), Web(name, "9")}});
  };
  const History cases[] = {
      {"older backup", [](auto& store) { store.Restore(2); }, {"-b", "-c"}, 0, 1},
      {"older backup that has caught up",
       [&](auto& store) {
         store.Restore(2);
         put(store, "x");
         put(store, "y");
       },
       {"x=9", "y=9", "-b", "-c"},
       1,
       0},
      {"older backup that has more transactions",
       [&](auto& store) {
         store.Restore(1);
         for (const char* name : {"x", "y", "z"}) put(store, name);
       },
       {"x=9", "y=9", "z=9", "-c"},
       1,
       0},
      {"new cluster",
       [&](auto&) {
         store_ = std::make_unique<FakeStore>(kDomain);
         store_->Restore(0);
         put(*store_, "a");
       },
       {"a=9", "-b", "-c"},
       0,
       1},
      {"compacted",
       [&](auto& store) {
         put(store, "a");
         put(store, "b");
         store.Compact();
       },
       {"a=9", "b=9"},
       0,
       1},
  };
  for (const History& history : cases) {
    SCOPED_TRACE(history.name);
    Reset();
    for (const char* name : {"a", "b", "c"}) Put(name, "1");
    StartWatching();
    Changes();
    history.change(*store_);
    follower_->Failed(absl::UnavailableError("connection refused"), now_);
    Answer(Next());
    const Request list = Next();
    EXPECT_EQ(waited_, seconds(5));
    ASSERT_TRUE(list.read);
    EXPECT_FALSE(list.read->success(0).request_range().keys_only());
    Answer(list);
    const Request watch = UntilWatch();
    EXPECT_THAT(Changes(), ::testing::UnorderedElementsAreArray(history.changes));
    EXPECT_EQ(follower_->facts().histories, history.histories);
    EXPECT_EQ(follower_->facts().expired, history.expired);
    Put("late", "1");
    ASSERT_TRUE(Deliver(watch));
    EXPECT_THAT(Changes(), ElementsAre("late=1"));
  }
}

TEST_F(FollowerTest, FailuresAreLoggedOnceAndUseAnotherEndpoint) {
  Put("a", "1");
  Start();
  Follower::Clock::duration longest{0};
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(follower_->TakeReconnect(), i > 0);
    Next();
    longest = std::max(longest, waited_);
    follower_->Failed(absl::UnavailableError("m1:2379: connection refused"), now_);
  }
  EXPECT_EQ(longest, milliseconds(7500));  // Of 10 s.
  EXPECT_EQ(Log(),
            "warning: reading from etcd failed, retrying, rules stay in effect error=\"m1:2379: "
            "connection "
            "refused\"\n");
  UntilWatch();
  EXPECT_THAT(Log(), HasSubstr("reading from etcd succeeds again"));
  EXPECT_EQ(follower_->facts().failures, 10u);
}

// ---- Values ----

TEST_F(FollowerTest, AValueThatCannotBeUsedIsNamedAndTheEarlierVersionStays) {
  const Request watch = WatchWithA();
  Log();
  store_->Write({{WebKey("a"), "{"}, {WebKey("b"), Web("b", "1")}});
  store_->Write({{WebKey("c"), Web("other", "1")}, {"/state/colour", "red"}});
  ASSERT_TRUE(Deliver(watch));
  EXPECT_THAT(Changes(), ElementsAre("b=1"));
  EXPECT_EQ(follower_->facts().rejected_keys, 3u);
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr("key=/svcmap/v1/test/state/services/shop/a error=\"JSON"));
  EXPECT_THAT(log, HasSubstr("services/shop/c error=\"metadata: the object is \\\"shop/other\\\""));
  EXPECT_THAT(log, HasSubstr("key=/svcmap/v1/test/state/colour error=\"unknown key\""));

  // Lists keep the objects and log nothing again.
  for (const bool differences : {true, false}) {
    for (int i = 0; i < 101; ++i) Put("b", std::to_string(i));
    if (!differences) store_->Compact();
    follower_->Failed(absl::UnavailableError("x"), now_);
    UntilWatch();
    EXPECT_THAT(Changes(), ElementsAre("b=100"));
    EXPECT_EQ(follower_->facts().rejected_keys, 3u);
    EXPECT_THAT(Log(), Not(HasSubstr("rejected")));
    Put("b", "1");
    ASSERT_TRUE(Deliver(UntilWatch()));
    Changes();
  }

  const Request last = UntilWatch();
  Put("a", "2");
  Delete("c");
  store_->Write({{"/state/colour", std::nullopt}});
  ASSERT_TRUE(Deliver(last));
  EXPECT_THAT(Changes(), ElementsAre("a=2"));
  EXPECT_EQ(follower_->facts().rejected_keys, 0u);
}

TEST_F(FollowerTest, FindingsAreBounded) {
  const Request watch = WatchWithA();
  for (size_t i = 0; i < Follower::kMaxFindings + 5; ++i) {
    store_->Write({{"/state/x" + std::to_string(i), "1"}});
  }
  ASSERT_TRUE(Deliver(watch));
  EXPECT_EQ(follower_->facts().rejected_keys, Follower::kMaxFindings);
}

TEST_F(FollowerTest, OnlyTheOwnNodeIsRead) {
  store_->Write({{"/nodes/n1", NodeValue("n1", "1")}, {"/nodes/n2", NodeValue("n2", "2")}});
  Request watch = StartWatching();
  EXPECT_THAT(Changes(), ElementsAre("node=1"));
  store_->Write({{"/nodes/n1", NodeValue("n1", "3")}, {"/nodes/n2", NodeValue("n2", "4")}});
  ASSERT_TRUE(Deliver(watch));
  EXPECT_THAT(Changes(), ElementsAre("node=3"));

  // A check also reads the node, because the watch of the state may be ahead of its watch.
  store_->Write({{"/nodes/n1", NodeValue("n1", "5")}});
  ASSERT_TRUE(follower_->Event(store_->Watch(watch.watches[0]), now_));
  follower_->Failed(absl::UnavailableError("x"), now_);
  watch = UntilWatch();
  EXPECT_THAT(Changes(), ElementsAre("node=5"));
  EXPECT_EQ(watch.watches[1].start_revision(), store_->revision() + 1);
  store_->Write({{"/nodes/n1", std::nullopt}});
  ASSERT_TRUE(Deliver(watch));
  EXPECT_THAT(Changes(), ElementsAre("-n1"));
}

// ---- Everything together ----

// After any sequence of changes, lost events, failures, compactions and restores, the agent has the
// objects of the store.
TEST_F(FollowerTest, TheAgentHasTheObjectsOfTheStoreInTheEnd) {
  for (unsigned seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    std::minstd_rand engine(seed);
    const auto chance = [&](unsigned of) { return engine() % of == 0; };
    Reset();
    Put("a", "1");
    Request watch = StartWatching();
    std::map<std::string, std::string> agent;
    const auto push = [&] {
      if (mirror_->snapshot_wanted()) {
        mirror_->StartSnapshot();
        agent.clear();
      }
      for (const std::string& change : Changes()) {
        const size_t equal = change.find('=');
        if (equal == std::string::npos) {
          agent.erase(change.substr(1));
        } else {
          agent[change.substr(0, equal)] = change.substr(equal + 1);
        }
      }
    };
    int64_t oldest = store_->revision();  // A restore does not go back beyond a compaction.
    for (int round = 0; round < 40; ++round) {
      for (unsigned i = engine() % 5 * (chance(8) ? 60 : 1); i > 0; --i) {
        const std::string name(1, static_cast<char>('a' + engine() % 20));
        chance(3) ? Delete(name) : Put(name, std::to_string(engine() % 1000));
      }
      bool alive = true;
      switch (engine() % 6) {
        case 0:  // The watch loses events.
          watch.watches[0].set_start_revision(store_->revision() + (chance(2) ? 0 : 1));
          break;
        case 1:
          follower_->Failed(absl::UnavailableError("x"), now_);
          alive = false;
          break;
        case 2:
          follower_->Silent(now_);
          alive = false;
          break;
        case 3:
          if (!chance(3)) break;
          store_->Compact();
          oldest = store_->revision();
          break;
        case 4:
          if (!chance(3)) break;
          if (const int64_t back = std::min<int64_t>(5, store_->revision() - oldest); back > 0) {
            store_->Restore(back);
            follower_->Failed(absl::UnavailableError("restarted"), now_);
            alive = false;
          }
          break;
        default:
          break;
      }
      if (alive) alive = Deliver(watch);
      if (!alive) {
        watch = UntilWatch();
        if (!Deliver(watch)) watch = UntilWatch();
      }
      // The next watch of a stream starts after the delivered events.
      watch.watches[0].set_start_revision(store_->revision() + 1);
      watch.watches[1].set_start_revision(store_->revision() + 1);
      if (chance(2)) push();
    }
    // The heartbeat of the writer shows what was lost.
    store_->Write({});
    if (!Deliver(watch)) UntilWatch();
    push();
    std::map<std::string, std::string> expected = store_->values();
    expected.erase("/state/head");
    std::map<std::string, std::string> actual;
    for (const auto& [name, ip] : agent) actual[WebKey(name)] = Web(name, ip);
    ASSERT_EQ(actual, expected);
    ASSERT_EQ(mirror_->SentPosition(), store_->seq());
  }
}

}  // namespace
}  // namespace svcmap::etcd::test
