// Any bytes at all, in pieces of any size, through framing, messages, connection and router, as a peer would send them.
// What comes out must be whole frames of valid JSON, and the connection must end when its input does.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "methods/wire.gen.h"
#include "relay/router.h"
#include "rpc/framing.h"
#include "rpc/json_reader.h"
#include "rpc/method_table.h"
#include "transports/transport.h"

namespace {

using namespace rex;
using nlohmann::json;

/// What the methods that wait are waiting for.
struct World {
  Event release;
  bool released = false;
};

Task<rpc::Result> echo(json params, rpc::Call&) { co_return params; }

Task<rpc::Result> fail(json params, rpc::Call&) {
  throw Error(Fault::OsError, params.dump()).with("path", "\xff").with("params", RawJson{params.dump()});
  co_return json();
}

Task<rpc::Result> ask(json params, rpc::Call& call) {
  const auto connection = call.connection();
  co_return co_await connection->call("question", std::move(params));
}

Task<rpc::Result> hold(World& world, rpc::Call& call) {
  Waiter waiter(call.connection()->executor());
  waiter.subscribe(call.cancel().changed());
  waiter.subscribe(world.release);
  while (!call.cancel() && !world.released) {
    co_await waiter.until(never);
  }
  co_return json(static_cast<bool>(call.cancel()));
}

/// A method of the contract as far as it can be had without an effect: its params are read as strictly as the program
/// does. What is accepted is echoed.
template <class M>
Task<rpc::Result> read_params(json params, rpc::Call&) {
  [[maybe_unused]] const typename M::Params typed = wire::read<typename M::Params>(params);
  co_return params;
}

/// The smallest table that reaches every path of a connection: an answer, an echo, an error, a question back, a wait;
/// and the readers of every method.
void bind_methods(rpc::MethodTable& table, World& world) {
  wire::for_each_method([&table]<class M>(M) { table.bind(std::string(M::name), &read_params<M>); });
  table.bind("echo", &echo);
  table.bind("fail", &fail);
  table.bind("ask", &ask);
  table.bind("hold", [&world](const json&, rpc::Call& call) { return hold(world, call); });
  table.bind_notification("exit", [](const json&, const auto& from) { from->close("exit"); });
}

/// The input as one peer's stream. Its first byte says how it is cut, and how much is written at a time.
class ScriptedTransport final : public Transport {
 public:
  ScriptedTransport(std::string_view input, std::string& output) : input_(input), output_(output) {
    if (!input_.empty()) {
      piece_ = 1 + static_cast<unsigned char>(input_.front());
      input_.remove_prefix(1);
    }
  }

  Task<std::size_t> read_some(std::span<char> buffer) override {
    const std::size_t n = std::min({closed_ ? 0 : piece_, input_.size(), buffer.size()});
    std::copy_n(input_.begin(), n, buffer.begin());
    input_.remove_prefix(n);
    co_return n;
  }
  std::size_t try_write(std::string_view data) override {
    full_ = !full_;
    const std::size_t n = full_ ? std::min(data.size(), 16 * piece_) : 0;
    output_ += data.substr(0, n);
    return n;
  }
  Task<> writable() override { co_return; }
  Task<bool> gone() override { co_return false; }
  void end_output() override {}
  void close() override { closed_ = true; }

 private:
  std::string_view input_;
  std::string& output_;
  std::size_t piece_ = 1;
  bool full_ = false;
  bool closed_ = false;
};

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// Whole frames of valid JSON. Only a connection that was closed may stop in the middle of one.
void check(const std::string& output) {
  rpc::Limits limits;
  limits.frame_bytes = 1u << 30;
  limits.json_values = 1u << 30;
  limits.json_depth = 256;
  rpc::FrameDecoder decoder(limits);
  decoder.feed(output);
  while (const auto frame = decoder.next()) {
    require(!frame->refused);
    require(!rpc::read_json(frame->body, limits).refused);
  }
  require(decoder.broken().empty());
}

void turn(Loop& loop) {
  loop.restart();
  while (loop.poll() > 0) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World world;
  rpc::MethodTable table;
  bind_methods(table, world);
  relay::Hosts hosts("", nullptr, nullptr, nullptr);
  relay::Router router(table, hosts, std::make_shared<relay::Pipes>(), nullptr);
  Loop loop{1};
  std::string output;
  auto transport =
      std::make_unique<ScriptedTransport>(std::string_view(reinterpret_cast<const char*>(data), size), output);
  rpc::Connection::Options options;
  options.limits.frame_bytes = 4096;
  options.limits.in_flight = 8;
  options.limits.batch = 16;
  options.limits.stray_responses = 4;
  options.limits.unsent_bytes = 8192;
  auto connection = std::make_shared<rpc::Connection>(loop.get_executor(), std::move(transport), router, options);
  bool finished = false;
  spawn(loop.get_executor(), connection->run(), [&finished](const std::exception_ptr& escaped) {
    require(escaped == nullptr);
    finished = true;
  });
  turn(loop);
  world.released = true;
  world.release.notify();
  turn(loop);
  require(finished && connection->is_closed() && connection->in_flight() == 0);
  check(output);
  return 0;
}
