#include "rpc/framing.h"

#include <string.h>

#include <algorithm>
#include <charconv>

#include "base/secret.h"

namespace rex::rpc {

namespace {

constexpr std::string_view length_name = "content-length:";
constexpr std::string_view type_name = "content-type:";
// As nearly everybody writes them.
constexpr std::string_view usual_names[] = {"Content-Length: ", "Content-Type: "};
constexpr std::string_view data_type = "application/vnd.rex.data; stream=";  // exactly as it is written by us
constexpr std::uint64_t max_size = (std::uint64_t{1} << 53) - 1;             // beyond it a size is no size on this wire

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_plain(char c) { return (c >= 0x20 && c <= 0x7e) || c == '\t'; }

/// Whether a line that has `c` at this place can be the header of this name, which is in lower case.
bool fits(std::string_view name, std::size_t at, char c) { return at >= name.size() || name[at] == lower(c); }

/// Whether we read what the value of a Content-Type announces: JSON in UTF-8.
bool is_json_in_utf8(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), lower);
  std::string_view rest = value;
  while (!rest.empty()) {
    const auto end = std::min(rest.find(';'), rest.size());
    const std::string_view part = trim(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) {
      if (!part.empty() && part.find("json") == std::string_view::npos) {
        return false;
      }
      continue;
    }
    std::string_view charset = trim(part.substr(equals + 1));
    if (charset.size() >= 2 && charset.front() == '"' && charset.back() == '"') {
      charset = charset.substr(1, charset.size() - 2);
    }
    if (trim(part.substr(0, equals)) == "charset" && charset != "utf-8" && charset != "utf8") {
      return false;
    }
  }
  return true;
}

/// The stream whose data a Content-Type announces, if it does.
std::optional<std::uint64_t> stream_of(std::string_view type) {
  std::uint64_t stream = 0;
  if (!type.starts_with(data_type)) {
    return std::nullopt;
  }
  type.remove_prefix(data_type.size());
  const auto [end, error] = std::from_chars(type.data(), type.data() + type.size(), stream);
  const bool sound = error == std::errc() && end == type.data() + type.size() && stream <= max_size;
  return sound ? std::optional(stream) : std::nullopt;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

}  // namespace

std::optional<Frame> FrameDecoder::next() {
  if (handed_out_) {
    explicit_bzero(held_.data(), held_.size());  // it may have been a secret
    held_.clear();
    handed_out_ = false;
  }
  while (broken_.empty()) {
    std::optional<Frame> frame;
    const std::size_t before = input_.size();
    const State state = state_;
    switch (state_) {
      case State::start: start(); break;
      case State::header: frame = read_header(); break;
      case State::body:
      case State::skip_body: frame = read_body(); break;
      case State::data: frame = read_data(); break;
      case State::line:
      case State::skip_line: frame = read_line(); break;
    }
    if (frame) {
      ++frames_;
      return frame;
    }
    if (input_.size() == before && state_ == state) {
      break;
    }
  }
  return std::nullopt;
}

void FrameDecoder::start() {
  if (input_.empty()) {
    return;
  }
  switch (input_.front()) {
    case 'C':
    case 'c':
      framing_ = Framing::headers;
      state_ = State::header;
      break;
    case '{':
    case '[':
      framing_ = Framing::lines;
      state_ = State::line;
      break;
    default: break_stream("the first byte begins neither a Content-Length header nor JSON");
  }
}

/// A whole line, the empty one too, where nothing is odd about it: what is, goes byte by byte.
std::optional<std::string_view> FrameDecoder::usual_line() const {
  const std::string_view block = input_.substr(0, limits_.header_bytes - header_bytes_);
  const std::size_t end = held_.empty() ? block.find("\r\n") : std::string_view::npos;
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view line = block.substr(0, end);
  const bool is_usual =
      std::ranges::any_of(usual_names, [line](std::string_view name) { return line.starts_with(name); });
  return line.empty() || (is_usual && std::ranges::all_of(line, is_plain)) ? std::optional(line) : std::nullopt;
}

