// libssh, loaded when it is first wanted. Linked with it, every process of ours would carry what libssh stands on,
// OpenSSL and Kerberos among twelve libraries: half a megabyte a daemon session, and half of the time that a start
// takes. Nor would we start where there is none.
#pragma once

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

#include <string>

namespace rex::transports {

// What of it is used. Each is called as `libssh().ssh_new()`.
#define REX_LIBSSH_CALLS(CALL)             \
  CALL(ssh_channel_close)                  \
  CALL(ssh_channel_free)                   \
  CALL(ssh_channel_new)                    \
  CALL(ssh_channel_open_forward)           \
  CALL(ssh_channel_open_session)           \
  CALL(ssh_channel_read_nonblocking)       \
  CALL(ssh_channel_request_env)            \
  CALL(ssh_channel_request_exec)           \
  CALL(ssh_channel_send_eof)               \
  CALL(ssh_channel_window_size)            \
  CALL(ssh_channel_write)                  \
  CALL(ssh_clean_pubkey_hash)              \
  CALL(ssh_connect)                        \
  CALL(ssh_event_add_session)              \
  CALL(ssh_event_dopoll)                   \
  CALL(ssh_event_free)                     \
  CALL(ssh_event_new)                      \
  CALL(ssh_free)                           \
  CALL(ssh_get_error)                      \
  CALL(ssh_get_fd)                         \
  CALL(ssh_get_fingerprint_hash)           \
  CALL(ssh_get_issue_banner)               \
  CALL(ssh_get_publickey_hash)             \
  CALL(ssh_get_server_publickey)           \
  CALL(ssh_get_status)                     \
  CALL(ssh_is_connected)                   \
  CALL(ssh_key_free)                       \
  CALL(ssh_key_type)                       \
  CALL(ssh_key_type_from_name)             \
  CALL(ssh_key_type_to_char)               \
  CALL(ssh_known_hosts_parse_line)         \
  CALL(ssh_knownhosts_entry_free)          \
  CALL(ssh_new)                            \
  CALL(ssh_options_get)                    \
  CALL(ssh_options_get_port)               \
  CALL(ssh_options_parse_config)           \
  CALL(ssh_options_set)                    \
  CALL(ssh_pki_export_pubkey_base64)       \
  CALL(ssh_pki_import_privkey_file)        \
  CALL(ssh_pki_import_pubkey_base64)       \
  CALL(ssh_pki_import_pubkey_file)         \
  CALL(ssh_pki_key_ecdsa_name)             \
  CALL(ssh_set_agent_socket)               \
  CALL(ssh_set_blocking)                   \
  CALL(ssh_set_channel_callbacks)          \
  CALL(ssh_string_free_char)               \
  CALL(ssh_userauth_agent)                 \
  CALL(ssh_userauth_kbdint)                \
  CALL(ssh_userauth_kbdint_getinstruction) \
  CALL(ssh_userauth_kbdint_getnprompts)    \
  CALL(ssh_userauth_kbdint_getprompt)      \
  CALL(ssh_userauth_kbdint_setanswer)      \
  CALL(ssh_userauth_list)                  \
  CALL(ssh_userauth_none)                  \
  CALL(ssh_userauth_password)              \
  CALL(ssh_userauth_publickey)             \
  CALL(ssh_userauth_try_publickey)         \
  CALL(ssh_version)

struct LibsshCalls {
#define REX_POINTER(name) decltype(&::name) name = nullptr;  // NOLINT: a declaration takes no parentheses
  REX_LIBSSH_CALLS(REX_POINTER)
#undef REX_POINTER
  std::string missing;  // why none may be called, in the loader's words; empty when all may
};

/// The same for all threads, for as long as we live.
const LibsshCalls& libssh();

/// A copy of what libssh gave us, which it gets back. Empty for none.
std::string taken(char* text);

}  // namespace rex::transports
