// Counts the HTTP/2 frames of one connection and detects floods. gRPC 1.51 does not limit resets,
// CONTINUATION frames or other control frames. gRPC limits streams only after the client has
// acknowledged SETTINGS.
//
// Reads frame headers and the error code of RST_STREAM. Does not decode header blocks. Does not
// read a clock, because the caller passes the time. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "api/limits/token_bucket.h"
#include "api/screen/connection_limits.h"

namespace svcmap::api {

// Reason to close the connection, or nullopt.
using Offence = std::optional<Rejection>;

struct FrameLimits {
  uint32_t max_streams = 16;  // Maximum number of open streams.
  // Maximum total number of DATA bytes in all open streams. Each DATA frame counts as 64 additional
  // bytes. 0 disables the limit.
  uint64_t max_request_bytes = 0;
  uint32_t max_header_block_bytes = 16 * 1024;
  uint32_t max_continuations = 8;  // Maximum number of CONTINUATION frames in one header block.
  // Rate limit for RST_STREAM frames: all frames that the client sends for open streams, and frames
  // from the server with an error code other than NO_ERROR.
  double reset_burst = 200, resets_per_second = 20;
  // Rate limit for frames that carry no data: SETTINGS, PING, WINDOW_UPDATE, PRIORITY, unknown
  // types, and DATA that is empty, tiny or for a closed stream. Each response allows additional
  // frames, because a client acknowledges data with WINDOW_UPDATE and measures the round-trip time
  // with PING.
  double frame_burst = 1000, frames_per_second = 200, frames_per_response = 4;
};

// Size of the client preface and of the header of the client's first frame.
inline constexpr size_t kGreetingBytes = 24 + 9;

class FrameCheck {
 public:
  using Clock = TokenBucket::Clock;

  FrameCheck(const FrameLimits& limits, Clock::time_point now);

  // Processes the next bytes from the client, in pieces of any size. After an offence, the
  // connection must be closed.
  Offence FromClient(std::string_view bytes, Clock::time_point now);
  // Processes the next bytes from the server.
  Offence FromServer(std::string_view bytes, Clock::time_point now);

  // Returns whether the preface and the header of the client's first SETTINGS frame have arrived.
  bool greeted() const { return greeted_; }
  // Returns whether the bytes from the server end with a complete frame. The caller can send its
  // own frames to the client, for example GOAWAY, only if the result is true.
  bool server_between_frames() const { return server_.between_frames(); }
  size_t open_streams() const { return open_.size(); }

 private:
  struct Frame {
    uint32_t length = 0;
    uint8_t type = 0;
    uint8_t flags = 0;
    uint32_t stream = 0;
  };
  // Extracts the header and the first 4 payload bytes of each frame.
  struct Splitter {
    bool between_frames() const { return header_bytes == 0 && payload_left == 0; }

    uint8_t header[9] = {};
    uint32_t header_bytes = 0;
    uint32_t payload_left = 0;
    Frame frame;
    uint32_t word = 0;
    uint32_t word_bytes = 0;
  };
  struct OpenStream {
    uint32_t id;
    bool client_ended;
    bool server_ended;
    uint64_t bytes = 0;  // Number of DATA bytes from the client, including the cost of each frame.
  };

  // Calls `on_header` for each frame header, and `on_word` once the first 4 bytes of the payload
  // are known.
  template <typename OnHeader, typename OnWord>
  static Offence Split(std::string_view bytes, Splitter& splitter, OnHeader on_header,
                       OnWord on_word);

  Offence OnClientFrame(const Frame& frame, Clock::time_point now);
  Offence OnClientHeaders(const Frame& frame, Clock::time_point now);
  Offence OnClientData(const Frame& frame, Clock::time_point now);
  void OnServerFrame(const Frame& frame);
  Offence TakeFrames(double frames, Clock::time_point now);
  Offence TakeReset(Clock::time_point now);
  OpenStream* Find(uint32_t id);
  void Close(uint32_t id);

  FrameLimits limits_;
  TokenBucket resets_;
  TokenBucket frames_;
  size_t preface_bytes_ = 0;
  bool greeted_ = false;
  Splitter client_;
  Splitter server_;
  uint32_t last_stream_ = 0;
  uint32_t block_stream_ = 0;  // Stream of the incomplete header block, or 0 if there is none.
  uint32_t block_bytes_ = 0;
  uint32_t continuations_ = 0;
  std::vector<OpenStream> open_;
  uint64_t open_bytes_ = 0;  // Number of DATA bytes of all streams in open_.
};

}  // namespace svcmap::api
