// Tests svcmap-etcd with etcd and svcmapd in a namespace.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/etcd/etcd_world.h"
#include "tests/support/certificates.h"

namespace svcmap::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST_F(EtcdTest, ASnapshotAndThenTheChanges) {
  for (int part = 0; part < 20; ++part) {
    Objects objects;
    for (int n = 40 * part; n < 40 * (part + 1); ++n) objects.push_back(Web(n, Ip(n)));
    ASSERT_OK(Put(objects));
  }
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  EXPECT_EQ(Page("/healthz"), "ok");
  ASSERT_OK(Put({Web(0, "10.96.99.1"), Web(1000, "10.96.99.2")}));
  ASSERT_OK(Remove({WebKey(1)}));
  ASSERT_OK(Put({ANode(kAgentNode).InternalIp("192.168.77.1").Zone("z")}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(writer_->Write({}));  // The heartbeat changes no object.
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq()));
  EXPECT_OK(UntilMetric("lists_total", 1));
  EXPECT_OK(agent_->CheckServing());
  EXPECT_OK(StopSource());
}

TEST_F(EtcdTest, ATransactionIsOneBatch) {
  ASSERT_OK(Put({Web(0, Ip(0))}));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  ASSERT_OK(UntilMetric("batches_total", 2));  // The snapshot: one batch and its end.
  // etcd splits responses of more than 512 kB into fragments. A label that svcmapd does not use
  // makes the values large.
  Objects slices;
  EtcdWriter::Values values;
  for (int n = 0; n < 120; ++n) {
    slices.push_back(Slice(n, "10.244.2.1"));
    v1::Object large = slices.back();
    auto& labels = *large.mutable_endpoint_slice()->mutable_metadata()->mutable_labels();
    labels["example.com/large"] = std::string(10'000, 'x');
    values.emplace_back(EtcdKey(large), EtcdValue(large));
  }
  objects_.insert(objects_.end(), slices.begin(), slices.end());
  ASSERT_OK(writer_->Write(values));
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq()));
  EXPECT_OK(UntilMetric("batches_total", 3));
}

TEST_F(EtcdTest, ChangesDuringACompactionAreFound) {
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  proxy_->Refuse(true);
  ASSERT_TRUE(Logged("reading from etcd failed"));
  ASSERT_OK(Remove({WebKey(1), SliceKey(1)}));
  ASSERT_OK(Put({Web(2, "10.96.99.2"), Web(100, "10.96.99.3")}));
  ASSERT_OK(writer_->Compact());
  proxy_->Refuse(false);
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("expired_total", 1));
  ASSERT_OK(Put({Web(3, "10.96.99.4")}));
  EXPECT_OK(UntilSynced());
}

TEST_F(EtcdTest, ManyMissedTransactionsAreListedAndFewAreWatched) {
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  for (const int missed : {100, 101}) {
    const std::string before = source_->err();
    proxy_->Refuse(true);
    ASSERT_OK(Eventually("a failure", [&] {
      return absl::StrContains(source_->err().substr(before.size()), "reading from etcd failed");
    }));
    for (int i = 1; i < missed; ++i) ASSERT_OK(Put({Web(1, Ip(1000 + i))}));
    ASSERT_OK(Remove({WebKey(2)}));
    proxy_->Refuse(false);
    ASSERT_OK(UntilSynced());
    EXPECT_OK(UntilMetric("lists_total", missed == 100 ? 1 : 2));
    ASSERT_OK(Put({Web(2, Ip(2))}));
    ASSERT_OK(UntilSynced());
  }
}

