#include "files/copy_stream.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <utility>

#include "base/error.h"

namespace rex::files {
namespace {

constexpr std::size_t length_bytes = 4;
constexpr std::size_t head_bytes = 1 + length_bytes;             // the kind, and the length of what follows
constexpr std::size_t max_record_bytes = max_copy_bytes + 8192;  // a path and a target are up to 4 KiB each

template <std::integral Int>
void put(std::string& out, Int value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF);
  }
}

void put(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

/// A length that was not known when its place was written.
void put_at(std::string& out, std::size_t at, std::size_t length) {
  std::string text;
  put(text, static_cast<std::uint32_t>(length));
  out.replace(at, text.size(), text);
}

Error broken() { return {Fault::HostProtocol, "what arrived is no copy of a tree"}; }

/// A path of names alone, as a stream of ours has it.
void check_relative(std::string_view path) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, end);
    if (name.empty() || name == "." || name == ".." || name.find('\0') != name.npos || end + 1 == path.size()) {
      throw Error(Fault::HostProtocol, "a copy arrived broken: a path that leads elsewhere");
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
}

/// Takes a record's members apart, in the order in which they were put.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}
  template <class Int>
  Int number() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(Int); ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(take(1)[0])} << (8 * i);
    }
    return static_cast<Int>(value);
  }
  std::string_view text() { return take(number<std::uint32_t>()); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > bytes_.size()) {
      throw broken();
    }
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::string_view bytes_;
};

}  // namespace

void append(std::string& stream, const CopyRecord& record) {
  const std::size_t begin = stream.size();
  stream += static_cast<char>(record.kind);
  put(stream, std::uint32_t{0});
  put(stream, record.path);
  put(stream, record.mode);
  put(stream, std::int64_t{record.mtime.tv_sec});
  put(stream, std::int64_t{record.mtime.tv_nsec});
  put(stream, record.size);
  put(stream, record.offset);
  put(stream, record.kind == CopyRecord::Kind::bytes ? record.bytes : record.text);
  put_at(stream, begin + 1, stream.size() - begin - head_bytes);
}

std::string_view append_bytes(std::string& stream, std::size_t most,
                              const std::function<std::size_t(std::span<char> place)>& read) {
  const std::size_t before = stream.size();
  append(stream, {.kind = CopyRecord::Kind::bytes});
  const std::size_t begin = stream.size();
  try {
    stream.resize(begin + most);
    const std::size_t size = read(std::span(stream).subspan(begin));
    stream.resize(size == 0 ? before : begin + size);
    if (size > 0) {
      put_at(stream, begin - length_bytes, size);
      put_at(stream, before + 1, begin + size - before - head_bytes);
    }
    return std::string_view(stream).substr(size == 0 ? before : begin);
  } catch (...) {
    stream.resize(before);
    throw;
  }
}

void CopyReader::feed(std::string_view bytes) {
  buffer_.erase(0, std::exchange(taken_, 0));
  buffer_.append(bytes);
}

std::optional<CopyRecord> CopyReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  if (rest.size() < head_bytes) {
    return std::nullopt;
  }
  const auto length = Fields(rest.substr(1)).number<std::uint32_t>();
  if (length > max_record_bytes || std::string_view("dflsbhez").find(rest[0]) == std::string_view::npos) {
    throw broken();
  }
  if (rest.size() < head_bytes + length) {
    return std::nullopt;
  }
  Fields fields(rest.substr(head_bytes, length));
  CopyRecord record;
  record.kind = static_cast<CopyRecord::Kind>(rest[0]);
  record.path = fields.text();
  record.mode = fields.number<std::uint32_t>();
  record.mtime.tv_sec = static_cast<time_t>(fields.number<std::int64_t>());
  record.mtime.tv_nsec = static_cast<long>(fields.number<std::int64_t>());
  record.size = fields.number<std::int64_t>();
  record.offset = fields.number<std::int64_t>();
  if (record.kind == CopyRecord::Kind::bytes) {
    record.bytes = fields.text();
  } else {
    record.text = fields.text();
  }
  if (!fields.empty() || record.size < 0 || record.offset < 0 || record.mtime.tv_nsec < 0 ||
      record.mtime.tv_nsec > 999'999'999) {
    throw broken();
  }
  check_relative(record.path);
  taken_ += head_bytes + length;
  return record;
}

void hash_zeros(Sha256& hash, std::int64_t size) {
  static constexpr std::array<char, 64 << 10> zeros{};
  for (std::int64_t piece = 0; size > 0; size -= piece) {
    piece = std::min<std::int64_t>(size, zeros.size());
    hash.update({zeros.data(), static_cast<std::size_t>(piece)});
  }
}

}  // namespace rex::files
