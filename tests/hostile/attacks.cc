#include "tests/hostile/hostile_world.h"

#include <zlib.h>

#include <cstdlib>

#include "tests/hostile/frames.h"

namespace svcmap::hostile {
namespace {

using Clock = Wire::Clock;

constexpr char kRead[] = "/svcmap.v1.Control/GetStatus";
constexpr char kList[] = "/svcmap.v1.Control/List";
constexpr char kWrite[] = "/svcmap.v1.Control/Apply";
constexpr char kReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr int kPerSend = 100;
constexpr size_t kMaxFrame = 16384;

// Sends `make(n)` for n = 0, 1, ... until the time is over. Reads the peer's answers unless `deaf`
// is true.
void Repeat(Wire& wire, Clock::time_point until, const std::function<std::string(uint32_t)>& make,
            bool deaf = false) {
  for (uint32_t n = 0; Clock::now() < until;) {
    std::string bytes;
    for (int i = 0; i < kPerSend && bytes.size() < 256 * 1024; ++i) bytes += make(n++);
    if (!wire.Send(bytes, until)) return;
    if (!deaf) wire.Receive();
  }
}

// Returns an attack that sends `first` once, then `make(n)` repeatedly.
Attack After(const std::string& name, const std::string& first,
             const std::function<std::string(uint32_t)>& make, bool deaf = false) {
  return {name, [=](Wire& wire, Clock::time_point until) {
            if (wire.Send(Greeting() + first, until)) Repeat(wire, until, make, deaf);
          }};
}

uint32_t Id(uint32_t n) { return (2 * n + 1) & 0x7fffffff; }

// Returns header fields for a header block of 16 KiB.
std::string ManyFields() {
  std::string fields;
  for (int i = 0; fields.size() < 16000; ++i) {
    fields += Field("x-" + std::to_string(i), std::string(100, 'a'));
  }
  return fields;
}

// Returns call number `n` of an HPACK bomb. The first call adds an entry of 3.5 KB to the dynamic
// table. Each later call references this entry 8,000 times in 8 KB of header data.
std::string TableBomb(uint32_t n) {
  if (n == 0) {
    return Frame(kHeaders, kEndHeaders, 1,
                 CallFields(kRead) + Field("x", std::string(3500, 'a'), true));
  }
  return Frame(kHeaders, kEndHeaders, Id(n), CallFields(kRead) + std::string(8000, '\xbe'));
}

// Returns a complete call on a connection whose flow-control windows are 0, so the agent cannot
// send its response.
std::string DeafCall(uint32_t n) {
  return Call(Id(n), kList) + Frame(kData, kEndStream, Id(n), MessagePrefix(0));
}

// Returns `size` zero bytes, compressed in gzip format by a factor of about 1,000.
std::string Gzip(size_t size) {
  const std::string zeros(size, '\0');
  std::string compressed(compressBound(static_cast<uLong>(size)) + 100, '\0');
  z_stream stream = {};
  constexpr int kGzipFormat = 16 + MAX_WBITS;
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipFormat, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    std::abort();
  }
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
  stream.avail_in = static_cast<uInt>(zeros.size());
  stream.next_out = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_out = static_cast<uInt>(compressed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  compressed.resize(stream.total_out);
  deflateEnd(&stream);
  return compressed;
}

// Returns a call with a gzip message.
std::string CompressedCall(uint32_t stream, std::string_view message) {
  const std::string prefix = '\1' + Number32(static_cast<uint32_t>(message.size()));
  std::string bytes =
      Frame(kHeaders, kEndHeaders, stream, CallFields(kRead) + Field("grpc-encoding", "gzip")) +
      Frame(kData, 0, stream, prefix);
  for (; message.size() > kMaxFrame; message.remove_prefix(kMaxFrame)) {
    bytes += Frame(kData, 0, stream, message.substr(0, kMaxFrame));
  }
  return bytes + Frame(kData, kEndStream, stream, message);
}

std::vector<Attack> MakeAttacks() {
  const std::string bomb = Gzip(30 << 20);
  const std::string fields = ManyFields();
  const std::string block = Frame(kContinuation, 0, 1, fields);
  const std::string open_block = Frame(kHeaders, 0, 1, CallFields(kRead));
  return {
      After(
          "RapidReset", "",
          [](uint32_t n) { return Call(Id(n), kRead) + Frame(kRstStream, 0, Id(n), Number32(8)); }),
      After("StreamsWithoutReset", "", [](uint32_t n) { return Call(Id(n), kRead); }),
      After("ResetByTheServer", "",
            [](uint32_t n) {
              return Call(Id(n), kRead) + Frame(kWindowUpdate, 0, Id(n), Number32(0));
            }),
      // Calls that the peer resets, calls that the server resets, and frames that need a response.
      After("MixedControlFrames", "",
            [](uint32_t n) {
              return Call(Id(2 * n), kRead) + Frame(kPing, 0, 0, "12345678") +
                     Frame(kRstStream, 0, Id(2 * n), Number32(8)) + Call(Id(2 * n + 1), kRead) +
                     Frame(kSettings, 0, 0, std::string("\0\4", 2) + Number32(65535 - n % 2)) +
                     Frame(kWindowUpdate, 0, Id(2 * n + 1), Number32(0));
            }),
      After("EndlessContinuation", open_block, [=](uint32_t) { return block; }),
      After("EmptyContinuation", open_block, [](uint32_t) { return Frame(kContinuation, 0, 1); }),
      After("EndlessHeaderField",
            Frame(kHeaders, 0, 1, CallFields(kRead) + std::string("\0\1x\x7f\x80\xff\xff\x7f", 8)),
            [](uint32_t) { return Frame(kContinuation, 0, 1, std::string(16000, 'a')); }),
      After("LargeHeaderLists", "",
            [=](uint32_t n) {
              return Frame(kHeaders, kEndHeaders, Id(n),
                           CallFields(kRead) + fields.substr(0, 8008));
            }),
      After("TableBomb", "", TableBomb),
      After(
          "SettingsFlood", "",
          [](uint32_t n) {
            return Frame(kSettings, 0, 0, std::string("\0\4", 2) + Number32(65535 - n % 2));
          },
          /*deaf=*/true),
      After("TableSizeFlood", "",
            [](uint32_t n) {
              return Frame(kSettings, 0, 0, std::string("\0\1", 2) + Number32(n % 2 * 4096));
            }),
      After(
          "PingFlood", "", [](uint32_t) { return Frame(kPing, 0, 0, "12345678"); }, /*deaf=*/true),
      After("PingFloodThatReads", "", [](uint32_t) { return Frame(kPing, 0, 0, "12345678"); }),
      After("WindowUpdateFlood", Call(1, kRead),
            [](uint32_t) { return Frame(kWindowUpdate, 0, 1, Number32(1)); }),
      After("PriorityFlood", "",
            [](uint32_t n) { return Frame(kPriority, 0, Id(n), Number32(0) + '\1'); }),
      After("UnknownFrameFlood", "", [](uint32_t) { return Frame(0xf0, 0, 0, "12345678"); }),
      After("EmptyData", Call(1, kRead), [](uint32_t) { return Frame(kData, 0, 1); }),
      After("DataOnClosedStreams", Call(1, kRead) + Frame(kRstStream, 0, 1, Number32(8)),
            [](uint32_t) { return Frame(kData, 0, 1, std::string(16000, 'a')); }),
      // Messages whose end is never sent. The sent part of each message exhausts the flow-control
      // window of its stream.
      After("UnfinishedMessages", "",
            [](uint32_t n) {
              return Call(Id(n), kWrite) + Frame(kData, 0, Id(n), MessagePrefix(4 << 20)) +
                     Frame(kData, 0, Id(n), std::string(2000, 'a'));
            }),
      After("UnfinishedMessagesInBytes", "",
            [](uint32_t n) {
              std::string bytes;
              if (n % 1000 == 0) {
                bytes = Call(Id(n / 1000), kWrite) +
                        Frame(kData, 0, Id(n / 1000), MessagePrefix(4 << 20));
              }
              return bytes + Frame(kData, 0, Id(n / 1000), "a");
            }),
      // Messages of 31 KB that a decompressing server would expand to 30 MiB each.
      After("CompressedMessages", "", [=](uint32_t n) { return CompressedCall(Id(n), bomb); }),
      After("CallsWithoutReading", "", DeafCall, /*deaf=*/true),
      {"CallsWithoutWindow",
       [](Wire& wire, Clock::time_point until) {
         if (!wire.Send(Greeting(0), until)) return;
         Repeat(wire, Clock::now() + std::chrono::milliseconds(100), DeafCall);
         wire.AwaitClose(until);
       }},
      After("ReflectionStreams", "", [](uint32_t n) { return Call(Id(n), kReflection); }),
      After("NeverOpen", "", [](uint32_t n) { return Call(Id(n), "/svcmap.v1.Control/Push"); }),
      {"NoPreface", [](Wire& wire, Clock::time_point until) { wire.AwaitClose(until); }},
      {"HalfAPreface",
       [](Wire& wire, Clock::time_point until) {
         wire.Send(kPreface.substr(0, 20), until);
         wire.AwaitClose(until);
       }},
      {"OtherProtocol",
       [](Wire& wire, Clock::time_point until) {
         Repeat(wire, until, [](uint32_t) { return "GET / HTTP/1.1\r\nHost: x\r\n\r\n"; });
       }},
      {"IdleConnection",
       [](Wire& wire, Clock::time_point until) {
         wire.Send(Greeting(), until);
         wire.AwaitClose(until);
       }},
  };
}

}  // namespace

const std::vector<Attack>& AllAttacks() {
  static const std::vector<Attack> attacks = MakeAttacks();
  return attacks;
}

}  // namespace svcmap::hostile
