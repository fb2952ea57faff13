// Tests of state files that were damaged or modified outside the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proxy/saved/frames.h"
#include "proxy/saved/replay.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/proxy/saved/saved_world.h"

namespace svcmap::proxy {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

class StateLogDamageTest : public ::testing::Test, protected SavedWorld {
 protected:
  // Runs a short history. reported_ contains the expected content of the file after each step.
  StateLogDamageTest() {
    reported_.push_back({});
    Open();
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 3; ++j) RandomObjectChange();
      OwnedCommit commit{.marker = {dice.Number(), ++generation}, .whole = i == 0};
      commit.services[RandomKey()] = RandomServiceRows(dice);
      commit.node_rows = RandomRows(dice);
      Begin(commit);
      reported_.push_back(model.reported());
      before_last_frame_ = log->status().bytes;
      End(true, static_cast<uint32_t>(i));
      reported_.push_back(model.reported());
    }
  }

  // Returns the state that a new log finds in a file with the given content.
  Reported FoundIn(const std::string& content) {
    other_ = std::make_unique<SavedWorld>();
    other_->files.SetContent(kPath, content);
    return other_->Open();
  }

  std::vector<Reported> reported_;
  uint64_t before_last_frame_ = 0;
  std::unique_ptr<SavedWorld> other_;
};

TEST_F(StateLogDamageTest, AFlippedBitIsNeverTrusted) {
  Stop();
  const Reported whole = model.reported();
  std::string content = *files.Content(kPath);
  ASSERT_EQ(FoundIn(content), whole);
  ASSERT_THAT(other_->problems, IsEmpty());
  for (size_t offset = 0; offset < content.size(); ++offset) {
    const char original = content[offset];
    content[offset] = static_cast<char>(original ^ 1 << offset % 8);
    const Reported found = FoundIn(content);
    if (offset < content.size() - kFrameHeaderSize) {
      ASSERT_EQ(found, Reported()) << offset;
      ASSERT_THAT(other_->problems,
                  ElementsAre(AllOf(StartsWith("saved state "),
                                    HasSubstr(", not using it path=/var/lib/svcmap/state "),
                                    HasSubstr(" renamed_to=state.damaged-2"))));
    } else {
      // A flipped bit in the last frame does not change the state, because this frame only
      // declares that the other frames are on disk.
      ASSERT_EQ(found, whole) << offset;
    }
    content[offset] = original;
  }
}

// Unsynced bytes at the end of a file may be the result of a crash.
TEST_F(StateLogDamageTest, AFlippedBitWithoutASyncLeavesWhatWasTrueBeforeIt) {
  Kill();
  std::string content = *files.Content(kPath);
  for (size_t offset = 0; offset < content.size(); ++offset) {
    content[offset] = static_cast<char>(content[offset] ^ 4);
    ASSERT_THAT(reported_, Contains(FoundIn(content))) << offset;
    content[offset] = static_cast<char>(content[offset] ^ 4);
  }
}

TEST_F(StateLogDamageTest, AFileCutOffAnywhereSaysWhatWasTrueOnce) {
  Stop();
  const std::string content = *files.Content(kPath);
  const auto place = [this](const Reported& reported) {
    return std::find(reported_.begin(), reported_.end(), reported) - reported_.begin();
  };
  ptrdiff_t last = 0;
  for (size_t size = 0; size <= content.size(); ++size) {
    const ptrdiff_t now = place(FoundIn(content.substr(0, size)));
    ASSERT_LT(now, static_cast<ptrdiff_t>(reported_.size())) << size;
    ASSERT_GE(now, last) << size;
    last = now;
  }
  EXPECT_EQ(last, static_cast<ptrdiff_t>(reported_.size()) - 1);
}

