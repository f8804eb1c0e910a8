#include "relay/pipes.h"

#include <span>
#include <vector>

#include "base/digest.h"
#include "base/error.h"
#include "relay/memory_pipe.h"

namespace rex::relay {

using nlohmann::json;

namespace {

constexpr std::size_t piece_bytes = 64u << 10;
constexpr std::size_t ticket_bytes = 16;

Error no_way_back() {
  return Error(Fault::HostProtocol, "an instance on the way carries no streams, which this needs")
      .executed(Executed::no);
}

}  // namespace

Pipes::Ticket::Ticket(std::shared_ptr<Pipes> pipes, std::uint64_t client, Take take)
    : pipes_(std::move(pipes)), client_(client), text_(random_hex(ticket_bytes)) {
  pipes_->expected_.emplace(std::pair(client_, text_), std::move(take));
}

Pipes::Ticket::~Ticket() { pipes_->expected_.erase(std::pair(client_, text_)); }

void Pipes::carried(const rpc::Connection& client, const std::shared_ptr<Streams>& by, std::uint64_t stream) {
  carriers_.insert_or_assign(client.number(), Carrier{by, stream});
}

void Pipes::end_of(const rpc::Connection& client) { carriers_.erase(client.number()); }

std::unique_ptr<Transport> Pipes::open_before(std::uint64_t client, const std::string& ticket) const {
  const auto carrier = carriers_.find(client);
  const std::shared_ptr<Streams> streams = carrier == carriers_.end() ? nullptr : carrier->second.streams.lock();
  if (!streams) {
    return nullptr;
  }
  return streams->open(json{{"kind", "pipe"}, {"of", carrier->second.stream}, {"ticket", ticket}});
}

std::unique_ptr<Transport> Pipes::open(const rpc::Connection& client, const std::string& ticket) {
  if (const auto expected = expected_.find(std::pair(client.number(), ticket)); expected != expected_.end()) {
    auto [ours, theirs] = make_memory_pipe(client.executor());
    expected->second(std::move(theirs));
    return std::move(ours);
  }
  std::unique_ptr<Transport> pipe = open_before(client.number(), ticket);
  if (!pipe) {
    throw no_way_back();
  }
  return pipe;
}

void Pipes::pass_on(const std::shared_ptr<rpc::Connection>& client, const json& what, std::unique_ptr<Transport> pipe) {
  const auto ticket = what.find("ticket");
  if (ticket == what.end() || !ticket->is_string()) {
    throw Error(Fault::HostProtocol, "a pipe without a ticket");
  }
  const auto& text = ticket->get_ref<const std::string&>();
  if (const auto expected = expected_.find(std::pair(client->number(), text)); expected != expected_.end()) {
    expected->second(std::move(pipe));
    return;
  }
  std::unique_ptr<Transport> before = open_before(client->number(), text);
  if (!before) {
    throw Error(Fault::NotPermitted, "a pipe that nobody asked for");
  }
  splice(client, std::move(pipe), std::move(before));
}

Task<> write_all(Transport& to, std::string_view data) {
  while (!data.empty()) {
    data.remove_prefix(to.try_write(data));
    if (!data.empty()) {
      co_await to.writable();
    }
  }
}

namespace {

/// One direction ends where its input does. A side that takes nothing more ends both, once what it said is delivered.
struct Spliced {
  struct Side {
    std::unique_ptr<Transport> transport;
    bool gone = false;         // takes nothing more
    bool input_ended = false;  // all it said has been delivered
  };
  Side one;
  Side other;
  std::function<void()> ended;
  Event over;
  bool closed = false;

  void look() {
    if ((one.input_ended && other.input_ended) || (one.gone && one.input_ended) || (other.gone && other.input_ended)) {
      close();
    }
  }

  void close() {
    if (!std::exchange(closed, true)) {
      one.transport->close();
      other.transport->close();
      over.notify();
      if (ended) {
        ended();
      }
    }
  }
};

/// 0 also where the connection was reset: then it takes nothing more either, and what it had said has been read.
Task<std::size_t> read_from(Spliced::Side& side, std::span<char> buffer) {
  try {
    co_return co_await side.transport->read_some(buffer);
  } catch (const Error&) {
    side.gone = true;
  }
  co_return 0;
}

Task<> pump(std::shared_ptr<Spliced> spliced, Spliced::Side& from, Transport& to) {
  std::vector<char> buffer(piece_bytes);
  while (const std::size_t n = co_await read_from(from, buffer)) {
    co_await write_all(to, std::string_view(buffer.data(), n));
  }
  to.end_output();
  from.input_ended = true;
  spliced->look();
}

Task<> watch(std::shared_ptr<Spliced> spliced, Spliced::Side& side) {
  if (co_await side.transport->gone()) {
    side.gone = true;
    spliced->look();
  }
}

Task<> end_with(std::shared_ptr<Spliced> spliced, std::shared_ptr<rpc::Connection> client) {
  Waiter waiter(client->executor());
  waiter.subscribe(client->closed());
  waiter.subscribe(spliced->over);
  while (!client->is_closed() && !spliced->closed) {
    co_await waiter.until(never);
  }
  spliced->close();
}

}  // namespace

void splice(std::shared_ptr<rpc::Connection> client, std::unique_ptr<Transport> one, std::unique_ptr<Transport> other,
            std::function<void()> ended) {
  const auto spliced = std::make_shared<Spliced>();
  spliced->one.transport = std::move(one);
  spliced->other.transport = std::move(other);
  spliced->ended = std::move(ended);
  // What cannot be delivered ends its direction; the other may still have something to say.
  const auto undelivered = [spliced](Spliced::Side& from, Spliced::Side& to) {
    return [spliced, &from, &to](const std::exception_ptr& failure) {
      if (failure) {
        from.input_ended = true;
        to.gone = true;
        spliced->look();
      }
    };
  };
  const Executor executor = client->executor();
  spawn(executor, pump(spliced, spliced->one, *spliced->other.transport), undelivered(spliced->one, spliced->other));
  spawn(executor, pump(spliced, spliced->other, *spliced->one.transport), undelivered(spliced->other, spliced->one));
  spawn(executor, watch(spliced, spliced->one));
  spawn(executor, watch(spliced, spliced->other));
  spawn(executor, end_with(spliced, std::move(client)));
}

}  // namespace rex::relay
