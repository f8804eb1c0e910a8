#include "files/copy_stream.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace rex::files {
namespace {

constexpr std::size_t head_bytes = 5;                            // the kind, and the length of what follows
constexpr std::size_t max_record_bytes = max_copy_bytes + 8192;  // a path and a target are up to 4 KiB each

template <class Int>
void put(std::string& out, Int value) {
  for (std::size_t i = 0; i < sizeof value; ++i) {
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF);
  }
}

void put(std::string& out, const std::string& text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
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
  std::string text() { return std::string(take(number<std::uint32_t>())); }
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
  put(stream, record.text);
  std::string length;
  put(length, static_cast<std::uint32_t>(stream.size() - begin - head_bytes));
  stream.replace(begin + 1, length.size(), length);
}

std::optional<CopyRecord> CopyReader::next() {
  if (buffer_.size() < head_bytes) {
    return std::nullopt;
  }
  const auto length = Fields(std::string_view(buffer_).substr(1)).number<std::uint32_t>();
  if (length > max_record_bytes || std::string_view("dflsbhez").find(buffer_[0]) == std::string_view::npos) {
    throw broken();
  }
  if (buffer_.size() < head_bytes + length) {
    return std::nullopt;
  }
  Fields fields(std::string_view(buffer_).substr(head_bytes, length));
  CopyRecord record;
  record.kind = static_cast<CopyRecord::Kind>(buffer_[0]);
  record.path = fields.text();
  record.mode = fields.number<std::uint32_t>();
  record.mtime.tv_sec = static_cast<time_t>(fields.number<std::int64_t>());
  record.mtime.tv_nsec = static_cast<long>(fields.number<std::int64_t>());
  record.size = fields.number<std::int64_t>();
  record.offset = fields.number<std::int64_t>();
  record.text = fields.text();
  if (!fields.empty() || record.size < 0 || record.offset < 0 || record.mtime.tv_nsec < 0 ||
      record.mtime.tv_nsec > 999'999'999) {
    throw broken();
  }
  check_relative(record.path);
  buffer_.erase(0, head_bytes + length);
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