TEST_F(StateLogDamageTest, GarbageBehindTheEndIsCutOff) {
  Kill();
  const Reported whole = model.reported();
  const std::string content = *files.Content(kPath);
  for (const std::string& garbage :
       {std::string(1, 'x'), std::string(5000, '\0'), std::string(5000, 'x'),
        content.substr(before_last_frame_), content}) {
    ASSERT_EQ(FoundIn(content + garbage), whole) << garbage.size();
    EXPECT_THAT(other_->problems, IsEmpty());
    EXPECT_EQ(other_->files.Content(kPath), content);
  }
}

// An object's message may contain any bytes, including bytes that look like a frame.
TEST_F(StateLogDamageTest, AFrameWithinAnObjectIsNone) {
  Stop();
  const std::string before = *files.Content(kPath);
  Open();
  PutObject(Kind::kService, "ns/a", before + before);
  Flush();
  const Reported reported = model.reported();
  const std::string content = *files.Content(kPath);
  EXPECT_EQ(FoundIn(content), reported);
  const Reported found = FoundIn(content.substr(0, content.size() - 1));
  EXPECT_EQ(found, reported_.back());
  EXPECT_THAT(other_->problems, IsEmpty());
}

TEST_F(StateLogDamageTest, TheAgentContinuesWithoutIt) {
  Stop();
  std::string content = *files.Content(kPath);
  content[content.size() / 2] ^= 1;
  FoundIn(content);
  for (int i = 0; i < 10; ++i) other_->RandomStep();
  const Reported expected = other_->model.reported();
  EXPECT_EQ(other_->Reopen(), expected);
  EXPECT_THAT(other_->problems, SizeIs(1));
}

TEST_F(StateLogDamageTest, WhatWasRenamedIsKeptAsItWasAndTheOldestGo) {
  Stop();
  std::string content = *files.Content(kPath);
  content[content.size() / 2] ^= 1;
  for (int i = 1; i <= 5; ++i) {
    files.SetContent(std::string(kPath) + ".damaged-2020010" + std::to_string(i) + "T000000Z", "x");
  }
  files.SetContent(kPath, content);
  Open();
  std::vector<std::string> damaged = files.Names();
  std::erase_if(damaged,
                [](const std::string& name) { return name.find("damaged") == std::string::npos; });
  ASSERT_THAT(damaged, SizeIs(3));
  EXPECT_THAT(damaged[0], HasSubstr("20200104"));
  EXPECT_THAT(damaged[1], HasSubstr("20200105"));
  EXPECT_EQ(files.Content(damaged[2]), content);
}

TEST_F(StateLogDamageTest, AnotherVersionOfTheFormatIsNotRead) {
  Stop();
  std::string content = *files.Content(kPath);
  content[8] = 1;
  EXPECT_EQ(FoundIn(content), Reported());
  EXPECT_THAT(other_->problems,
              ElementsAre(StartsWith("saved state has an unsupported format version, not using it "
                                     "path=/var/lib/svcmap/state error=\"format version 1 is not "
                                     "supported, expected version 2\" renamed_to=state.damaged-")));
}

TEST_F(StateLogDamageTest, AFileOfSomethingElseIsRenamed) {
  EXPECT_EQ(FoundIn("apiVersion: v1\nkind: ConfigMap\n"), Reported());
  EXPECT_THAT(
      other_->problems,
      ElementsAre(AllOf(StartsWith("saved state is damaged, not using it path="),
                        HasSubstr("\"offset 0: not a state file (invalid magic number)\""))));
}

TEST_F(StateLogDamageTest, WhatCannotBeReadIsRenamedAsWell) {
  Stop();
  files.SetPlan([](size_t, MemoryFiles::Call call) {
    return MemoryFiles::Fault{.error = call == MemoryFiles::Call::kRead ? EIO : 0};
  });
  EXPECT_EQ(Open(), Reported());
  EXPECT_THAT(problems, ElementsAre(AllOf(StartsWith("saved state is damaged, not using it path="),
                                          HasSubstr("\"read: Input/output error (EIO)\""))));
}