TEST_F(EtcdTest, ARestoredBackupReplacesTheState) {
  const std::string backup = folder_->path() + "/backup";
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(etcd_->SaveBackup(backup));
  const Objects saved = objects_;
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(Put({Web(1, "10.96.99.1"), Web(100, "10.96.99.2")}));
  ASSERT_OK(Remove({WebKey(2)}));
  ASSERT_OK(UntilSynced());

  // The source connects before the writer has written.
  ASSERT_OK(etcd_->RestoreBackup(backup));
  objects_ = saved;
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("expired_total", 1));  // The saved revision does not exist.

  ASSERT_OK(writer_->Adopt());
  ASSERT_OK(Put({Web(3, "10.96.99.3")}));
  ASSERT_OK(Put({Web(4, "10.96.99.4")}));
  ASSERT_OK(UntilSynced());

  // The source connects when the restored etcd has more revisions than the source.
  proxy_->Refuse(true);
  ASSERT_OK(etcd_->RestoreBackup(backup));
  objects_ = saved;
  ASSERT_OK(writer_->Adopt());
  for (int i = 0; i < 20; ++i) ASSERT_OK(Put({Web(5, Ip(1000 + i))}));
  proxy_->Refuse(false);
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("histories_total", 1));
  EXPECT_THAT(source_->err(), HasSubstr("etcd has another history, listing all objects"));
}

TEST_F(EtcdTest, ADeadWatchIsDetectedAfterTheSilence) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({"--silence=2"}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("watches_total", 1));
  proxy_->SwallowExisting();
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  ASSERT_OK(Remove({WebKey(2)}));
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("gaps_total", 1));
  EXPECT_THAT(source_->err(), HasSubstr("the watch has lost transactions"));

  // A writer that is stopped loses nothing, so nothing is listed.
  ASSERT_TRUE(Logged("no transaction for 2s, but none is missing"));
  EXPECT_OK(UntilMetric("lists_total", 2));
  ASSERT_OK(Put({Web(2, Ip(2))}));
  EXPECT_OK(UntilSynced());
}

TEST_F(EtcdTest, ValuesThatCannotBeUsedAreNamed) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(writer_->Write({{WebKey(1), "{\"kind\":"},
                            {WebKey(4), EtcdValue(Web(5, Ip(5)))},
                            {"/state/colour", "red"},
                            {WebKey(2), R"({"apiVersion":"v1","kind":"Service","metadata":)"
                                        R"({"namespace":"shop","name":"s2"},"spec":{"clusterIP":)"
                                        R"("10.96.99.2","ports":[{"name":"tcp","port":80}]}})"}}));
  // The values that can be used are applied, and the earlier versions of the others stay.
  EXPECT_OK(Eventually("the new address of shop/s2", [&] {
    return ClusterIps() == std::vector<std::string>{Ip(0), Ip(1), "10.96.99.2"};
  }));
  EXPECT_OK(UntilMetric("rejected_keys", 3));
  EXPECT_THAT(source_->err(), HasSubstr(absl::StrCat("key=", kEtcdPrefix, WebKey(1), " error=")));
  EXPECT_THAT(source_->err(), HasSubstr("the object is \\\"shop/s5\\\": must be the object of"));
  EXPECT_THAT(source_->err(), HasSubstr("/state/colour error=\"unknown key\""));
}