std::optional<Frame> FrameDecoder::read_header() {
  while (const std::optional<std::string_view> line = usual_line()) {
    header_bytes_ += line->size() + 2;
    input_.remove_prefix(line->size() + 2);
    if (line->empty()) {
      return header_complete();
    }
    if (!end_header_line(*line)) {
      return std::nullopt;
    }
  }
  while (!input_.empty()) {
    const char c = input_.front();
    input_.remove_prefix(1);
    if (++header_bytes_ > limits_.header_bytes) {
      return break_stream("a header block longer than headerBytes");
    }
    const bool after_cr = !held_.empty() && held_.back() == '\r';
    if (after_cr != (c == '\n')) {
      return break_stream("a header line that does not end with CR LF");
    }
    if (after_cr) {
      held_.pop_back();
      if (held_.empty()) {
        return header_complete();
      }
      if (!end_header_line(held_)) {
        return std::nullopt;
      }
      held_.clear();
      continue;
    }
    if (c != '\r' && !is_plain(c)) {
      return break_stream("a header with a byte that is not printable ASCII");
    }
    if (c != '\r') {  // who speaks something else is found out at the first wrong byte, not after a whole line
      is_length_ = is_length_ && fits(length_name, held_.size(), c);
      is_type_ = is_type_ && fits(type_name, held_.size(), c);
      if (!is_length_ && !is_type_) {
        return break_stream("a header other than Content-Length and Content-Type");
      }
    }
    held_ += c;
    if (c != '\r' && held_.size() >= length_name.size()) {  // the value of one of them: no place in it matters
      const std::string_view rest = input_.substr(0, limits_.header_bytes - header_bytes_);
      const auto value = static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), is_plain) - rest.begin());
      held_.append(rest.substr(0, value));
      header_bytes_ += value;
      input_.remove_prefix(value);
    }
  }
  return std::nullopt;
}

/// False if the line broke the stream.
bool FrameDecoder::end_header_line(std::string_view line) {
  const auto fail = [this](std::string_view reason) {
    break_stream(reason);
    return false;
  };
  if (++header_lines_ > limits_.header_lines) {
    return fail("too many header lines");
  }
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) {
    return fail("a header line without a colon");
  }
  const std::string_view value = trim(line.substr(colon + 1));
  if (colon + 1 == type_name.size()) {
    if (content_type_) {
      return fail("two Content-Type headers");
    }
    content_type_ = value;
  } else {
    if (content_length_) {
      return fail("two Content-Length headers");
    }
    std::uint64_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (value.empty() || error != std::errc() || end != value.data() + value.size() || length > max_size) {
      return fail("a Content-Length that is no size");
    }
    content_length_ = length;
  }
  is_length_ = is_type_ = true;
  return true;
}

std::optional<Frame> FrameDecoder::header_complete() {
  if (!content_length_) {
    return break_stream("a header block without Content-Length");
  }
  const std::uint64_t length = *content_length_;
  const std::optional<std::uint64_t> stream = data_allowed_ && content_type_ ? stream_of(*content_type_) : std::nullopt;
  const bool readable = stream || !content_type_ || is_json_in_utf8(*content_type_);
  content_length_.reset();
  content_type_.reset();
  header_bytes_ = 0;
  header_lines_ = 0;
  missing_ = length;
  state_ = State::skip_body;
  if (length > limits_.frame_bytes) {
    return refuse(
        limit_exceeded("frameBytes", static_cast<std::int64_t>(length), static_cast<std::int64_t>(limits_.frame_bytes))
            .with("reason", "frameTooLarge"));
  }
  if (stream) {
    stream_ = *stream;
    state_ = State::data;
    return std::nullopt;
  }
  if (!readable) {
    Error error(Fault::InvalidRequest, "only JSON in UTF-8 is read here, not this Content-Type");
    return refuse(std::move(error).with("reason", "contentType"));
  }
  state_ = State::body;
  return length == 0 ? read_body() : std::nullopt;
}

