#include "base/digest.h"

#include <fcntl.h>
#include <nettle/sha2.h>
#include <sys/random.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"

namespace rex {
namespace {

std::string hex(const unsigned char* bytes, std::size_t size) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += digits[bytes[i] >> 4U];
    text += digits[bytes[i] & 15U];
  }
  return text;
}

}  // namespace

struct Sha256::Context {
  sha256_ctx state;
};

Sha256::Sha256() : context_(std::make_unique<Context>()) { sha256_init(&context_->state); }

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::string_view bytes) {
  sha256_update(&context_->state, bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
}

std::string Sha256::so_far() const {
  Sha256 copy;
  copy.context_->state = context_->state;
  return copy.finish();
}

std::string Sha256::finish() {
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&context_->state, digest.size(), digest.data());
  return hex(digest.data(), digest.size());
}

std::string sha256_of(std::string_view bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.finish();
}

std::string sha256_of_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    throw os_error("cannot open", errno, path);
  }
  Sha256 digest;
  std::array<char, 64 * 1024> buffer;
  while (true) {
    const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
    if (n == 0) {
      return digest.finish();
    }
    if (n > 0) {
      digest.update({buffer.data(), static_cast<std::size_t>(n)});
    } else if (errno != EINTR) {
      throw os_error("cannot read", errno, path);
    }
  }
}

std::string random_bytes(std::size_t count) {
  std::string random(count, '\0');
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(count)) {
    throw os_error("cannot get random bytes", errno);
  }
  return random;
}

std::string random_hex(std::size_t bytes) {
  const std::string random = random_bytes(bytes);
  return hex(reinterpret_cast<const unsigned char*>(random.data()), random.size());
}

}  // namespace rex
