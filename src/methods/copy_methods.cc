// file/copy: a tree from one host to another, as a stream between two requests. What executes file/copy asks the one
// host to send and the other to receive, each by a pipe (schema/streams.md), and carries the bytes between them; either
// host may be this one.
#include <functional>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "files/pack.h"
#include "files/unpack.h"
#include "methods/binding.h"
#include "methods/methods.h"
#include "relay/pipes.h"

namespace rex::methods {
namespace {

constexpr std::size_t piece_bytes = 256u << 10;
constexpr Milliseconds between_progress{250};

/// One of the two requests of a copy, and the pipe that it opens.
struct End {
  std::unique_ptr<Transport> pipe;
  std::optional<rpc::Result> answer;
  std::exception_ptr failure;

  [[nodiscard]] bool is_over() const { return answer || failure; }
  void close() const {
    if (pipe) {
      pipe->close();
    }
  }
};

/// What the parts of one copy have in common.
struct Copying {
  explicit Copying(Executor executor) : waiter(executor) {}
  End source;
  End destination;
  bool carried = false;
  std::int64_t bytes = 0;  // of the stream
  Waiter waiter;
};

Task<> ask(rpc::Service& router, std::string method, nlohmann::json params, rpc::Call& call, End& end) {
  end.answer = co_await router.call(std::move(method), std::move(params), call);
}

/// The other way goes only what the destination has already.
Task<> carry_back(std::shared_ptr<Copying> copying) {
  std::vector<char> buffer(piece_bytes);
  while (const std::size_t n = co_await copying->destination.pipe->read_some(buffer)) {
    co_await relay::write_all(*copying->source.pipe, std::string_view(buffer.data(), n));
  }
}

Task<> carry(std::shared_ptr<Copying> copying) {
  std::vector<char> buffer(piece_bytes);
  while (const std::size_t n = co_await copying->source.pipe->read_some(buffer)) {
    co_await relay::write_all(*copying->destination.pipe, std::string_view(buffer.data(), n));
    copying->bytes += static_cast<std::int64_t>(n);
  }
  copying->destination.pipe->end_output();
}

/// Whether this end only lost its stream: the other one knows why.
bool was_cut(const End& end) {
  try {
    std::rethrow_exception(end.failure);
  } catch (const Error& error) {
    return error.fault() == Fault::HostProtocol && error.has("cut");
  } catch (...) {
    return false;
  }
}

/// What this end, which is over, has done.
Executed executed_by(const End& end) {
  if (!end.failure) {
    return Executed::yes;
  }
  try {
    std::rethrow_exception(end.failure);
  } catch (const Error& error) {
    return error.was_executed();
  } catch (...) {
    return Executed::unknown;
  }
}

/// Why the copy failed; null where it did not.
std::exception_ptr cause_of(const Copying& copying) {
  const bool told_by_destination =
      copying.destination.failure && !(copying.source.failure && was_cut(copying.destination));
  return told_by_destination ? copying.destination.failure : copying.source.failure;
}

class Copies : public std::enable_shared_from_this<Copies> {
 public:
  Copies(rpc::Service& router, std::shared_ptr<relay::Pipes> pipes, Workers& workers)
      : router_(router), pipes_(std::move(pipes)), workers_(workers) {}

  Task<wire::FileCopyResult> copy(wire::FileCopyParams params, rpc::Call& call);
  Task<wire::Done> send(wire::FileSendParams params, rpc::Call& call);
  Task<wire::FileCopyResult> receive(wire::FileReceiveParams params, rpc::Call& call);

 private:
  Task<> fill(files::Unpack& unpack, const wire::FileReceiveParams& params, rpc::Call& call);

