// The methods of the contract, bound to what does the work. One line per method; no logic of its own.
#pragma once

#include <memory>
#include <string>

#include "relay/hosts.h"
#include "relay/pipes.h"
#include "rpc/method_table.h"
#include "shell/nursery.h"
#include "shell/sessions.h"

namespace rex::methods {

class Attachments;
class HostsFile;
class Keepers;
class KeyStore;
class Keys;

/// What the methods are bound to. What is referred to must outlive the table.
struct Parts {
  Executor executor;
  std::string instance;  // our name
  shell::Nursery& nursery;
  shell::Sessions& sessions;
  Keys& keys;
  KeyStore& key_store;
  Workers& workers;
  relay::Hosts& hosts;
  HostsFile& hosts_file;
  std::shared_ptr<relay::Pipes> pipes;
  rpc::Service& router;  // for what a method asks of another host
  Keepers* keepers;      // null in a process that keeps a session itself
};

/// Binds every method of the schema.
void bind_all(rpc::MethodTable& table, const Parts& parts);

void bind_base(rpc::MethodTable& table, Executor executor, std::string instance, const shell::Sessions& sessions);
void bind_sessions(rpc::MethodTable& table, Executor executor, shell::Sessions& sessions, Keys& keys);
void bind_lifetimes(rpc::MethodTable& table, shell::Sessions& sessions, Keys& keys, KeyStore& store, Keepers* keepers);
void bind_attachments(rpc::MethodTable& table, shell::Sessions& sessions, const std::shared_ptr<Attachments>& all);
void bind_processes(rpc::MethodTable& table, Executor executor, shell::Nursery& nursery);
void bind_files(rpc::MethodTable& table, Workers& workers, KeyStore& store);
void bind_search(rpc::MethodTable& table, Executor executor);
void bind_hosts(rpc::MethodTable& table, relay::Hosts& hosts, HostsFile& file);
void bind_copies(rpc::MethodTable& table, rpc::Service& router, std::shared_ptr<relay::Pipes> pipes, Workers& workers);
void bind_forwards(rpc::MethodTable& table, rpc::Service& router, std::shared_ptr<relay::Pipes> pipes,
                   Workers& workers);
void bind_watch(rpc::MethodTable& table, Executor executor, const std::shared_ptr<Attachments>& all);

/// Why a connection closed when its client sent `exit`.
inline constexpr std::string_view exit_reason = "exit";

/// Whom a session belongs to that this connection created.
shell::Owner owner_of(const rpc::Connection& connection);

}  // namespace rex::methods
