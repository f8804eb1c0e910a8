#include "base/descriptor.h"

#include <asio/buffer.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace rex {

namespace {
using Wait = asio::posix::descriptor_base;
constexpr asio::use_awaitable_t<Executor> awaitable;
}  // namespace

Descriptor::Descriptor(Executor executor, Fd fd) : fd_(executor) {
  std::error_code error;
  fd_.assign(fd.get(), error);
  if (!error) {
    (void)fd.release();
    fd_.native_non_blocking(true, error);
  }
  if (error) {
    throw os_error("cannot wait for a descriptor", error.value());
  }
}

Task<std::size_t> Descriptor::read_some(std::span<char> buffer) {
  std::error_code error;
  const auto space = asio::buffer(buffer.data(), buffer.size());
  auto token = asio::redirect_error(awaitable, error);
  const std::size_t n = co_await fd_.async_read_some(space, std::move(token));
  if (error && error != asio::error::eof && error != asio::error::operation_aborted &&
      error != asio::error::bad_descriptor) {
    throw os_error("cannot read", error.value());
  }
  co_return error ? 0 : n;
}

std::size_t Descriptor::try_write(std::string_view data) {
  std::size_t written = 0;
  while (written < data.size()) {
    const ssize_t n = ::write(fd_.native_handle(), data.data() + written, data.size() - written);
    if (n >= 0) {
      written += static_cast<std::size_t>(n);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      throw os_error("cannot write", errno);
    }
  }
  return written;
}

Task<> Descriptor::writable() {
  std::error_code error;
  auto token = asio::redirect_error(awaitable, error);
  co_await fd_.async_wait(Wait::wait_write, std::move(token));
}

Task<bool> Descriptor::hung_up() {
  std::error_code error;
  auto token = asio::redirect_error(awaitable, error);
  co_await fd_.async_wait(Wait::wait_error, std::move(token));
  co_return !error;
}

void Descriptor::close() {
  std::error_code ignored;
  fd_.close(ignored);
}

}  // namespace rex