TEST_F(EtcdTest, RestartsWriteNoElements) {
  ASSERT_OK(Put(Webs(50)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  ASSERT_OK(agent_->WaitUntilSaved());
  ASSERT_OK(agent_->Stop());
  agent_.reset();
  ASSERT_OK(Eventually("the end of the stream", [&] {
    return absl::StrContains(Page("/metrics"), "svcmap_etcd_agent_connected 0");
  }));
  ASSERT_OK(StartAgent());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  ASSERT_OK(UntilSynced());
  EXPECT_EQ(ElementsWritten(), 0u);

  ASSERT_OK(StopSource());
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  EXPECT_EQ(ElementsWritten(), 0u);

  ASSERT_OK(etcd_->Stop());
  ASSERT_TRUE(Logged("reading from etcd failed"));
  ASSERT_OK(etcd_->StartAgain());
  ASSERT_OK(writer_->Write({}));
  ASSERT_OK(UntilMetric("acknowledged_seq", writer_->seq()));
  EXPECT_EQ(ElementsWritten(), 0u);
  EXPECT_OK(UntilMetric("lists_total", 1));
}

TEST_F(EtcdTest, AListThatIsSuddenlySmallIsHeld) {
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  proxy_->Refuse(true);
  ASSERT_TRUE(Logged("reading from etcd failed"));
  std::vector<std::string> keys;
  for (int n = 1; n < 30; ++n) keys.push_back(WebKey(n));
  const Objects before = objects_;
  ASSERT_OK(Remove(keys));
  ASSERT_OK(writer_->Compact());  // Otherwise, the watch delivers the removals of the writer.
  proxy_->Refuse(false);
  ASSERT_OK(UntilMetric("held", 1));
  EXPECT_THAT(Page("/healthz"), HasSubstr("svcmapd holds the removals of the snapshot: 29 of 30"));
  ASSERT_OK_AND_ASSIGN(const Objects stored, agent_->List());
  EXPECT_EQ(Encoded(stored), Encoded(before));
  ASSERT_OK(RunOk(
      {.argv = {SVCMAP_BIN_DIR "/svcmapctl", "--address", AgentAddress(), "accept-snapshot"}}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(Put({Web(40, Ip(40))}));
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("held", 0));
  EXPECT_EQ(Page("/healthz"), "ok");
}

TEST_F(EtcdTest, NothingOfADeposedWriterIsApplied) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  EtcdWriter next(etcd_->socket(), /*epoch=*/2);
  ASSERT_OK(next.Adopt());
  ASSERT_OK(next.Put({Web(1, "10.96.99.1")}));
  EXPECT_TRUE(absl::IsAborted(writer_->Put({Web(1, "10.96.99.9"), Web(2, "10.96.99.9")})));
  ASSERT_OK(next.Put({Web(3, "10.96.99.3")}));
  std::erase_if(objects_, [](const auto& object) { return EtcdKey(object) == WebKey(1); });
  objects_.insert(objects_.end(), {Web(1, "10.96.99.1"), Web(3, "10.96.99.3")});
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("epoch", 2));

  // A change by hand has no head.
  ASSERT_OK(next.WriteWithoutHead({{WebKey(3), EtcdValue(Web(3, "10.96.99.4"))}}));
  objects_.back() = Web(3, "10.96.99.4");
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("foreign_total", 1));
  EXPECT_OK(UntilMetric("lists_total", 1));
}

TEST_F(EtcdTest, AnUnreachableEndpointIsSkipped) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource({absl::StrCat("--etcd-endpoints=http://127.0.0.1:1,http://127.0.0.1:",
                                      kProxyPort, ",http://127.0.0.1:", kEtcdPort)}));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(UntilMetric("agent_synced", 1));
  proxy_->Refuse(true);
  ASSERT_OK(Put({Web(1, "10.96.99.1")}));
  EXPECT_OK(UntilSynced());
}

// Without a head, the prefix is wrong, or etcd is new.
TEST_F(EtcdTest, AnEmptyPrefixRemovesNothing) {
  ASSERT_OK(agent_->Apply(Webs(3)));
  prefix_ = "/other";
  ASSERT_OK(StartSource());
  ASSERT_TRUE(Logged("/other/state/head: the key does not exist"));
  EXPECT_THAT(Page("/healthz"),
              HasSubstr("objects not listed yet: /other/state/head: the key does not exist"));
  ASSERT_OK_AND_ASSIGN(const Objects stored, agent_->List());
  EXPECT_EQ(Encoded(stored), Encoded(Webs(3)));
}

