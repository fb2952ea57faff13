// Tests of support bundles: archive format, hashed names, and svcmapctl --bundle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/bundle/contents.h"
#include "api/bundle/name_hash.h"
#include "tests/support/file.h"
#include "tests/unit/api/cli_fake_agent.h"

namespace svcmap::api {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

using ::svcmap::testing::ReadFile;

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(ArchiveTest, FilesAreReadAsWritten) {
  const std::string large(1'000'000, 'x');
  const std::string archive = MakeArchive(
      {{"empty", ""}, {"agent/a", "1\n"}, {"block", std::string(512, '\0')}, {"large", large}}, 1);
  EXPECT_LT(archive.size(), 10'000);
  const auto files = ReadArchive(archive);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files,
              UnorderedElementsAre(Pair("empty", ""), Pair("agent/a", "1\n"),
                                   Pair("block", std::string(512, '\0')), Pair("large", large)));
}

TEST(ArchiveTest, DamagedArchivesAreErrors) {
  const std::string archive = MakeArchive({{"a", std::string(5000, 'a')}}, 1);
  EXPECT_FALSE(ReadArchive("").ok());
  EXPECT_FALSE(ReadArchive("not gzip").ok());
  for (size_t size = 0; size < archive.size(); ++size) {
    EXPECT_FALSE(ReadArchive(archive.substr(0, size)).ok()) << size;
  }
  for (size_t i = 0; i < archive.size(); ++i) {  // Must not crash.
    std::string changed = archive;
    changed[i] = static_cast<char>(changed[i] ^ 0x55);
    (void)ReadArchive(changed);
  }
}

v1::Object ObjectOfWeb() {
  return FromText<v1::Object>(R"(service {
    metadata { namespace: "shop" name: "web" labels { key: "web" value: "shop" } }
    spec { type: "ClusterIP" cluster_ips: "10.96.0.10"
           ports { name: "http" protocol: "TCP" port: 80 } } })");
}

TEST(NameHashTest, OnlyCompleteWordsAreReplaced) {
  NameHash hash("salt");
  hash.Learn(ObjectOfWeb());
  hash.Learn("10");
  const std::string web = hash.Text("web");
  EXPECT_THAT(web, ::testing::MatchesRegex("n-[0-9a-f]{10}"));
  EXPECT_EQ(hash.Text("webs web-1 my.web"), "webs web-1 my.web");
  EXPECT_EQ(hash.Text("Service shop/web: port 10. See web."),
            "Service " + hash.Text("shop") + "/" + web + ": port 10. See " + web + ".");
  EXPECT_EQ(hash.QuotedText("web { comment \"shop/web:http\" : web }"),
            "web { comment \"" + hash.Text("shop/web") + ":http\" : web }");
  NameHash other("other salt");
  other.Learn(ObjectOfWeb());
  EXPECT_NE(other.Text("web"), web);
}

TEST(NameHashTest, ValuesOfMessagesAreReplacedButNotKeys) {
  NameHash hash("salt");
  const v1::Object object = ObjectOfWeb();
  hash.Learn(object);
  v1::Object hashed;
  ASSERT_TRUE(FromJson(hash.JsonLines(ToJsonLine(object)), hashed).ok());
  const v1::Service& service = hashed.service();
  EXPECT_EQ(service.metadata().name(), hash.Text("web"));
  EXPECT_EQ(service.metadata().labels().at("web"), hash.Text("shop"));
  EXPECT_EQ(service.spec().cluster_ips(0), "10.96.0.10");
  EXPECT_EQ(service.spec().ports(0).name(), "http");
}

FakeAnswers AnswersWithWeb() {
  FakeAnswers answers;
  answers.status = FromText<v1::GetStatusResponse>(
      R"(version: "1.2.3" node_name: "node-one" state: SERVING revision: 7
         last_error: "Service shop/web failed")");
  v1::ListResponse& part = answers.list.emplace_back();
  *part.add_objects() = ObjectOfWeb();
  *part.add_objects() = FromText<v1::Object>(R"(node { metadata { name: "node-one" } })");
  answers.dump = {"add element ip svcmap cluster-ips { 10.96.0.10 }\n"};
  answers.explain = FromText<v1::ExplainResponse>(R"(
    address: "10.96.0.10" port: 80 protocol: "TCP" service { namespace: "shop" name: "web" }
    kernel { agrees: true }
    explanations { source_kind: POD source: "a pod" verdict: REJECT }
    explanations { source_kind: NODE source: "this node" verdict: REJECT })");
  return answers;
}

