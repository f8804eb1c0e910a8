// Bytes leave memory a quarter of the ring at a time, so that a flood costs one pwrite(2) for many reads. Must not
// throw once it is made: the pump has nowhere to go with an error, and the program's output must not stop for a full
// disk.
#include "shell/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"

namespace rex::shell {
namespace {

constexpr std::size_t kLeastRoom = 1 << 10;  // a growing ring offers read(2) at least this much

Fd open_nameless(const std::string& directory) {
  Fd file(::open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (file) {
    return file;
  }
  // Not every file system has O_TMPFILE (overlayfs before 6.6, NFS).
  std::string name = directory + "/rex-journal-XXXXXX";
  file.reset(::mkostemp(name.data(), O_CLOEXEC));
  if (file) {
    ::unlink(name.c_str());
  }
  return file;
}

std::string default_directory() {
  const char* directory = std::getenv("TMPDIR");
  return directory != nullptr && *directory == '/' ? directory : "/var/tmp";
}

}  // namespace

Journal::Journal(Options options)
    : capacity_(options.capacity),
      most_memory_(std::min(kMaxMemory, std::bit_ceil(options.capacity))),
      memory_(std::move(options.memory)),
      spool_directory_(options.spool_directory.empty() ? default_directory() : std::move(options.spool_directory)),
      start_(options.start),
      memory_from_(options.start),
      end_(options.start) {
  if (capacity_ < kMinCapacity) {
    throw invalid_params("journalBytes", "must be at least " + std::to_string(kMinCapacity));
  }
}

Journal::~Journal() {
  if (memory_ != nullptr) {
    memory_->give_back(ring_.size() - std::min(ring_.size(), kMinMemory));
  }
}

void Journal::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> room = writable();
    const std::size_t size = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), size);
    commit(size);
    bytes.remove_prefix(size);
  }
}

std::span<char> Journal::writable() {
  while (ring_.size() < most_memory_ && used() + kLeastRoom > ring_.size() && grow()) {
  }
  const std::size_t at = end_ % ring_.size();
  std::size_t size = std::min({ring_.size() - at, kChunk, batch()});
  if (ring_.size() < most_memory_) {
    size = std::min(size, ring_.size() - used());
  } else if (spooling() && used() + size > ring_.size()) {
    evict();
  }
  return {ring_.data() + at, size};
}

void Journal::commit(std::size_t size) {
  end_ += size;
  if (used() > ring_.size()) {
    memory_from_ = end_ - ring_.size();
  }
}

Offset Journal::oldest() const {
  const Offset known = spooling() ? start_ : std::max(start_, memory_from_);
  return end_ - known > capacity_ ? end_ - capacity_ : known;
}

std::size_t Journal::read(Offset offset, char* buffer, std::size_t size) {
  if (offset < oldest() || offset >= end_) {
    return 0;
  }
  std::size_t done = 0;
  size = std::min<Offset>(size, end_ - offset);
  while (done < size) {
    if (offset + done < memory_from_) {
      const std::size_t wanted = std::min<Offset>(size - done, memory_from_ - offset - done);
      const std::size_t got = read_spool(offset + done, buffer + done, wanted);
      if (got == 0) {
        return 0;  // the spool is lost, and with it what was asked for
      }
      done += got;
    } else {
      const std::string_view piece = in_memory(offset + done, offset + size);
      std::memcpy(buffer + done, piece.data(), piece.size());
      done += piece.size();
    }
  }
  return done;
}

Offset Journal::visit(Offset from, Offset to, const std::function<bool(std::string_view)>& see) {
  to = std::min(to, end_);
  from = std::max(from, oldest());
  std::string buffer;
  while (from < to) {
    std::string_view piece;
    if (from < memory_from_) {
      buffer.resize(kChunk);
      const std::size_t got =
          read_spool(from, buffer.data(), std::min<Offset>(kChunk, std::min(to, memory_from_) - from));
      if (got == 0) {
        return from;  // the caller sees that oldest() has moved above it
      }
      piece = std::string_view(buffer).substr(0, got);
    } else {
      piece = in_memory(from, to);
    }
    from += piece.size();
    if (!see(piece)) {
      break;
    }
  }
  return from;
}

std::string_view Journal::in_memory(Offset offset, Offset to) const {
  const std::size_t at = offset % ring_.size();
  return std::string_view(ring_).substr(at, std::min<Offset>(to - offset, ring_.size() - at));
}

/// False where the budget has no more: then this is the ring, and a spool takes what it cannot hold.
bool Journal::grow() {
  const std::size_t size = ring_.empty() ? kMinMemory : ring_.size() * 2;
  if (memory_ != nullptr && size > kMinMemory && !memory_->take(size - std::max(ring_.size(), kMinMemory))) {
    most_memory_ = ring_.size();
    return false;
  }
  std::string larger;
  larger.resize(size);
  for (Offset at = memory_from_; at < end_;) {
    const std::string_view piece = in_memory(at, end_);
    for (std::string_view rest = piece; !rest.empty();) {
      const std::size_t place = at % larger.size();
      const std::size_t part = std::min(rest.size(), larger.size() - place);
      std::memcpy(larger.data() + place, rest.data(), part);
      rest.remove_prefix(part);
      at += part;
    }
  }
  ring_ = std::move(larger);
  return true;
}

void Journal::evict() {
  if (!spool_) {
    spool_ = open_nameless(spool_directory_);
    if (!spool_) {
      degrade(errno);
      return;
    }
  }
  const Offset to = memory_from_ + batch();
  while (memory_from_ < to) {
    const std::string_view piece = in_memory(memory_from_, to);
    if (!write_spool(piece)) {
      return;
    }
    memory_from_ += piece.size();
  }
}

bool Journal::write_spool(std::string_view bytes) {
  Offset offset = memory_from_;
  while (!bytes.empty()) {
    const std::size_t at = offset % capacity_;
    const ssize_t written =
        ::pwrite(spool_.get(), bytes.data(), std::min(bytes.size(), capacity_ - at), static_cast<off_t>(at));
    if (written > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
      offset += static_cast<Offset>(written);
    } else if (written == 0 || errno != EINTR) {
      degrade(written == 0 ? ENOSPC : errno);
      return false;
    }
  }
  return true;
}

std::size_t Journal::read_spool(Offset offset, char* buffer, std::size_t size) {
  const std::size_t at = offset % capacity_;
  size = std::min(size, capacity_ - at);
  ssize_t got = 0;
  do {
    got = ::pread(spool_.get(), buffer, size, static_cast<off_t>(at));
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    degrade(got < 0 ? errno : EIO);
    return 0;
  }
  return static_cast<std::size_t>(got);
}

// The file is given back at once: what could not be completed there would have a hole, and the disk may be full.
void Journal::degrade(int error_number) {
  degraded_ = error_number;
  spool_.reset();
  start_ = memory_from_;
}

}  // namespace rex::shell
