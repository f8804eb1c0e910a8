#include "transports/ssh_session.h"

#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <utility>

#include "transports/ssh_auth.h"
#include "transports/ssh_config.h"
#include "transports/ssh_known_hosts.h"
#include "transports/ssh_pump.h"
#include "transports/ssh_talk.h"

namespace rex::transports {
namespace {

// Match exec may run anything, and canonical names are looked up.
constexpr Milliseconds configuration_patience{20'000};
constexpr std::size_t max_legs = 8;
constexpr std::size_t no_deeper = max_legs;  // the jump hosts of this one are not asked for

struct Place {
  std::string user;
  std::string host;
  int port = 0;
};

/// `[user@]host[:port]`, as ProxyJump has it; an address in brackets may hold colons.
Place parse_jump(std::string_view text) {
  Place place;
  if (const std::size_t at = text.rfind('@'); at != std::string_view::npos) {
    place.user = text.substr(0, at);
    text.remove_prefix(at + 1);
  }
  std::string_view port;
  if (const std::size_t bracket = text.find(']'); text.starts_with('[') && bracket != std::string_view::npos) {
    place.host = text.substr(1, bracket - 1);
    port = text.substr(bracket + 1);
  } else {
    place.host = text.substr(0, text.find(':'));
    port = text.substr(place.host.size());
  }
  if (port.starts_with(':')) {
    std::from_chars(port.data() + 1, port.data() + port.size(), place.port);
  }
  return place;
}

SshConfig configuration_of(const Place& place, const Hangup& hangup) {
  const Ran ran =
      run_program(ssh_config_argv(place.user, place.host, place.port), hangup, Clock::now() + configuration_patience);
  if (!ran.started) {
    return read_config_with_libssh(place.user, place.host, place.port);
  }
  if (ran.code != 0) {
    throw unreachable("dns", "ssh -G " + place.host + " says: " + ran.err);
  }
  return read_ssh_config(ran.out);
}

/// The legs to `place`, its jump hosts and theirs first. The first jump host is reached as its own configuration says,
/// the others through the one before, as with `ssh -J`.
void plan(const Place& place, const std::string& name, std::size_t depth, const Hangup& hangup,
          std::vector<SshLeg>& legs) {
  SshConfig config = configuration_of(place, hangup);
  if (depth < no_deeper && depth + config.jumps.size() >= max_legs) {
    throw unreachable("dns", "more than " + std::to_string(max_legs) + " jump hosts");
  }
  if (depth < no_deeper) {
    for (std::size_t i = 0; i < config.jumps.size(); ++i) {
      plan(parse_jump(config.jumps[i]), config.jumps[i], i == 0 ? depth + 1 : no_deeper, hangup, legs);
    }
  }
  if (config.own_ssh.empty()) {
    if (const std::string where = certificate_authority_of(config); !where.empty()) {
      config.own_ssh = "the certificate authority of " + where;
    }
  }
  auto server = std::make_unique<Libssh>(config, hangup);
  if (config.own_ssh.empty()) {
    config.own_ssh = server->cannot();
  }
  legs.push_back({std::move(config), name, std::move(server), {}});
}

Error at_jump_host(const std::string& name, const Error& error) {
  const std::string where = "at the jump host " + printable(name) + ": ";
  Error located(error.fault(), where + error.message());
  for (const auto& [fact, value] : error.facts()) {
    const auto* text = std::get_if<std::string>(&value);
    located = std::move(located).with(fact, fact == "detail" && text != nullptr ? Fact(where + *text) : value);
  }
  return located;
}

/// Kept open by a jump host: what is written to the returned socket comes out at `next`.
Fd carry_to(const SshLeg& next, SshLeg& jump, Conversation& person) {
  person.phase("channel", "through " + jump.name + " to " + next.config.hostname);
  jump.server->open_forward(next.config.hostname, next.config.port);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    throw os_error("cannot make a socket pair", errno);
  }
  Fd wire(ends[0]);
  jump.carrier = std::thread([server = jump.server.get(), data = Fd(ends[1])] { pump(*server, data.get()); });
  return wire;
}

/// Handshake, host key and authentication. Returns how, in words.
std::string log_in(SshLeg& leg, Fd wire, Conversation& person) {
  person.phase("kex", leg.name);
  leg.server->exchange_keys(std::move(wire));
  const SshPublicKey key = leg.server->host_key();
  person.phase("host key", key.type + " " + key.fingerprint);
  check_host_key(leg.config, key, person);
  person.phase("auth", leg.config.user + " at " + leg.name);
  const std::string how = authenticate(*leg.server, leg.config, person);
  return "host key " + key.type + " " + key.fingerprint + ", " + how;
}

std::string connect(SshRoute& route, const SshJob& job, Conversation& person, const Hangup& hangup) {
  const SshConfig& first = route.legs.front().config;
  Endpoint endpoint{first.hostname, first.port, first.family, first.bind_address, first.tcp_keepalive};
  if (first.connect_seconds > 0) {
    endpoint.patience = std::chrono::seconds(first.connect_seconds);
  }
  Connected connected = connect_tcp(
      endpoint, hangup, [&](std::string_view phase, std::string_view detail) { person.phase(phase, detail); });
  std::string took =
      Libssh::version() + " to " + connected.address + ", configuration: " + route.legs.back().config.source;
  Fd wire = std::move(connected.socket);
  for (std::size_t i = 0; i < route.legs.size(); ++i) {
    SshLeg& leg = route.legs[i];
    const bool last = i + 1 == route.legs.size();
    try {
      const std::string how = log_in(leg, std::exchange(wire, Fd()), person);
      took += (last ? ", " : ", jump host " + leg.name + ": ") + how;
      if (!last) {
        wire = carry_to(route.legs[i + 1], leg, person);
      }
    } catch (const Error& error) {
      if (last || error.fault() == Fault::RequestCancelled) {
        throw;
      }
      throw at_jump_host(leg.name, error);
    }
  }
  person.phase("channel", "starting the command");
  route.legs.back().server->open_command(job.target.command, route.legs.back().config.environment);
  return took;
}

void open(const SshJob& job, SshRoute& route) {
  if (const std::string why = Libssh::missing(); !why.empty()) {
    send_message(job.talk.get(), {SshMessage::Kind::own_ssh, {printable(why)}});
    return;
  }
  const Hangup hangup(job.talk.get());
  Conversation person(job.talk.get());
  plan({job.target.user, job.target.host, job.target.port}, job.target.host, 0, hangup, route.legs);
  for (const SshLeg& leg : route.legs) {
    if (!leg.config.own_ssh.empty()) {
      const std::string why = "libssh cannot do this of the configuration: " + printable(leg.config.own_ssh);
      send_message(job.talk.get(), {SshMessage::Kind::own_ssh, {why}});
      return;
    }
  }
  const std::string took = connect(route, job, person, hangup);
  send_message(job.talk.get(), {SshMessage::Kind::open, {took}});
}

}  // namespace

std::string SshRoute::end() {
  std::string words;
  for (; !legs.empty(); legs.pop_back()) {
    SshLeg& leg = legs.back();
    if (leg.carrier.joinable()) {
      leg.carrier.join();
      if (const std::string said = leg.server->last_words(); !said.empty()) {
        words += "; the jump host " + leg.name + ": " + said;
      }
    }
    leg.server.reset();
  }
  return words;
}

void run_ssh(const SshJob& job, SshRoute& route) noexcept {
  try {
    open(job, route);
  } catch (const Error& error) {
    send_message(job.talk.get(), message_of(error));
  } catch (const std::exception& error) {
    send_message(job.talk.get(), message_of(Error(Fault::InternalError, error.what())));
  }
}

}  // namespace rex::transports