class BundleCommandTest : public ::testing::Test {
 protected:
  // Writes a bundle of the fake agent.
  void Make(std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(),
                 {"support-bundle", path_, "--no-check", "--metrics-address", "127.0.0.1:1"});
    made_ = Ctl(agent_, flags);
  }
  CtlResult Read(std::vector<std::string> args) {
    args.insert(args.begin(), {"--bundle", path_});
    return Ctl(args);
  }

  const FakeAgent agent_{AnswersWithWeb()};
  const std::string path_ = FreshSocketPath() + ".tar.gz";
  CtlResult made_;
};

TEST_F(BundleCommandTest, CommandsPrintTheSameAsFromTheAgent) {
  Make();
  ASSERT_EQ(made_.code, 0) << made_.err;
  EXPECT_THAT(made_.out, HasSubstr(path_ + ": "));
  EXPECT_THAT(made_.err, HasSubstr("note: agent/metrics.txt is missing: read http://127.0.0.1:1"));
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"status"},
                                             {"status", "-o", "json"},
                                             {"get", "svc", "-o", "yaml"},
                                             {"dump", "applied"},
                                             {"dump", "plan"},
                                             {"explain", "10.96.0.10:80"},
                                             {"explain", "10.96.0.10:80", "-o", "json"}}) {
    const CtlResult live = Ctl(agent_, args);
    const CtlResult read = Read(args);
    EXPECT_EQ(read.code, live.code);
    if (args[0] != "get") {
      EXPECT_EQ(read.out, live.out) << args[0];
    }
    EXPECT_EQ(read.err, live.err);
  }
  EXPECT_THAT(Read({"get", "svc"}).out, HasSubstr("shop       web"));
  EXPECT_THAT(Read({"get", "svc"}).out, Not(HasSubstr("node-one")));
  EXPECT_THAT(Read({"get", "no"}).out, HasSubstr("node-one"));
  EXPECT_THAT(Read({"get", "svc", "-n", "other"}).err, HasSubstr("no services found"));
}

TEST_F(BundleCommandTest, ExplanationsAreSelectedBySource) {
  Make();
  EXPECT_THAT(Read({"explain", "10.96.0.10:80", "--from", "node"}).out, Not(HasSubstr("a pod")));
  EXPECT_THAT(Read({"explain", "10.96.0.10:80", "--from", "10.1.1.1"}).err,
              HasSubstr("one explanation for each kind of source"));
  const CtlResult unknown = Read({"explain", "10.96.0.10:81"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("no explanation of 10.96.0.10:81/TCP"));
}

TEST_F(BundleCommandTest, FileIsNotOverwrittenAndPrivate) {
  Make();
  EXPECT_EQ(std::filesystem::status(path_).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  Make();
  EXPECT_EQ(made_.code, 1);
  EXPECT_THAT(made_.err, HasSubstr("error: create " + path_ + ": File exists"));
}

TEST_F(BundleCommandTest, AFileThatCannotBeCreatedIsReportedBeforeTheCollection) {
  const std::string path = path_ + "/bundle.tar.gz";
  const CtlResult result =
      Ctl(agent_, {"support-bundle", path, "--metrics-address", "127.0.0.1:1"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "error: create " + path + ": No such file or directory (ENOENT)\n");
  EXPECT_THAT(agent_.seen().list, IsEmpty());
}

TEST_F(BundleCommandTest, OtherCommandsAndOtherFilesAreErrors) {
  Make();
  const CtlResult watch = Read({"watch"});
  EXPECT_EQ(watch.code, 2);
  EXPECT_THAT(watch.err, HasSubstr("--bundle: only supported by get, status, dump and explain"));
  EXPECT_THAT(Ctl({"--bundle", "/nonexistent", "status"}).err,
              HasSubstr("read /nonexistent: No such file"));
  const std::string other = path_ + ".other";
  WriteFile(other, MakeArchive({{"a", "b"}}, 1));
  EXPECT_THAT(Ctl({"--bundle", other, "status"}).err, HasSubstr("not a support bundle"));
  WriteFile(other, MakeArchive({{"bundle.json", "[]"}, {"agent/status.json", "{]"}}, 1));
  EXPECT_THAT(Ctl({"--bundle", other, "status"}).err, HasSubstr("agent/status.json"));
  EXPECT_THAT(Ctl({"--bundle", other, "get", "svc"}).err,
              HasSubstr("agent/objects.jsonl is missing"));
}

}  // namespace
}  // namespace svcmap::api