std::optional<Frame> FrameDecoder::read_body() {
  const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(missing_, input_.size()));
  const std::string_view part = input_.substr(0, n);
  input_.remove_prefix(n);
  missing_ -= n;
  if (state_ == State::skip_body) {
    if (missing_ == 0) {
      state_ = State::header;
    }
    return std::nullopt;
  }
  if (missing_ == 0 && held_.empty()) {
    state_ = State::header;
    return Frame{part, std::nullopt, std::nullopt};
  }
  hold(part);
  if (missing_ > 0) {
    return std::nullopt;
  }
  state_ = State::header;
  handed_out_ = true;
  return Frame{held_, std::nullopt, std::nullopt};
}

/// Data is handed out as it comes: nobody has to hold a frame of it.
std::optional<Frame> FrameDecoder::read_data() {
  const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(missing_, input_.size()));
  const std::string_view part = input_.substr(0, n);
  input_.remove_prefix(n);
  missing_ -= n;
  if (missing_ == 0) {
    state_ = State::header;
  }
  return part.empty() ? std::nullopt : std::optional(Frame{part, std::nullopt, stream_});
}

std::optional<Frame> FrameDecoder::read_line() {
  const auto newline = input_.find('\n');
  const bool complete = newline != std::string_view::npos;
  std::string_view part = input_.substr(0, newline);
  if (state_ == State::skip_line) {
    input_.remove_prefix(complete ? newline + 1 : input_.size());
    state_ = complete ? State::line : State::skip_line;
    return std::nullopt;
  }
  // A CR may still turn out to belong to the line's end, so it does not count yet.
  const std::size_t bytes = held_.size() + part.size();
  const char last = !part.empty() ? part.back() : !held_.empty() ? held_.back() : '\0';
  if (bytes - (last == '\r' ? 1 : 0) > limits_.frame_bytes) {
    held_.clear();
    state_ = State::skip_line;
    return refuse(limit_exceeded("frameBytes", static_cast<std::int64_t>(limits_.frame_bytes) + 1,
                                 static_cast<std::int64_t>(limits_.frame_bytes))
                      .with("reason", "frameTooLarge"));
  }
  input_.remove_prefix(complete ? newline + 1 : input_.size());
  if (!complete && !ended_) {
    hold(part);
    return std::nullopt;
  }
  if (!held_.empty()) {
    hold(part);
    part = held_;
    handed_out_ = true;
  }
  if (complete && part.ends_with('\r')) {
    part.remove_suffix(1);
  }
  if (is_blank(part)) {
    held_.clear();
    handed_out_ = false;
    return std::nullopt;
  }
  return Frame{part, std::nullopt, std::nullopt};
}

void FrameDecoder::hold(std::string_view part) {
  make_room(held_, part.size());
  held_ += part;
}

std::optional<Frame> FrameDecoder::refuse(Error error) { return Frame{{}, std::move(error), std::nullopt}; }

std::optional<Frame> FrameDecoder::break_stream(std::string_view reason) {
  broken_ = reason;
  input_ = {};
  held_.clear();
  return std::nullopt;
}

void append_frame_header(std::string& out, Framing framing, std::size_t body_bytes) {
  if (framing != Framing::lines) {
    ((out += usual_names[0]) += std::to_string(body_bytes)) += "\r\n\r\n";
  }
}

void append_data_header(std::string& out, std::uint64_t stream, std::size_t bytes) {
  ((out += usual_names[0]) += std::to_string(bytes)) += "\r\n";
  (((out += usual_names[1]) += data_type) += std::to_string(stream)) += "\r\n\r\n";
}

std::string_view frame_trailer(Framing framing) { return framing == Framing::lines ? "\n" : ""; }

}  // namespace rex::rpc
