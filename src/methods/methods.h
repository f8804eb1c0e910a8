// The methods of the contract, bound to what does the work. One line per method; no logic of its own.
#pragma once

#include "rpc/method_table.h"
#include "shell/nursery.h"
#include "shell/sessions.h"

namespace rex::methods {

/// Binds every method of the schema. What is passed by reference must outlive the table; `instance` is our name.
void bind_all(rpc::MethodTable& table, Executor executor, std::string instance, shell::Nursery& nursery,
              shell::Sessions& sessions, Workers& workers);

void bind_base(rpc::MethodTable& table, Executor executor, std::string instance, const shell::Sessions& sessions);
void bind_sessions(rpc::MethodTable& table, Executor executor, shell::Sessions& sessions);
void bind_attachments(rpc::MethodTable& table, shell::Sessions& sessions);
void bind_processes(rpc::MethodTable& table, Executor executor, shell::Nursery& nursery);
void bind_files(rpc::MethodTable& table, Workers& workers);

/// Why a connection closed when its client sent `exit`.
inline constexpr std::string_view exit_reason = "exit";

/// Whom a session belongs to that this connection created.
shell::Owner owner_of(const rpc::Connection& connection);

}  // namespace rex::methods
