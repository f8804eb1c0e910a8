#include "cli/server.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/incidents.h"
#include "base/secret.h"
#include "base/time.h"
#include "base/watchdog.h"
#include "cli/instances.h"
#include "cli/keep.h"
#include "cli/spawner.h"
#include "hosts/dial.h"
#include "hosts/target.h"
#include "transports/unix.h"

namespace rex::cli {
namespace {

// A client that is gone waits for nobody: its sessions get this long to end by themselves before they are killed.
constexpr Milliseconds farewell{300};

// What its clients get to take their last answers, and how often it is looked whether they have.
constexpr Milliseconds answering{2000};
constexpr Milliseconds answering_look{5};

// What tasks of closed sessions may need to notice. Nothing is lost if they do not.
constexpr Milliseconds last_turns{100};

// How long programs that led to other machines may take to end by themselves: a container is removed meanwhile. All
// three together are no more than the second that a client who is gone leaves us.
constexpr Milliseconds programs_farewell{600};

// An instance that lives shorter than this never touches the runtime directory, and no first answer waits for it.
constexpr Milliseconds before_publishing{20};

std::string new_instance_name() {
  const timespec now = now_utc();
  char text[40];
  const auto moment = static_cast<unsigned>(now.tv_sec * 1000 + now.tv_nsec / 1'000'000);
  std::snprintf(text, sizeof text, "%d-%08x", static_cast<int>(getpid()), moment);
  return text;
}

/// For the process of a session, which is asked for that alone, and reaps none of its children (keep.cc).
Task<relay::Reached> dial_nothing(relay::Target /*target*/, relay::Attempt& /*attempt*/) {
  throw Error(Fault::NotPermitted, "the process of a session leads nowhere; ask an instance");
  co_return relay::Reached{};
}

}  // namespace

Server::Server(shell::Nursery& nursery, std::size_t journal_memory, bool keeps)
    : instance_(new_instance_name()),
      sessions_(loop_.get_executor(), nursery, workers_, journal_memory),
      keys_(loop_.get_executor()),
      key_store_(loop_.get_executor(), workers_, methods::default_key_directory()),
      hosts_file_(methods::default_hosts_file(), [](const relay::Target& target) { hosts::parse_target(target); }),
      hosts_(
          instance_,
          keeps ? relay::Dialer(dial_nothing)
                : hosts::make_dialer(loop_.get_executor(), make_spawner(loop_.get_executor(), nursery, started_)),
          [this](const std::string& name) {
            return relay::is_unnamed(name) ? methods::Keepers::known(name) : hosts_file_.find(name);
          },
          pipes_),
      keepers_(keeps ? nullptr
                     : std::make_unique<methods::Keepers>(
                           loop_.get_executor(), hosts_, sessions_, workers_,
                           make_keeper_starter(loop_.get_executor(), nursery, journal_memory))),
      router_(
          table_, hosts_, pipes_, [this](std::unique_ptr<Transport> stream) { return serve_stream(std::move(stream)); },
          keepers_.get()),
      workers_(loop_.get_executor()) {
  keep_memory_out_of_core_dumps();  // what clients send is in it
  const methods::Parts parts{
      loop_.get_executor(), instance_, nursery, sessions_,     keys_, key_store_, workers_, hosts_,
      hosts_file_,          pipes_,    router_, keepers_.get()};
  methods::bind_all(table_, parts);
}

std::shared_ptr<rpc::Connection> Server::connect(std::unique_ptr<Transport> transport,
                                                 rpc::Connection::Options options) {
  options.number = next_client_++;
  options.log = [](std::string_view line) { spdlog::info("{}", line); };
  options.incident = [this](std::string_view line) { tell_incident(std::string(line)); };
  return std::make_shared<rpc::Connection>(loop_.get_executor(), std::move(transport), router_, std::move(options));
}

/// By a worker: the home of a user may hang.
void Server::tell_incident(std::string line) {
  spdlog::error("{}", line);
  spawn(loop_.get_executor(), workers_.run([line = std::move(line)] { note_incident(line); }),
        [](const std::exception_ptr&) {});
}

void Server::run() {
  {
    const Watchdog watchdog(loop_.get_executor(), keepers_ != nullptr);  // a session's process has something to lose
    loop_.run();
  }
  router_.end();
  loop_.restart();
  loop_.run_for(last_turns);
}

Task<> Server::serve(std::shared_ptr<rpc::Connection> connection) {
  clients_[connection->number()] = connection;
  co_await connection->run();
  router_.end_of(*connection);
  co_await sessions_.close_all_of(methods::owner_of(*connection), farewell);
  clients_.erase(connection->number());
  changed_.notify();
}

void Server::listen(std::shared_ptr<transports::Listener> listener, Admits admits) {
  listeners_.push_back(listener);
  spawn(loop_.get_executor(), accept_clients(std::move(listener), std::move(admits)));
}

bool Server::is_full() const {
  const auto is_known = [](const auto& client) { return !client.second->lifecycle().is_stranger(); };
  return clients_.size() >= max_clients &&
         static_cast<std::size_t>(std::count_if(clients_.begin(), clients_.end(), is_known)) >= max_clients;
}

bool Server::owes_answers() const {
  return std::any_of(clients_.begin(), clients_.end(), [](const auto& client) {
    return client.second->in_flight() != 0 || client.second->unsent_bytes() != 0;
  });
}

Task<> Server::until_answered(TimePoint deadline) {
  Waiter waiter(loop_.get_executor());
  while (owes_answers() && Clock::now() < deadline) {
    co_await waiter.until(Clock::now() + answering_look);
  }
}

Task<> Server::accept_clients(std::shared_ptr<transports::Listener> listener, Admits admits) {
  while (std::unique_ptr<Transport> transport = co_await listener->accept()) {
    if (is_full() || ending_) {
      spdlog::warn("a client was turned away: {} are being served", clients_.size());
      continue;
    }
    rpc::Connection::Options options;
    options.trusted = listener->vouches();
    options.admits = admits;
    const std::shared_ptr<rpc::Connection> client = connect(std::move(transport), std::move(options));
    if (!listener->vouches()) {
      strangers_.watch(client);
    }
    serve_beside(client);
  }
}

void Server::serve_beside(const std::shared_ptr<rpc::Connection>& client) {
  spawn(loop_.get_executor(), serve(client), [this](std::exception_ptr failure) {
    if (failure) {
      tell_incident("a client was served badly");
    }
  });
}

/// A client that comes through another instance.
std::shared_ptr<rpc::Connection> Server::serve_stream(std::unique_ptr<Transport> stream) {
  std::shared_ptr<rpc::Connection> client = connect(std::move(stream));
  serve_beside(client);
  return client;
}

void Server::publish() { spawn(loop_.get_executor(), publish_soon()); }

Task<> Server::publish_soon() {
  Waiter waiter(loop_.get_executor());
  waiter.subscribe(changed_);
  const TimePoint begin = Clock::now();
  while (!ending_ && Clock::now() < begin + before_publishing) {
    co_await waiter.until(begin + before_publishing);
  }
  if (ending_) {
    co_return;
  }
  try {
    const auto directory = std::make_shared<transports::PrivateDirectory>(transports::runtime_directory());
    listen(std::make_shared<transports::UnixListener>(loop_.get_executor(), directory,
                                                      instance_ + std::string(transports::socket_suffix)));
  } catch (const Error& error) {
    spdlog::warn("other programs cannot find this instance: {}", error.message());
  }
}

void Server::end_politely() { spawn(loop_.get_executor(), end_after_answers()); }

Task<> Server::end_after_answers() {
  ending_ = true;
  for (const auto& [number, client] : clients_) {
    client->lifecycle().shut_down();
  }
  co_await until_answered(Clock::now() + answering);
  end();
}

void Server::end() { spawn(loop_.get_executor(), end_clients()); }

Task<> Server::end_clients() {
  ending_ = true;
  changed_.notify();
  for (const std::shared_ptr<transports::Listener>& listener : listeners_) {
    listener->close();
  }
  listeners_.clear();
  Waiter waiter(loop_.get_executor());
  waiter.subscribe(changed_);
  while (!clients_.empty()) {
    for (const auto& [number, client] : clients_) {
      client->close("the instance ends");
    }
    co_await waiter.until(never);
  }
  router_.end();
  co_await all_let_go(loop_.get_executor(), started_, Clock::now() + programs_farewell);
  loop_.stop();
}

}  // namespace rex::cli
