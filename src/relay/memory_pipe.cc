#include "relay/memory_pipe.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "relay/inbox.h"

namespace rex::relay {
namespace {

constexpr std::size_t most_bytes = 256u << 10;

/// One direction.
struct Way {
  Inbox bytes;          // at most most_bytes
  bool ended = false;   // nothing more is written
  bool closed = false;  // nobody reads
  Event changed;
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(Executor executor, std::shared_ptr<Way> in, std::shared_ptr<Way> out)
      : executor_(executor), in_(std::move(in)), out_(std::move(out)) {}
  ~MemoryTransport() override { MemoryTransport::close(); }
  MemoryTransport(const MemoryTransport&) = delete;
  MemoryTransport& operator=(const MemoryTransport&) = delete;

  Task<std::size_t> read_some(std::span<char> buffer) override {
    const std::shared_ptr<Way> in = in_;
    Waiter waiter(executor_);
    waiter.subscribe(in->changed);
    while (in->bytes.empty() && !in->ended && !in->closed) {
      co_await waiter.until(never);
    }
    const std::size_t n = in->closed ? 0 : in->bytes.take(buffer);
    in->changed.notify();
    co_return n;
  }

  std::size_t try_write(std::string_view data) override {
    if (out_->closed || out_->ended) {
      throw os_error("cannot write", EPIPE);
    }
    const std::size_t n = std::min(data.size(), most_bytes - out_->bytes.size());
    out_->bytes.append(data.substr(0, n));
    out_->changed.notify();
    return n;
  }

  Task<> writable() override {
    const std::shared_ptr<Way> out = out_;
    Waiter waiter(executor_);
    waiter.subscribe(out->changed);
    while (out->bytes.size() == most_bytes && !out->ended && !out->closed) {
      co_await waiter.until(never);
    }
  }

  Task<bool> gone() override {
    const std::shared_ptr<Way> in = in_;
    const std::shared_ptr<Way> out = out_;
    Waiter waiter(executor_);
    waiter.subscribe(in->changed);
    waiter.subscribe(out->changed);
    while (!in->closed && !out->closed) {
      co_await waiter.until(never);
    }
    co_return !in->closed;
  }

  void end_output() override {
    out_->ended = true;
    out_->changed.notify();
  }

  void close() override {
    in_->closed = true;
    in_->changed.notify();
    end_output();
  }

 private:
  Executor executor_;
  std::shared_ptr<Way> in_;
  std::shared_ptr<Way> out_;
};

}  // namespace

std::pair<std::unique_ptr<Transport>, std::unique_ptr<Transport>> make_memory_pipe(Executor executor) {
  const auto there = std::make_shared<Way>();
  const auto back = std::make_shared<Way>();
  return {std::make_unique<MemoryTransport>(executor, back, there),
          std::make_unique<MemoryTransport>(executor, there, back)};
}

}  // namespace rex::relay