  rpc::Service& router_;
  std::shared_ptr<relay::Pipes> pipes_;
  Workers& workers_;
};

Task<wire::FileCopyResult> Copies::copy(wire::FileCopyParams params, rpc::Call& call) {
  const std::shared_ptr<rpc::Connection> client = call.connection();
  const Executor executor = client->executor();
  const auto copying = std::make_shared<Copying>(executor);
  const auto take = [copying](End& end) {
    return [copying, &end](std::unique_ptr<Transport> pipe) {
      if (end.pipe) {  // and somebody may be waiting at it
        throw Error(Fault::NotPermitted, "an end of a copy has one pipe");
      }
      end.pipe = std::move(pipe);
      copying->waiter.wake();
    };
  };
  const relay::Pipes::Ticket from(pipes_, client->number(), take(copying->source));
  const relay::Pipes::Ticket to(pipes_, client->number(), take(copying->destination));
  wire::FileSendParams send;
  send.path = std::move(params.from.path);
  send.host = std::move(params.from.host);
  send.recursive = params.recursive;
  send.excludes = std::move(params.excludes);
  send.ticket = from.text();
  wire::FileReceiveParams receive;
  receive.path = std::move(params.to.path);
  receive.host = std::move(params.to.host);
  receive.overwrite = params.overwrite;
  if (send.recursive && send.host == receive.host) {
    receive.source = send.path;
  }
  receive.ticket = to.text();
  if (params.resume) {
    send.resume = receive.resume = true;
  }
  const auto start = [&](std::string method, nlohmann::json request, End& end) {
    spawn(executor, ask(router_, std::move(method), std::move(request), call, end),
          [copying, &end](std::exception_ptr failure) {
            end.failure = std::move(failure);
            copying->waiter.wake();
          });
  };
  start("file/receive", wire::write(receive), copying->destination);
  start("file/send", wire::write(send), copying->source);
  std::int64_t told = -1;
  while (!copying->source.is_over() || !copying->destination.is_over()) {
    if (copying->source.pipe && copying->destination.pipe && !std::exchange(copying->carried, true)) {
      spawn(executor, carry(copying), [copying](const std::exception_ptr& failure) {
        if (failure) {
          copying->source.close();
          copying->destination.close();
        }
      });
      if (params.resume) {
        spawn(executor, carry_back(copying), [](const std::exception_ptr&) {});  // either end says what it was
      }
    }
    // One end alone has nobody to talk to.
    if (copying->source.failure) {
      copying->destination.close();
    }
    if (copying->destination.is_over()) {
      copying->source.close();
    }
    if (params.progressToken && copying->bytes != told) {
      told = copying->bytes;
      std::visit([&](const auto& token) { call.progress(token, {{"bytes", told}}); }, *params.progressToken);
    }
    co_await copying->waiter.until(params.progressToken ? Clock::now() + between_progress : never);
  }
  if (const std::exception_ptr failure = cause_of(*copying)) {
    const Executed executed = executed_by(copying->destination);
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (executed == Executed::no) {
        throw;
      }
      throw Error(error).executed(executed);
    }
  }
  auto result = read_answer<wire::FileCopyResult>(std::move(*copying->destination.answer), receive.host);
  if (!params.resume) {
    result.kept.reset();
  }
  co_return result;
}

Error cut() { return Error(Fault::HostProtocol, "the stream of the copy was cut").with("cut", true); }
Error stopped() { return {Fault::RequestCancelled, "the copy was stopped"}; }

/// 0 at its end, also where it broke: the other end knows why.
Task<std::size_t> read_from(Transport& pipe, std::span<char> buffer) {
  try {
    co_return co_await pipe.read_some(buffer);
  } catch (const Error&) {
    co_return 0;
  }
}

/// False where it broke.
Task<bool> write_to(Transport& pipe, std::string_view bytes) {
  try {
    co_await relay::write_all(pipe, bytes);
    co_return true;
  } catch (const Error&) {
    co_return false;
  }
}

/// What the other end has already.
Task<> hear(Transport& pipe, files::Pack& pack) {
  std::vector<char> buffer(piece_bytes);
  std::size_t n = 0;
  do {
    n = co_await read_from(pipe, buffer);
    if (n == 0) {
      throw cut();
    }
  } while (!pack.told({buffer.data(), n}));
}

Task<wire::Done> Copies::send(wire::FileSendParams params, rpc::Call& call) {
  files::PackOptions options;
  options.path = std::move(params.path);
  options.recursive = params.recursive;
  options.excludes = std::move(params.excludes);
  files::Pack pack(std::move(options));
  std::string stream;
  bool more = true;
  const std::function<void()> read = [&] { more = pack.read(stream, piece_bytes); };
  std::unique_ptr<Transport> pipe;
  if (params.resume) {
    pipe = pipes_->open(*call.connection(), params.ticket);
    co_await hear(*pipe, pack);
  }
  co_await workers_.run(read);  // an error before the first byte opens no pipe
  if (!pipe) {
    pipe = pipes_->open(*call.connection(), params.ticket);
  }
  while (true) {
    if (!co_await write_to(*pipe, stream)) {
      throw call.cancel() ? stopped() : cut();
    }
    stream.clear();
    if (!more) {
      break;
    }
    if (call.cancel()) {
      throw stopped();
    }
    co_await workers_.run(read);
  }
  pipe->end_output();
  // Gone before all was read, the rest would be lost with it.
  char nothing;
  co_await read_from(*pipe, std::span(&nothing, 1));
  co_return wire::Done{};
}

Task<wire::FileCopyResult> Copies::receive(wire::FileReceiveParams params, rpc::Call& call) {
  bool into_itself = false;
  const std::function<void()> look = [&] { into_itself = files::is_within(params.path, *params.source); };
  if (params.source) {
    co_await workers_.run(look);
  }
  if (into_itself) {
    throw invalid_params("to", "lies in what is copied");
  }
  files::UnpackOptions options;
  options.path = std::move(params.path);
  options.overwrite = params.overwrite;
  options.resume = params.resume.value_or(false);
  files::Unpack unpack(std::move(options));
  try {
    co_await fill(unpack, params, call);
  } catch (const Error& error) {
    if (error.was_executed() == Executed::no && unpack.touched()) {
      throw Error(error).executed(Executed::yes);  // if only a part
    }
    throw;
  }
  files::CopyResult done;
  const std::function<void()> finish = [&] { done = unpack.result(); };
  co_await workers_.run(finish);
  wire::FileCopyResult result;
  result.files = done.files;
  result.bytes = done.bytes;
  result.skipped = done.skipped;
  result.hash = std::move(done.hash);
  if (params.resume) {
    result.kept = done.kept;
  }
  co_return result;
}

/// All that comes by the pipe.
Task<> Copies::fill(files::Unpack& unpack, const wire::FileReceiveParams& params, rpc::Call& call) {
  bool more = params.resume.value_or(false);
  const std::unique_ptr<Transport> pipe = pipes_->open(*call.connection(), params.ticket);
  const Cancel::Listener stop(call.cancel(), [&pipe] { pipe->close(); });
  std::string there;
  const std::function<void()> tell = [&] { more = unpack.tell(there, piece_bytes); };
  while (more && !call.cancel()) {
    co_await workers_.run(tell);
    if (!co_await write_to(*pipe, there)) {
      throw call.cancel() ? stopped() : cut();
    }
    there.clear();
  }
  std::vector<char> buffer(piece_bytes);
  std::string_view bytes;
  bool again = false;
  const std::function<void()> write = [&] { again = !unpack.write(std::exchange(bytes, {})); };
  while (!unpack.done()) {
    const std::size_t n = co_await read_from(*pipe, buffer);
    if (n == 0) {
      throw call.cancel() ? stopped() : cut();
    }
    bytes = std::string_view(buffer.data(), n);
    do {
      co_await workers_.run(write);
    } while (again);
  }
  pipe->close();
}

}  // namespace

void bind_copies(rpc::MethodTable& table, rpc::Service& router, std::shared_ptr<relay::Pipes> pipes, Workers& workers) {
  const auto copies = std::make_shared<Copies>(router, std::move(pipes), workers);
  bind<wire::FileCopy>(
      table, [copies](wire::FileCopyParams params, rpc::Call& call) { return copies->copy(std::move(params), call); });
  bind<wire::FileSend>(
      table, [copies](wire::FileSendParams params, rpc::Call& call) { return copies->send(std::move(params), call); });
  bind<wire::FileReceive>(table, [copies](wire::FileReceiveParams params, rpc::Call& call) {
    return copies->receive(std::move(params), call);
  });
}

}  // namespace rex::methods