// The operator has lost the data of etcd and starts an empty etcd.
TEST_F(EtcdTest, ANewEtcdRemovesNothing) {
  ASSERT_OK(Put(Webs(30)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  const Objects before = objects_;
  ASSERT_OK(etcd_->Stop());
  ASSERT_OK_AND_ASSIGN(const TemporaryFolder folder, TemporaryFolder::Make());
  ASSERT_OK_AND_ASSIGN(etcd_, EtcdServer::Start(*netns_, folder.path()));
  ASSERT_TRUE(Logged("/state/head: the key does not exist"));

  // A writer that has only a part of the objects.
  EtcdWriter next(etcd_->socket(), /*epoch=*/2);
  ASSERT_OK(next.Put(Webs(3)));
  ASSERT_OK(UntilMetric("held", 1));
  ASSERT_OK(UntilSynced());
  ASSERT_OK(next.Put(before));
  ASSERT_OK(UntilMetric("acknowledged_seq", next.seq()));
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("held", 0));
}

TEST_F(EtcdTest, AGapInTheSequenceListsTheDifferences) {
  ASSERT_OK(Put(Webs(3)));
  ASSERT_OK(StartSource());
  ASSERT_OK(UntilSynced());
  const std::string head =
      absl::StrCat(R"({"format":1,"seq":)", writer_->seq() + 2, R"(,"epoch":1,"nonce":"other"})");
  ASSERT_OK(writer_->WriteWithoutHead(
      {{"/state/head", head}, {WebKey(1), EtcdValue(Web(1, "10.96.99.1"))}}));
  Expect({Web(1, "10.96.99.1")});
  ASSERT_OK(UntilSynced());
  EXPECT_OK(UntilMetric("gaps_total", 1));
  EXPECT_OK(UntilMetric("lists_total", 2));
  EXPECT_OK(UntilMetric("acknowledged_seq", writer_->seq() + 2));
}

// The common name of the certificate is the user in etcd. The files are read for each connection.
TEST_F(EtcdTest, CertificatesAreUsersAndCanBeReplaced) {
  const CertificateAuthority ca("ca");
  const auto write = [&](const std::string& name, const std::string& text) {
    const std::string path = folder_->path() + "/" + name;
    std::ofstream(path) << text;
    return path;
  };
  const KeyPair server = ca.Issue("etcd", "IP:127.0.0.1");
  const auto use_client = [&](const std::string& user, std::chrono::seconds lasts) {
    const KeyPair client = ca.Issue(user, "DNS:" + user, lasts);
    write("client.crt", client.certificate);
    write("client.key", client.key);
  };
  ASSERT_OK(Put(Webs(3)));
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"role", "add", "node"},
           {"role", "grant-permission", "--prefix=true", "node", "read", "/svcmap/v1/test/state/"},
           {"role", "grant-permission", "node", "read", "/svcmap/v1/test/nodes/n1"},
           {"user", "add", "n1", "--no-password"},
           {"user", "grant-role", "n1", "node"},
           {"user", "add", "n2", "--no-password"},
           {"user", "add", "root:secret"},
           {"user", "grant-role", "root", "root"},
           {"auth", "enable"}}) {
    ASSERT_OK(etcd_->Control(command));
  }
  ASSERT_OK(RestartEtcd({"--cert-file=" + write("server.crt", server.certificate),
                         "--key-file=" + write("server.key", server.key),
                         "--trusted-ca-file=" + write("ca.crt", ca.certificate()),
                         "--client-cert-auth"}));
  use_client("n2", 1h);
  const std::string path = folder_->path();
  ASSERT_OK(StartSource({absl::StrCat("--etcd-endpoints=https://127.0.0.1:", kProxyPort),
                         "--etcd-ca=" + path + "/ca.crt", "--etcd-cert=" + path + "/client.crt",
                         "--etcd-key=" + path + "/client.key"}));
  ASSERT_TRUE(Logged("permission denied")) << source_->err();
  use_client("n1", 1h);
  ASSERT_OK(UntilSynced());
  EXPECT_THAT(Page("/metrics"), HasSubstr("expiry_timestamp_seconds{file=\"etcd-cert\"}"));

  const std::string before = source_->err();
  use_client("n1", -1h);
  proxy_->Refuse(true);
  ASSERT_OK(Eventually("a failure", [&] {
    return absl::StrContains(source_->err().substr(before.size()), "reading from etcd failed");
  }));
  proxy_->Refuse(false);
  use_client("n1", 1h);
  ASSERT_OK(etcd_->Control(
      {"--user=root:secret", "put", kEtcdPrefix + WebKey(7), EtcdValue(Web(7, "10.96.99.7"))}));
  objects_.push_back(Web(7, "10.96.99.7"));
  EXPECT_OK(UntilSynced());
}

}  // namespace
}  // namespace svcmap::testing
