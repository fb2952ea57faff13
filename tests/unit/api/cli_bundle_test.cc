// Tests of support bundles: archive format, hashed names, and svcmapctl --bundle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "api/bundle/archive.h"
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

TEST(ArchiveTest, TarReadsTheArchive) {
  const std::string path = FreshSocketPath();
  WriteFile(path, MakeArchive({{"agent/a", "text"}, {"b", std::string(1000, 'b')}}, 1700000000));
  const std::string list = path + ".list";
  ASSERT_EQ(std::system(("tar --utc -tvzf " + path + " > " + list).c_str()), 0);
  const std::string text = ReadFile(list);
  EXPECT_THAT(text, HasSubstr("4 2023-11-14 22:13 agent/a\n"));
  EXPECT_THAT(text, HasSubstr("1000 2023-11-14 22:13 b\n"));
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
  v1::Object object;
  v1::Service& service = *object.mutable_service();
  service.mutable_metadata()->set_namespace_("shop");
  service.mutable_metadata()->set_name("web");
  (*service.mutable_metadata()->mutable_labels())["web"] = "shop";
  service.mutable_spec()->set_type("ClusterIP");
  service.mutable_spec()->add_cluster_ips("10.96.0.10");
  v1::ServicePort* port = service.mutable_spec()->add_ports();
  port->set_name("http");
  port->set_protocol("TCP");
  port->set_port(80);
  return object;
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
  v1::Object object = ObjectOfWeb();
  hash.Learn(object);
  hash.Message(object);
  const v1::Service& service = object.service();
  EXPECT_EQ(service.metadata().name(), hash.Text("web"));
  EXPECT_EQ(service.metadata().labels().at("web"), hash.Text("shop"));
  EXPECT_EQ(service.spec().cluster_ips(0), "10.96.0.10");
  EXPECT_EQ(service.spec().ports(0).name(), "http");
}

FakeAnswers AnswersWithWeb() {
  FakeAnswers answers;
  answers.status.set_version("1.2.3");
  answers.status.set_node_name("node-one");
  answers.status.set_state(v1::SERVING);
  answers.status.set_revision(7);
  answers.status.set_last_error("Service shop/web failed");
  v1::ListResponse& part = answers.list.emplace_back();
  *part.add_objects() = ObjectOfWeb();
  v1::Object node;
  node.mutable_node()->mutable_metadata()->set_name("node-one");
  *part.add_objects() = node;
  answers.dump = {"add element ip svcmap cluster-ips { 10.96.0.10 }\n"};
  v1::ExplainResponse& explain = answers.explain;
  explain.set_address("10.96.0.10");
  explain.set_port(80);
  explain.set_protocol("TCP");
  explain.mutable_service()->set_namespace_("shop");
  explain.mutable_service()->set_name("web");
  explain.mutable_kernel()->set_agrees(true);
  for (const auto kind : {v1::Explanation::POD, v1::Explanation::NODE}) {
    v1::Explanation* explanation = explain.add_explanations();
    explanation->set_source_kind(kind);
    explanation->set_source(kind == v1::Explanation::POD ? "a pod" : "this node");
    explanation->set_verdict(v1::Explanation::REJECT);
  }
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
