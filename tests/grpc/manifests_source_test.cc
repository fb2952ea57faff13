// Tests of the manifest source, which reads manifests at the start and after changes.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "api/daemon/manifests_source.h"
#include "tests/grpc/server_fixture.h"
#include "tests/support/environment.h"
#include "tests/support/wait.h"

namespace svcmap::api {
namespace {

std::string Service(const std::string& name, const std::string& ip) {
  return "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: " + name +
         "}\nspec: {clusterIP: " + ip + ", ports: [{port: 80}]}\n";
}

class ManifestsSourceTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    manifests_ = folder_->path() + "/manifests";
    std::filesystem::create_directory(manifests_);
    Serve(manifests_);
  }
  void TearDown() override {
    source_.reset();
    ServerTest::TearDown();
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(manifests_ + "/" + name) << text;
  }
  void Start(const std::string& path) {
    auto source = ManifestsSource::Start(path, *intake_);
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
  }
  std::vector<std::string> Stored() {
    std::vector<std::string> names;
    for (const v1::Object& object : List(v1::KIND_SERVICE)) {
      names.push_back(object.service().metadata().name());
    }
    return names;
  }
  // Polls until the agent stores exactly the objects `names`. Each poll waits for the agent's loop.
  bool BecomesStored(const std::vector<std::string>& names) {
    return testing::WaitUntil([&] { return Stored() == names; });
  }

  // Starts with a file that contains Service "a", and waits until the agent stores `names`.
  void StartWithA(const std::vector<std::string>& names) {
    Write("a.yaml", Service("a", "10.96.0.1"));
    Start(manifests_);
    EXPECT_TRUE(BecomesStored(names));
  }

  bool HasFinding(const std::string& text) {
    const v1::GetStatusResponse status = GetStatus();
    for (const v1::ObjectResult& finding : status.findings()) {
      if (finding.message().find(text) != std::string::npos) return true;
    }
    return false;
  }

  std::string manifests_;
  std::unique_ptr<ManifestsSource> source_;
};

// Not in asan, whose allocator keeps freed memory.
#ifndef SVCMAP_SANITIZED
// Returns the resident memory of this process in MiB.
long ResidentMebibytes() {
  std::ifstream file("/proc/self/statm");
  long total = 0;
  long resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE) / (1 << 20);
}

TEST_F(ManifestsSourceTest, MemoryForALargeFileIsReturned) {
  std::string list;
  while (list.size() < 3'000'000) list += "-\n";
  Write("a.yaml", Service("a", "10.96.0.1"));
  Write("b.yaml", list);
  const long before = ResidentMebibytes();
  Start(manifests_);
  EXPECT_LE(ResidentMebibytes(), before + 20);
  EXPECT_TRUE(BecomesStored({"a"}));
}
#endif

TEST_F(ManifestsSourceTest, FolderIsFollowedFilesAddedChangedAndRemoved) {
  StartWithA({"a"});
  AwaitTurn();
  EXPECT_EQ(GetStatus().state(), v1::SERVING);
  Write("b.yaml", Service("b", "10.96.0.2") + "---\n" + Service("c", "10.96.0.3"));
  EXPECT_TRUE(BecomesStored({"a", "b", "c"}));
  Write("b.yaml", Service("c", "10.96.0.3"));
  EXPECT_TRUE(BecomesStored({"a", "c"}));
  std::filesystem::remove(manifests_ + "/a.yaml");
  EXPECT_TRUE(BecomesStored({"c"}));
}

TEST_F(ManifestsSourceTest, AMisspelledFieldIsAFindingUntilItIsCorrected) {
  const auto with = [](const std::string& field) {
    return "apiVersion: v1\nkind: Service\nmetadata: {namespace: shop, name: a}\n"
           "spec: {clusterIP: 10.96.0.1, ports: [{port: 80}], " +
           field + ": [10.0.0.0/8]}\n";
  };
  Write("a.yaml", with("loadBalancerSourceRange"));
  Start(manifests_);
  const std::string finding =
      "Service shop/a: spec.loadBalancerSourceRange: Forbidden: unknown field, which is ignored; "
      "did you mean \"loadBalancerSourceRanges\"?";
  EXPECT_TRUE(testing::WaitUntil([&] { return HasFinding(finding); }));
  Write("a.yaml", with("loadBalancerSourceRanges"));
  EXPECT_TRUE(testing::WaitUntil([&] { return !HasFinding(finding); }));
  EXPECT_EQ(Stored(), std::vector<std::string>{"a"});
}

TEST_F(ManifestsSourceTest, FileIsFollowedWhenAnotherOneTakesItsPlace) {
  Write("state.yaml", Service("a", "10.96.0.1"));
  Start(manifests_ + "/state.yaml");
  EXPECT_TRUE(BecomesStored({"a"}));
  Write("next", Service("b", "10.96.0.2"));
  std::filesystem::rename(manifests_ + "/next", manifests_ + "/state.yaml");
  EXPECT_TRUE(BecomesStored({"b"}));
}

TEST_F(ManifestsSourceTest, FolderIsFollowedWhenAnotherOneTakesItsPlace) {
  StartWithA({"a"});
  std::filesystem::create_directory(folder_->path() + "/next");
  std::ofstream(folder_->path() + "/next/b.yaml") << Service("b", "10.96.0.2");
  std::filesystem::rename(manifests_, folder_->path() + "/old");
  std::filesystem::rename(folder_->path() + "/next", manifests_);
  EXPECT_TRUE(BecomesStored({"b"}));
  Write("c.yaml", Service("c", "10.96.0.3"));
  EXPECT_TRUE(BecomesStored({"b", "c"}));
  std::filesystem::remove_all(folder_->path() + "/old");
}

TEST_F(ManifestsSourceTest, WhileSomethingCannotBeReadNothingIsRemoved) {
  Write("b.yaml", Service("b", "10.96.0.2"));
  StartWithA({"a", "b"});
  Write("b.yaml", "kind: [\n");
  Write("c.yaml", Service("c", "10.96.0.3"));
  EXPECT_TRUE(BecomesStored({"a", "b", "c"}));
  Write("b.yaml", "");
  EXPECT_TRUE(BecomesStored({"a", "c"}));
}

TEST_F(ManifestsSourceTest, AMisspelledKindRemovesNothingAndIsAFinding) {
  Write("b.yaml", Service("b", "10.96.0.2"));
  StartWithA({"a", "b"});
  Write("b.yaml", "apiVersion: v1\nkind: Serwice\nmetadata: {namespace: shop, name: b}\n");
  Write("c.yaml", Service("c", "10.96.0.3"));
  EXPECT_TRUE(BecomesStored({"a", "b", "c"}));
  EXPECT_TRUE(HasFinding("did you mean \"Service\" in apiVersion \"v1\"?"));
  std::filesystem::remove(manifests_ + "/b.yaml");
  EXPECT_TRUE(BecomesStored({"a", "c"}));
  EXPECT_FALSE(HasFinding("did you mean"));
}

TEST_F(ManifestsSourceTest, PathThatIsNotThereIsReported) {
  const auto source = ManifestsSource::Start(manifests_ + "/missing/x.yaml", *intake_);
  EXPECT_THAT(std::string(source.status().message()),
              ::testing::HasSubstr(manifests_ + "/missing"));
  EXPECT_EQ(FileWatch::Open(manifests_ + "/x.yaml").status().message(),
            manifests_ + "/x.yaml: No such file or directory (ENOENT)");
}

}  // namespace
}  // namespace svcmap::api
