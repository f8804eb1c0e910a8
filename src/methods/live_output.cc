#include "methods/live_output.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/encoding.h"
#include "base/error.h"

namespace rex::methods {
namespace {

// Live output waits while more than this is unsent, so that a slow client holds back its own stream only.
constexpr std::size_t max_unsent_progress = 1 << 20;
constexpr std::size_t progress_bytes = 32 * 1024;

void send_piece(LiveOutput& live, std::string_view bytes) {
  const bool text = is_utf8(bytes);
  live.connection->notify(wire::Progress::name, {{"token", live.token},
                                                 {"value",
                                                  {{"data", text ? std::string(bytes) : to_base64(bytes)},
                                                   {"encoding", text ? "utf-8" : "base64"},
                                                   {"from", live.at},
                                                   {"next", live.at + bytes.size()}}}});
  live.at += bytes.size();
}

/// The next piece, or nothing at the end. What the journal has lost is stepped over: `from` of the next piece says so.
Task<std::string> next_piece(LiveOutput& live) {
  if (live.to) {
    live.at = std::max(live.at, live.session->output_oldest());
  }
  if (live.to && live.at >= *live.to) {
    co_return "";
  }
  shell::ReadOptions options{};
  options.offset = live.at;
  options.max_bytes = live.to ? std::min<shell::Offset>(progress_bytes, *live.to - live.at) : progress_bytes;
  options.wait = Milliseconds::max();
  shell::ReadResult read{};
  std::optional<Error> lost;
  try {
    read = co_await live.session->read(options, live.finish);
  } catch (const Error& error) {
    lost = error;
  }
  if (lost) {
    live.at = live.session->output_oldest();
    options.offset = live.at;
    read = co_await live.session->read(options, live.finish);
  }
  // A character cut by the reading is sent whole with the next piece, unless nothing follows.
  if (read.data.size() > 4 && !live.finish) {
    read.data.resize(read.data.size() - incomplete_utf8_tail(read.data));
  }
  co_return std::move(read.data);
}

Task<> stream_output(std::shared_ptr<LiveOutput> live, Executor executor) {
  Waiter waiter(executor);
  waiter.subscribe(live->connection->drained());
  waiter.subscribe(live->connection->closed());
  while (!live->connection->is_closed()) {
    const std::string bytes = co_await next_piece(*live);
    if (bytes.empty()) {
      break;
    }
    send_piece(*live, bytes);
    while (live->connection->unsent_bytes() > max_unsent_progress && !live->connection->is_closed()) {
      co_await waiter.until(never);
    }
  }
}

}  // namespace

std::shared_ptr<LiveOutput> prepare_live(const wire::SessionRunParams& params,
                                         const std::shared_ptr<shell::Session>& session, rpc::Call& call) {
  if (!params.progressToken) {
    return nullptr;
  }
  auto live = std::make_shared<LiveOutput>();
  live->session = session;
  live->connection = call.connection();
  std::visit([&live](const auto& token) { live->token = token; }, *params.progressToken);
  return live;
}

void start_live(const std::shared_ptr<LiveOutput>& live, shell::Offset from, std::optional<shell::Offset> to,
                Executor executor) {
  live->at = from;
  live->to = to;
  live->done = false;
  spawn(executor, stream_output(live, executor), [live](std::exception_ptr) {  // a session that ended has told its all
    live->done = true;
    live->finished.notify();
  });
}

Task<> finish_live(std::shared_ptr<LiveOutput> live, Executor executor) {
  live->finish.request(Cancel::Wish::stop_waiting);
  Waiter waiter(executor);
  waiter.subscribe(live->finished);
  while (!live->done) {
    co_await waiter.until(never);
  }
}

}  // namespace rex::methods