// Replay must reject frames that have valid checksums but content that svcmapd never writes.
TEST(ReplayTest, RejectsWhatCannotBe) {
  struct Case {
    const char* error;
    std::function<void(saved::v1::Frame&)> make;
  };
  const auto service = [](saved::v1::Frame& frame) -> saved::v1::Service& {
    frame.mutable_begin();
    return *frame.add_services();
  };
  const auto port = [&](saved::v1::Frame& frame) -> saved::v1::Port& {
    saved::v1::Port& port = *service(frame).add_ports();
    port.set_protocol(6);
    return port;
  };
  const auto row = [](saved::v1::Frame& frame) -> saved::v1::Row& {
    frame.mutable_begin();
    return *frame.mutable_node_rows()->add_rows();
  };
  using Frame = saved::v1::Frame;
  const Case kCases[] = {
      {"outcome without an attempt", [](Frame& f) { f.mutable_outcome(); }},
      {"rows outside of an attempt", [](Frame& f) { f.add_services(); }},
      {"rows outside of an attempt", [](Frame& f) { f.set_asked(true); }},
      {"object of unknown kind", [](Frame& f) { f.add_objects(); }},
      {"object of unknown kind", [](Frame& f) { f.add_objects()->set_kind(5); }},
      {"invalid Service rows",
       [&](Frame& f) {
         service(f).set_cluster_ips(
             "\x05"
             "abcde");
       }},
      {"invalid Service rows",
       [&](Frame& f) {
         service(f).set_cluster_ips(
             "\x04"
             "abc");
       }},
      {"invalid Service rows",
       [&](Frame& f) {
         service(f).set_sources(
             "\x04"
             "abcd");
       }},
      {"invalid Service rows", [&](Frame& f) { service(f).add_ports(); }},
      {"invalid Service rows", [&](Frame& f) { port(f).set_family(2); }},
      {"invalid Service rows", [&](Frame& f) { port(f).set_port(65536); }},
      {"invalid Service rows",
       [&](Frame& f) {
         port(f).set_addresses(
             "\x04"
             "abcdpp\x04"
             "f");
       }},
      {"invalid Service rows",
       [&](Frame& f) {
         port(f).set_cluster(
             "\x04"
             "abcdp");
       }},
      {"invalid Service rows",
       [&](Frame& f) {
         port(f).set_local(
             "\x04"
             "abcdp");
       }},
      {"invalid Service rows", [&](Frame& f) { port(f).set_hairpins("x"); }},
      {"invalid Service rows", [&](Frame& f) { port(f).mutable_affinity()->set_timer(256); }},
      {"invalid Service rows",
       [&](Frame& f) { port(f).mutable_affinity()->set_last_number(65536); }},
      {"invalid Service rows",
       [&](Frame& f) { port(f).mutable_affinity()->set_endpoints("\x04"); }},
      {"invalid node rows", [&](Frame& f) { row(f).set_family(2); }},
      {"invalid node rows", [&](Frame& f) { row(f).set_set(kRowSetCount); }},
      {"invalid node rows", [&](Frame& f) { row(f).set_key(std::string(41, 'x')); }},
      {"invalid node rows", [&](Frame& f) { row(f).set_data(std::string(41, 'x')); }},
      {"invalid node rows", [&](Frame& f) { row(f).set_key_end(std::string(41, 'x')); }},
  };
  for (const Case& c : kCases) {
    MemoryFiles files;
    ASSERT_OK_AND_ASSIGN(const auto file, FrameFile::Create(files, "state", "test"));
    const uint64_t offset = file->size();
    saved::v1::Frame frame;
    c.make(frame);
    FrameBuilder builder;
    builder.Add(frame);
    ASSERT_OK(file->Append(builder));
    const absl::Status status = Replay(file->file()).status();
    EXPECT_TRUE(absl::IsDataLoss(status));
    EXPECT_THAT(std::string(status.message()),
                AllOf(StartsWith("offset " + std::to_string(offset) + ": "), HasSubstr(c.error)))
        << frame.ShortDebugString();
  }
}

}  // namespace
}  // namespace svcmap::proxy
