// Tests of controllers that reconnect with a state token.
#include <gmock/gmock.h>

#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::ServiceRef;
using svcmap::testing::Upsert;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ResumeTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    Serve();
  }
  // Sends a snapshot and returns the last received token.
  static std::string Snapshot(Stream& stream, const std::vector<v1::Change>& changes) {
    EXPECT_TRUE(stream.BeginSnapshot() && stream.Send(1, changes) && stream.EndSnapshot(2));
    EXPECT_THAT(stream.ReadAck().state_token(), IsEmpty());
    return stream.ReadAck().state_token();
  }
};

TEST_F(ResumeTest, ATokenStandsForTheObjectsHoweverTheyCame) {
  Stream stream(*stub_, "a");
  const std::string nothing = stream.opened.state_token();
  const std::string one = Snapshot(stream, {Upsert(Web())});
  ASSERT_TRUE(stream.Send(3, {Upsert(Web("shop/api", "10.96.0.11"))}));
  const std::string both = stream.ReadAck().state_token();
  ASSERT_TRUE(stream.Send(4, {svcmap::testing::Removal(ServiceRef("shop/web"))}));
  const std::string other = stream.ReadAck().state_token();
  EXPECT_THAT(one, SizeIs(16));
  EXPECT_NE(one, other);
  EXPECT_NE(one, nothing);
  ASSERT_TRUE(stream.Send(5, {Upsert(Web())}));
  EXPECT_EQ(stream.ReadAck().state_token(), both);
  // A rejected object changes neither the stored objects nor the token.
  ASSERT_TRUE(stream.Send(6, {Upsert(Web("shop/web", "10.96.0.999"))}));
  EXPECT_EQ(stream.ReadAck().state_token(), both);
}

// After another client has changed stored objects, a controller receives no token until its next
// snapshot. With a token, the controller could resume without noticing the other client's changes.
TEST_F(ResumeTest, AfterAChangeOutOfBandThereIsNoTokenUntilTheNextSnapshot) {
  Stream stream(*stub_, "a");
  ASSERT_TRUE(stream.Send(1, {}));
  EXPECT_THAT(stream.ReadAck().state_token(), IsEmpty()) << "it was asked for a snapshot";
  Stream known(*stub_, "a");
  const std::string token = Snapshot(known, {Upsert(Web())});
  EXPECT_EQ(Apply({Web()}).outcome(), v1::UNCHANGED);
  ASSERT_TRUE(known.Send(3, {}));
  EXPECT_EQ(known.ReadAck().state_token(), token) << "nothing was changed";

  Apply({Web("shop/web", "10.96.0.99")});
  ASSERT_TRUE(known.Send(4, {Upsert(Web("shop/api", "10.96.0.11"))}));
  EXPECT_THAT(known.ReadAck().state_token(), IsEmpty());
  ASSERT_TRUE(known.BeginSnapshot() && known.Send(5, {Upsert(Web())}));
  EXPECT_THAT(known.ReadAck().state_token(), IsEmpty());
  Apply({Web("shop/web", "10.96.0.99")});
  ASSERT_TRUE(known.EndSnapshot(6));
  EXPECT_THAT(known.ReadAck().state_token(), IsEmpty()) << "changed while it was sent";
  ASSERT_TRUE(known.BeginSnapshot() && known.Send(7, {Upsert(Web())}) && known.EndSnapshot(8));
  known.ReadAck();
  EXPECT_EQ(known.ReadAck().state_token(), token);
}

}  // namespace
}  // namespace svcmap::api
