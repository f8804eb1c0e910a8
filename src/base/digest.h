// SHA-256 of bytes and files, and random bytes. Knows nothing of what they are for.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace rex {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);
  /// 64 lower-case hexadecimal digits, of what was added until now.
  [[nodiscard]] std::string so_far() const;
  /// The same; nothing can be added any more.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// Of all of `bytes`.
std::string sha256_of(std::string_view bytes);

/// Of a file's content. Blocks; throws OsError.
std::string sha256_of_file(const std::string& path);

/// From the kernel. Throws OsError.
std::string random_bytes(std::size_t count);

/// `bytes` of them as lower-case hexadecimal digits.
std::string random_hex(std::size_t bytes);

}  // namespace rex
