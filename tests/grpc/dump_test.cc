// Tests of Dump calls at the same time as other calls.
#include <gmock/gmock.h>

#include <thread>

#include "tests/grpc/server_fixture.h"

namespace svcmap::api {
namespace {

using svcmap::testing::ASlice;
using namespace std::chrono_literals;

class DumpTest : public ServerTest {
 protected:
  // The dump of these objects does not fit into the buffers of slow_stub_.
  void StoreManyEndpoints() {
    Serve();
    slow_stub_ = v1::Control::NewStub(ChannelWithSmallBuffers());
    testing::Objects objects = {Web()};
    for (int slice = 0; slice < 20; ++slice) {
      ASlice endpoints("shop/web");
      endpoints.Named("web-" + std::to_string(slice)).Port("http", 8080);
      for (int i = 0; i < 1000; ++i) {
        endpoints.Endpoint("10." + std::to_string(slice) + "." + std::to_string(i / 250) + "." +
                           std::to_string(i % 250));
      }
      objects.push_back(endpoints);
    }
    EXPECT_EQ(Apply(objects).outcome(), v1::COMMITTED);
  }

  struct Call {
    Call(v1::Control::Stub& stub, std::chrono::milliseconds within) {
      context.set_deadline(std::chrono::system_clock::now() + within);
      v1::DumpRequest request;
      request.set_what(v1::DumpRequest::APPLIED);
      reader = stub.Dump(&context, request);
    }
    // Reads all responses and returns the size of the text.
    size_t ReadAll() {
      size_t size = 0;
      for (v1::DumpResponse response; reader->Read(&response);) size += response.text().size();
      return size;
    }
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::DumpResponse>> reader;
  };

  std::unique_ptr<v1::Control::Stub> slow_stub_;
};

TEST_F(DumpTest, OneDumpAtATime) {
  StoreManyEndpoints();
  Call slow(*slow_stub_, svcmap::testing::kHangLimit);
  v1::DumpResponse first;
  ASSERT_TRUE(slow.reader->Read(&first));  // Reads nothing more.
  Call waiting(*stub_, 500ms);
  EXPECT_EQ(waiting.ReadAll(), 0u);
  EXPECT_EQ(waiting.reader->Finish().error_code(), grpc::DEADLINE_EXCEEDED);
  // Other calls do not wait for a Dump.
  EXPECT_EQ(List(v1::KIND_SERVICE).size(), 1u);
  EXPECT_EQ(Apply({Web("shop/other", "10.96.0.11")}).outcome(), v1::COMMITTED);

  Call next(*stub_, svcmap::testing::kHangLimit);
  slow.context.TryCancel();
  slow.reader->Finish();
  EXPECT_GT(next.ReadAll(), 500'000u);
  EXPECT_TRUE(next.reader->Finish().ok());
}

TEST_F(DumpTest, AClientThatDoesNotReadDelaysTheNextDumpForALimitedTime) {
  limits_.read_within.base = 300ms;
  StoreManyEndpoints();
  Call slow(*slow_stub_, svcmap::testing::kHangLimit);
  v1::DumpResponse first;
  ASSERT_TRUE(slow.reader->Read(&first));  // Reads nothing more.
  const auto begin = std::chrono::steady_clock::now();
  Call next(*stub_, svcmap::testing::kHangLimit);
  EXPECT_GT(next.ReadAll(), 500'000u);
  EXPECT_TRUE(next.reader->Finish().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  slow.ReadAll();
  EXPECT_EQ(slow.reader->Finish().error_code(), grpc::CANCELLED);
}

// Reads 256 KiB each 230 ms, which is more than 1 MiB per second.
TEST_F(DumpTest, AClientThatReadsInTimeIsNotCancelled) {
  limits_.read_within.base = 1s;
  StoreManyEndpoints();
  Call steady(*slow_stub_, svcmap::testing::kHangLimit);
  size_t size = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (v1::DumpResponse response; steady.reader->Read(&response);) {
    size += response.text().size();
    std::this_thread::sleep_for(230ms);
  }
  EXPECT_TRUE(steady.reader->Finish().ok());
  EXPECT_GT(size, 500'000u);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, limits_.read_within.base);
}

// Every portion of a Dump is a turn of the loop, and a change fits between two portions.
TEST_F(DumpTest, ChangesAndDumpsAtTheSameTime) {
  StoreManyEndpoints();
  std::atomic<bool> stop = false;
  std::vector<std::thread> readers;
  for (const auto what :
       {v1::DumpRequest::DESIRED, v1::DumpRequest::APPLIED, v1::DumpRequest::PLAN}) {
    readers.emplace_back([this, what, &stop] {
      while (!stop) {
        grpc::ClientContext context;
        SetDeadline(context);
        v1::DumpRequest request;
        request.set_what(what);
        const auto reader = stub_->Dump(&context, request);
        for (v1::DumpResponse response; reader->Read(&response);) {
        }
        EXPECT_TRUE(reader->Finish().ok());
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Apply({Web("shop/other", "10.96.0." + std::to_string(20 + i))}).outcome(),
              v1::COMMITTED);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace svcmap::api
