#include "api/screen/frame_check.h"

#include <algorithm>
#include <cstring>

namespace svcmap::api {
namespace {

constexpr std::string_view kClientPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHeaderBytes = 9;
// Maximum payload of all frames except DATA frames. gRPC limits the size of DATA frames.
constexpr uint32_t kMaxFrameBytes = 16384;
// Maximum payload of a DATA frame that counts as tiny. The prefix of a gRPC message has 5 bytes, so
// normal clients do not send shorter payloads.
constexpr uint32_t kTinyDataBytes = 4;
// Memory that gRPC needs for a DATA frame of an incomplete message, in addition to the payload. At
// least 50 bytes were measured with gRPC 1.51.
constexpr uint32_t kDataFrameCost = 64;
// Payload size above which a frame counts as several frames.
constexpr double kBytesPerFrame = 1024;
constexpr double kSettingsFrames = 4;  // Number of frames that a SETTINGS frame counts as.

enum Http2FrameType : uint8_t {
  kDataFrame = 0,
  kHeadersFrame = 1,
  kRstStreamFrame = 3,
  kSettingsFrame = 4,
  kPushPromiseFrame = 5,
  kPingFrame = 6,
  kContinuationFrame = 9,
};

constexpr uint8_t kEndStreamFlag = 0x1;
constexpr uint8_t kAckFlag = 0x1;
constexpr uint8_t kEndHeadersFlag = 0x4;

uint32_t ReadNumber(const uint8_t* bytes, size_t count) {
  uint32_t number = 0;
  for (size_t i = 0; i < count; ++i) number = number << 8 | bytes[i];
  return number;
}

}  // namespace

FrameCheck::FrameCheck(const FrameLimits& limits, Clock::time_point now)
    : limits_(limits),
      resets_(limits.reset_burst, limits.resets_per_second, now),
      frames_(limits.frame_burst, limits.frames_per_second, now) {}

template <typename OnHeader, typename OnWord>
Offence FrameCheck::Split(std::string_view bytes, Splitter& s, OnHeader on_header, OnWord on_word) {
  while (!bytes.empty()) {
    if (s.payload_left == 0) {
      const size_t taken = std::min(kFrameHeaderBytes - s.header_bytes, bytes.size());
      std::memcpy(s.header + s.header_bytes, bytes.data(), taken);
      s.header_bytes += static_cast<uint32_t>(taken);
      bytes.remove_prefix(taken);
      if (s.header_bytes < kFrameHeaderBytes) return Offence();
      s.header_bytes = 0;
      s.frame = {.length = ReadNumber(s.header, 3),
                 .type = s.header[3],
                 .flags = s.header[4],
                 .stream = ReadNumber(s.header + 5, 4) & 0x7fffffff};
      s.payload_left = s.frame.length;
      s.word = s.word_bytes = 0;
      if (const Offence offence = on_header(s.frame)) return offence;
      continue;
    }
    const size_t taken = std::min<size_t>(s.payload_left, bytes.size());
    for (size_t i = 0; i < taken && s.word_bytes < 4; ++i) {
      s.word = s.word << 8 | static_cast<uint8_t>(bytes[i]);
      if (++s.word_bytes < 4) continue;
      if (const Offence offence = on_word(s.frame, s.word)) {
        return offence;
      }
    }
    s.payload_left -= static_cast<uint32_t>(taken);
    bytes.remove_prefix(taken);
  }
  return Offence();
}

Offence FrameCheck::FromClient(std::string_view bytes, Clock::time_point now) {
  const size_t preface = std::min(kClientPreface.size() - preface_bytes_, bytes.size());
  if (bytes.substr(0, preface) != kClientPreface.substr(preface_bytes_, preface)) {
    return Rejection::kNotHttp2;
  }
  preface_bytes_ += preface;
  return Split(
      bytes.substr(preface), client_, [&](const Frame& frame) { return OnClientFrame(frame, now); },
      [](const Frame&, uint32_t) { return Offence(); });
}

Offence FrameCheck::FromServer(std::string_view bytes, Clock::time_point now) {
  return Split(
      bytes, server_,
      [&](const Frame& frame) {
        OnServerFrame(frame);
        return Offence();
      },
      [&](const Frame& frame, uint32_t error_code) {
        return frame.type == kRstStreamFrame && error_code != 0 ? TakeReset(now) : Offence();
      });
}

Offence FrameCheck::OnClientFrame(const Frame& frame, Clock::time_point now) {
  if (!greeted_) {
    if (frame.type != kSettingsFrame || (frame.flags & kAckFlag) != 0) return Rejection::kNotHttp2;
    greeted_ = true;
  }
  if (frame.type != kDataFrame && frame.length > kMaxFrameBytes) return Rejection::kNotHttp2;
  // No other frame may arrive between the frames of a header block.
  if ((block_stream_ != 0) != (frame.type == kContinuationFrame) ||
      (block_stream_ != 0 && block_stream_ != frame.stream)) {
    return Rejection::kNotHttp2;
  }
  switch (frame.type) {
    case kDataFrame:
      return OnClientData(frame, now);
    case kHeadersFrame:
    case kContinuationFrame:
      return OnClientHeaders(frame, now);
    case kRstStreamFrame:
      if (Find(frame.stream) == nullptr) return TakeFrames(1, now);
      Close(frame.stream);
      return TakeReset(now);
    case kPushPromiseFrame:
      return Rejection::kNotHttp2;
    case kSettingsFrame:
      return TakeFrames((frame.flags & kAckFlag) != 0 ? 1 : kSettingsFrames, now);
    default:
      return TakeFrames(1 + frame.length / kBytesPerFrame, now);
  }
}

Offence FrameCheck::OnClientHeaders(const Frame& frame, Clock::time_point now) {
  if (frame.type == kHeadersFrame) {
    block_bytes_ = continuations_ = 0;
    if (frame.stream > last_stream_) {
      if (frame.stream % 2 == 0) return Rejection::kNotHttp2;
      if (open_.size() >= limits_.max_streams) return Rejection::kTooManyStreams;
      last_stream_ = frame.stream;
      open_.push_back({.id = frame.stream,
                       .client_ended = (frame.flags & kEndStreamFlag) != 0,
                       .server_ended = false});
    } else {  // The header block contains trailers.
      if (const Offence offence = TakeFrames(1, now)) return offence;
      OpenStream* stream = Find(frame.stream);
      if (stream != nullptr && (frame.flags & kEndStreamFlag) != 0) {
        stream->client_ended = true;
        if (stream->server_ended) Close(frame.stream);
      }
    }
  } else if (++continuations_ > limits_.max_continuations) {
    return Rejection::kHeaderBlockTooLarge;
  }
  block_bytes_ += frame.length;
  if (block_bytes_ > limits_.max_header_block_bytes) return Rejection::kHeaderBlockTooLarge;
  block_stream_ = (frame.flags & kEndHeadersFlag) != 0 ? 0 : frame.stream;
  return Offence();
}

Offence FrameCheck::OnClientData(const Frame& frame, Clock::time_point now) {
  OpenStream* stream = Find(frame.stream);
  if (stream == nullptr || stream->client_ended) {
    return TakeFrames(1 + frame.length / kBytesPerFrame, now);
  }
  stream->bytes += frame.length + kDataFrameCost;
  open_bytes_ += frame.length + kDataFrameCost;
  if (limits_.max_request_bytes != 0 && open_bytes_ > limits_.max_request_bytes) {
    return Rejection::kRequestsTooLarge;
  }
  if ((frame.flags & kEndStreamFlag) != 0) {
    stream->client_ended = true;
    if (stream->server_ended) Close(frame.stream);
    return Offence();
  }
  return frame.length <= kTinyDataBytes ? TakeFrames(1, now) : Offence();
}

void FrameCheck::OnServerFrame(const Frame& frame) {
  switch (frame.type) {
    case kDataFrame:
    case kHeadersFrame:
      frames_.Add(limits_.frames_per_response);
      if ((frame.flags & kEndStreamFlag) == 0) return;
      if (OpenStream* stream = Find(frame.stream)) {
        stream->server_ended = true;
        if (stream->client_ended) Close(frame.stream);
      }
      return;
    case kRstStreamFrame:
      return Close(frame.stream);
    case kSettingsFrame:
    case kPingFrame:  // The client acknowledges each PING of the server.
      if ((frame.flags & kAckFlag) == 0) frames_.Add(limits_.frames_per_response);
      return;
    default:
      return;
  }
}

Offence FrameCheck::TakeFrames(double frames, Clock::time_point now) {
  return frames_.Take(frames, now) ? Offence() : Rejection::kTooManyFrames;
}

Offence FrameCheck::TakeReset(Clock::time_point now) {
  return resets_.Take(1, now) ? Offence() : Rejection::kTooManyResets;
}

FrameCheck::OpenStream* FrameCheck::Find(uint32_t id) {
  const auto found = std::ranges::find(open_, id, &OpenStream::id);
  return found == open_.end() ? nullptr : &*found;
}

void FrameCheck::Close(uint32_t id) {
  const OpenStream* stream = Find(id);
  if (stream == nullptr) return;
  open_bytes_ -= stream->bytes;
  open_.erase(open_.begin() + (stream - open_.data()));
}

}  // namespace svcmap::api
