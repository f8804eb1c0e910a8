#include "transports/ssh_stream.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace rex::transports {
namespace {

// Taken in before others have their turn: libssh takes 4 KiB a step.
constexpr int steps = 32;
// The end of the output is told with the end of the command, and why, where that follows at once, as it mostly does.
constexpr Milliseconds grace{300};

Fd copy_of(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) {
    throw os_error("cannot copy a socket", errno);
  }
  return copy;
}

/// What the transport, its last words and the coroutines that move bytes share.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  Wire(Executor executor, std::unique_ptr<SshRoute> route)
      : executor_(executor),
        route_(std::move(route)),
        server_(route_->legs.back().server.get()),
        socket_(executor, copy_of(server_->fd())) {}
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire() { close(); }

  /// Takes in what comes, read or not: libssh's window bounds it, and what was read and not taken is as much again.
  static Task<> attend(std::shared_ptr<Wire> self) {
    while (self->is_up()) {
      self->take_in();
      if (self->is_up()) {
        co_await self->socket_.readable();
      }
    }
  }

  Task<std::size_t> read_some(std::span<char> buffer) {
    const auto self = shared_from_this();
    Waiter waiter(executor_);
    waiter.subscribe(changed_);
    for (;;) {
      if (const std::size_t taken = take(buffer); taken > 0) {
        co_return taken;
      }
      if (!is_up()) {
        end();
        co_return 0;
      }
      if (server_->eof()) {
        eof_at_ = std::min(eof_at_, Clock::now() + grace);
        if (Clock::now() >= eof_at_) {
          co_return 0;
        }
      }
      co_await waiter.until(eof_at_);
    }
  }

  std::size_t try_write(std::string_view data) {
    std::size_t written = 0;
    while (is_up() && written < data.size()) {
      const std::size_t n = server_->write(data.substr(written));
      if (n == 0) {
        refused_ = server_->can_write();  // while keys are exchanged
        break;
      }
      written += n;
    }
    after_write();
    if (written == 0 && !is_up()) {
      throw os_error("cannot write", EPIPE);
    }
    return written;
  }

  Task<> writable() {
    const auto self = shared_from_this();
    Waiter waiter(executor_);
    waiter.subscribe(changed_);
    while (is_up() && (refused_ || !server_->can_write())) {
      co_await waiter.until(never);
    }
  }

  Task<bool> gone() {
    const auto self = shared_from_this();
    Waiter waiter(executor_);
    waiter.subscribe(changed_);
    while (is_up()) {
      co_await waiter.until(never);
    }
    co_return !closed_;
  }

  void end_output() {
    if (is_up()) {
      server_->send_eof();
      after_write();
    }
  }

  void close() {
    closed_ = true;
    end();
    changed_.notify();
  }

  [[nodiscard]] std::string last_words() const { return server_ != nullptr ? server_->last_words() : words_; }

 private:
  [[nodiscard]] bool is_up() const { return server_ != nullptr && !server_->closed() && !server_->broken(); }

  void take_in() {
    for (int i = 0; i < steps && server_->take_in(); ++i) {
    }
    refused_ = false;
    keep_flushing();
    changed_.notify();
  }

  /// Of what has come. libssh gives it only as a whole.
  std::size_t take(std::span<char> buffer) {
    if (read_.empty() && server_ != nullptr) {
      read_ = server_->read_available();
      keep_flushing();  // the other side may send more, and is told so
    }
    const std::size_t size = std::min(buffer.size(), read_.size());
    std::copy_n(read_.data(), size, buffer.data());
    read_.remove_prefix(size);
    return size;
  }

  /// What went out may have brought in what nothing else would wake anybody for.
  void after_write() {
    keep_flushing();
    if (server_ != nullptr && (server_->available() > 0 || server_->eof() || !is_up())) {
      changed_.notify();
    }
  }

  /// Whatever is asked of libssh may have to send something, which may have to wait for the socket.
  void keep_flushing() {
    if (is_up() && server_->is_writing() && !std::exchange(flushing_, true)) {
      spawn(executor_, flush(shared_from_this()));
    }
  }

  static Task<> flush(std::shared_ptr<Wire> self) {
    while (self->is_up() && self->server_->is_writing()) {
      co_await self->socket_.writable();
      if (self->is_up()) {
        self->take_in();
      }
    }
    self->flushing_ = false;
    self->changed_.notify();
  }

  void end() {
    if (server_ == nullptr) {
      return;
    }
    words_ = server_->last_words();
    server_ = nullptr;
    read_ = {};
    socket_.close();  // before the route, whose carriers see the end once no descriptor is left
    words_ += route_->end();
  }

  Executor executor_;
  std::unique_ptr<SshRoute> route_;
  Libssh* server_;  // of the last leg; null once all has ended
  AsyncFd socket_;  // a copy of libssh's, which closes its own
  Event changed_;
  std::string_view read_;  // what of the server's has not been taken yet
  TimePoint eof_at_ = never;
  bool refused_ = false;  // libssh took nothing though it could; until something has come in
  bool flushing_ = false;
  bool closed_ = false;
  std::string words_;
};

/// Its last words outlive it.
class SshTransport final : public Transport {
 public:
  explicit SshTransport(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
  ~SshTransport() override { wire_->close(); }
  SshTransport(const SshTransport&) = delete;
  SshTransport& operator=(const SshTransport&) = delete;

  Task<std::size_t> read_some(std::span<char> buffer) override { return wire_->read_some(buffer); }
  std::size_t try_write(std::string_view data) override { return wire_->try_write(data); }
  Task<> writable() override { return wire_->writable(); }
  Task<bool> gone() override { return wire_->gone(); }
  void end_output() override { wire_->end_output(); }
  void close() override { wire_->close(); }

 private:
  std::shared_ptr<Wire> wire_;
};

}  // namespace

void open_ssh_stream(Executor executor, std::unique_ptr<SshRoute> route, SshReached& reached) {
  const auto wire = std::make_shared<Wire>(executor, std::move(route));
  spawn(executor, Wire::attend(wire));
  reached.transport = std::make_unique<SshTransport>(wire);
  reached.last_words = [wire] { return wire->last_words(); };
}

}  // namespace rex::transports
