// Where one message ends and the next begins: Content-Length headers or JSON lines, told apart by the first byte.
// No I/O and no JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "rpc/limits.h"

namespace rex::rpc {

enum class Framing { unknown, headers, lines };

/// One message as it arrived, or what is wrong with one that could be stepped over.
struct Frame {
  std::string_view body;                  // valid until the next call of the decoder
  std::optional<Error> refused;           // set: the body was discarded, answer this with id null and go on
  std::optional<std::uint64_t> stream{};  // set: bytes of a stream that shares this one, as they arrived; no message
};

/// Passive: eats bytes in pieces of any size, hands out frames; the same bytes give the same messages however they are
/// cut. Never guesses: whatever is not exactly a frame breaks the stream for good, because two readers that disagree
/// on where a message ends can be made to execute different things.
class FrameDecoder {
 public:
  explicit FrameDecoder(const Limits& limits) : limits_(limits) {}

  /// From the next frame on.
  void limit_frames(std::size_t bytes) { limits_.frame_bytes = bytes; }
  /// `bytes` must stay valid until next() has returned nullopt; only then comes the next feed().
  void feed(std::string_view bytes) { input_ = bytes; }
  /// The input is over: a last line without LF becomes a frame. Half a frame with headers is dropped.
  void end_of_input() { ended_ = true; }
  std::optional<Frame> next();

  /// From now on frames of data are no error: both sides have announced `capabilities.binary`.
  void allow_data() { data_allowed_ = true; }
  [[nodiscard]] bool data_allowed() const { return data_allowed_; }

  [[nodiscard]] Framing framing() const { return framing_; }
  /// Why nothing more will ever come out; empty while the stream is sound.
  [[nodiscard]] std::string_view broken() const { return broken_; }
  /// Whether at least one frame came before: only then is the peer worth an error message.
  [[nodiscard]] bool spoke_before() const { return frames_ > 0; }

 private:
  enum class State { start, header, body, skip_body, data, line, skip_line };

  void start();
  std::optional<Frame> read_header();
  std::optional<Frame> read_body();
  std::optional<Frame> read_data();
  std::optional<Frame> read_line();
  void hold(std::string_view part);
  std::optional<Frame> header_complete();
  [[nodiscard]] std::optional<std::string_view> usual_line() const;
  bool end_header_line(std::string_view line);
  std::optional<Frame> refuse(Error error);
  std::optional<Frame> break_stream(std::string_view reason);

  Limits limits_;
  std::string_view input_;
  bool ended_ = false;
  Framing framing_ = Framing::unknown;
  State state_ = State::start;
  std::string_view broken_;
  std::uint64_t frames_ = 0;

  std::string held_;         // a frame or a header line that is not complete; at most limits.frame_bytes (header_bytes)
  bool handed_out_ = false;  // held_ is the body of the last frame
  bool is_length_ = true;    // the header line in held_ can still become that one
  bool is_type_ = true;
  std::size_t header_bytes_ = 0;
  std::size_t header_lines_ = 0;
  std::optional<std::uint64_t> content_length_;
  std::optional<std::string> content_type_;
  bool data_allowed_ = false;
  std::uint64_t stream_ = 0;   // of the data that is being read
  std::uint64_t missing_ = 0;  // bytes of the body that have not arrived
};

/// Most bytes that one of these two adds.
inline constexpr std::size_t max_header_bytes = 128;
/// Adds what goes before a body of so many bytes; `unknown` is sent as headers. The body must be one line of JSON.
void append_frame_header(std::string& out, Framing framing, std::size_t body_bytes);
/// Adds what goes before so many bytes of data of a stream.
void append_data_header(std::string& out, std::uint64_t stream, std::size_t bytes);
std::string_view frame_trailer(Framing framing);

}  // namespace rex::rpc
