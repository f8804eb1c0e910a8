#include "files/read.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>

#include "base/encoding.h"
#include "base/error.h"
#include "files/stat.h"

namespace rex::files {
namespace {

/// Up to `length` bytes at `offset`, fewer only at the end.
std::string read_range(int fd, std::int64_t offset, std::int64_t length, std::string_view path) {
  // Grown by what there is, not by what was asked for: the file may be empty, or say that it is.
  constexpr std::size_t piece = 256 << 10;
  const auto wanted = static_cast<std::size_t>(length);
  std::string bytes;
  std::size_t have = 0;
  while (have < wanted) {
    if (have == bytes.size()) {
      bytes.resize(std::min(wanted, std::max(piece, bytes.size() * 2)));
    }
    const ssize_t n = ::pread(fd, bytes.data() + have, bytes.size() - have, offset + static_cast<off_t>(have));
    if (n > 0) {
      have += static_cast<std::size_t>(n);
    } else if (n == 0 || (errno == EAGAIN && have > 0)) {
      break;  // EAGAIN: files like /proc/kmsg wait for more where others end
    } else if (errno != EINTR) {
      throw os_error("cannot read", errno, path);
    }
  }
  bytes.resize(have);
  return bytes;
}

/// Waits until the clock has left the tick in which the file changed last: a change after our reading then shows in
/// the ctime, and so in the etag.
void wait_out_tick(const struct ::stat& status) {
  constexpr std::int64_t longest_tick = 10'000'000;  // HZ=100
  const auto ahead = [&status] {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (status.st_ctim.tv_sec - now.tv_sec) * 1'000'000'000LL + (status.st_ctim.tv_nsec - now.tv_nsec);
  };
  for (int i = 0; i < 20 && ahead() >= 0 && ahead() <= longest_tick; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
}

/// The byte range of some lines, found by counting from the start.
struct Range {
  std::int64_t from;
  std::int64_t to;
};

Range find_lines(int fd, Lines lines, std::string_view path) {
  constexpr std::int64_t piece = 1 << 20;
  std::int64_t offset = 0;
  std::int64_t line = 1;  // the one that begins at or goes on at `offset`
  std::optional<std::int64_t> from;
  if (lines.first == 1) {
    from = 0;
  }
  for (;;) {
    const std::string bytes = read_range(fd, offset, piece, path);
    for (std::size_t at = 0; at < bytes.size();) {
      const void* found = std::memchr(bytes.data() + at, '\n', bytes.size() - at);
      if (found == nullptr) {
        break;
      }
      at = static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data()) + 1;
      ++line;
      if (line == lines.first) {
        from = offset + static_cast<std::int64_t>(at);
      }
      if (line - 1 == lines.last) {
        return {*from, offset + static_cast<std::int64_t>(at)};
      }
    }
    offset += static_cast<std::int64_t>(bytes.size());
    if (static_cast<std::int64_t>(bytes.size()) < piece) {
      return {from.value_or(offset), offset};
    }
    if (from && offset - *from > max_read_bytes) {
      throw limit_exceeded("read.maxBytes", offset - *from, max_read_bytes);
    }
    if (offset >= max_line_scan_bytes) {
      throw limit_exceeded("read.lineScanBytes", offset, max_line_scan_bytes);
    }
  }
}

/// Fills `result.data` from `bytes`, which begin at `result.from`. `at_end`: the file ends with them.
void encode(ReadResult& result, std::string bytes, const ReadOptions& options, bool at_end) {
  result.next = result.from + static_cast<std::int64_t>(bytes.size());
  if (options.encoding == Encoding::base64) {
    result.data = to_base64(bytes);
    return;
  }
  if (options.encoding == Encoding::latin1) {
    result.data = latin1_to_utf8(bytes);
    return;
  }
  const std::size_t cut = at_end ? 0 : incomplete_utf8_tail(bytes);
  if (cut > 0 && cut == bytes.size()) {
    throw invalid_params("length", "ends inside the first character");  // an empty answer would be read as the end
  }
  bytes.resize(bytes.size() - cut);
  result.next -= static_cast<std::int64_t>(cut);
  const std::size_t bad = first_invalid_utf8(bytes);
  if (bad == bytes.size()) {
    result.data = std::move(bytes);
  } else if (options.errors == Errors::replace) {
    result.data = replace_invalid_utf8(bytes);
  } else {
    const std::int64_t offset = result.from + static_cast<std::int64_t>(bad);
    const std::string what = "byte " + std::to_string(offset) +
                             " is no UTF-8 (encoding \"base64\" reads it exactly, errors \"replace\" shows it) in";
    throw os_error(what, EILSEQ, options.path).with("offset", offset);
  }
}

void check(const ReadOptions& options) {
  check_path("path", options.path);
  if (options.offset < 0) {
    throw invalid_params("offset", "is negative");
  }
  if (options.length && *options.length < 0) {
    throw invalid_params("length", "is negative");
  }
  if (options.length && *options.length > max_read_bytes) {
    throw limit_exceeded("read.maxBytes", *options.length, max_read_bytes);
  }
  if (options.lines) {
    if (options.offset != 0 || options.length) {
      throw invalid_params("lines", "excludes offset and length");
    }
    if (options.lines->first < 1 || options.lines->last < options.lines->first) {
      throw invalid_params("lines", "is not [first, last] with 1 <= first <= last");
    }
  }
}

ReadResult read_part(const OpenFile& file, const ReadOptions& options) {
  ReadResult result;
  result.etag = etag_of(file.status);
  result.from = options.offset;
  std::int64_t length = options.length.value_or(max_read_bytes);
  if (options.lines) {
    wait_out_tick(file.status);
    const Range range = find_lines(file.fd.get(), *options.lines, options.path);
    result.from = range.from;
    length = range.to - range.from;
  } else if (!options.length && file.status.st_size - options.offset > max_read_bytes) {
    throw limit_exceeded("read.maxBytes", file.status.st_size - options.offset, max_read_bytes);
  }
  if (length > max_read_bytes) {
    throw limit_exceeded("read.maxBytes", length, max_read_bytes);
  }
  // One byte more than wanted tells whether the file ends here.
  std::string bytes = read_range(file.fd.get(), result.from, length + 1, options.path);
  const bool at_end = static_cast<std::int64_t>(bytes.size()) <= length;
  const std::int64_t end = result.from + static_cast<std::int64_t>(bytes.size());
  if (!at_end && !options.length && !options.lines) {
    throw limit_exceeded("read.maxBytes", end, max_read_bytes);
  }
  bytes.resize(std::min(bytes.size(), static_cast<std::size_t>(length)));
  const bool found_end = at_end && !bytes.empty();
  result.size = found_end ? end : std::max<std::int64_t>(file.status.st_size, at_end ? 0 : end);
  encode(result, std::move(bytes), options, at_end);
  return result;
}

}  // namespace

Content read_whole(int directory, const std::string& name, const std::string& path, int flags, std::string_view limit,
                   std::int64_t max) {
  constexpr int attempts = 3;
  for (int attempt = 1;; ++attempt) {
    OpenFile file = open_regular(directory, name, path, flags);
    if (file.status.st_size > max) {
      throw limit_exceeded(limit, file.status.st_size, max);
    }
    wait_out_tick(file.status);
    Content content{read_range(file.fd.get(), 0, max + 1, path), file.status};
    if (static_cast<std::int64_t>(content.bytes.size()) > max) {
      throw limit_exceeded(limit, max + 1, max);
    }
    struct ::stat now{};
    if (::fstat(file.fd.get(), &now) != 0) {
      throw os_error("cannot read", errno, path);
    }
    // Not the ctime: being replaced changes that of the old file, whose bytes are as good as before.
    const bool same_time =
        now.st_mtim.tv_sec == file.status.st_mtim.tv_sec && now.st_mtim.tv_nsec == file.status.st_mtim.tv_nsec;
    if (same_time && now.st_size == file.status.st_size) {
      content.status = now;
      return content;
    }
    if (attempt == attempts) {
      Error error(Fault::Conflict, printable(path) + " keeps changing while it is read; read it by ranges");
      throw std::move(error).with("etag", etag_of(now)).with("path", path).retryable();
    }
  }
}

ReadResult read(const ReadOptions& options) {
  check(options);
  if (options.offset > 0 || options.length || options.lines) {
    return read_part(open_regular(AT_FDCWD, options.path, options.path), options);
  }
  Content content = read_whole(AT_FDCWD, options.path, options.path, 0, "read.maxBytes", max_read_bytes);
  ReadResult result;
  result.size = static_cast<std::int64_t>(content.bytes.size());
  result.etag = etag_of(content.status);
  encode(result, std::move(content.bytes), options, true);
  return result;
}

}  // namespace rex::files
